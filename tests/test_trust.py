"""Modules that files name are imported only where the user named them or made the file."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import tiny

import trimtab
from trimtab import cli
from trimtab.config import Config
from trimtab.core import reading, trust
from trimtab.core.errors import RunError
from trimtab.experiments import catalogue
from trimtab.libraries.common.foreign_log import read_log
from trimtab.studies import job as jobs
from trimtab.studies.executor import Inline
from trimtab.studies.store import Store
from trimtab.studies.study_engine import ExecutionOptions
from trimtab.training.records import Manifest
from trimtab.training.run_dir import RunDir

EVIL = """
import pathlib
pathlib.Path("imported").touch()
import gymnasium
import numpy as np

class Env(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}
"""
SMALL = [
    "--num-envs",
    "1",
    "--num-steps",
    "4",
    "--total-timesteps",
    "8",
    "--num-minibatches",
    "1",
    "--eval-every",
    "0",
    "--quiet",
]


@pytest.fixture(autouse=True)
def stranger(runs, monkeypatch):
    """A directory with a module that shows when it is imported; nothing is trusted, and no run is listed."""
    (runs / "evil.py").write_text(EVIL)
    monkeypatch.setenv("TRIMTAB_STATE", str(runs / "state"))
    monkeypatch.setattr(trust, "_trusted", set())
    monkeypatch.syspath_prepend(str(runs))
    yield runs
    sys.modules.pop("evil", None)


def imported() -> bool:
    return Path("imported").exists()


def forget(monkeypatch) -> None:
    """As in a new process, in which nothing was named or imported yet."""
    Path("imported").unlink(missing_ok=True)
    sys.modules.pop("evil", None)
    monkeypatch.setattr(trust, "_trusted", set())


def a_foreign_run(path: Path, **fields) -> Path:
    """A run whose configuration names the module, made by somebody else."""
    config = tiny.config(env_id="evil:Env", total_timesteps=8, num_steps=4, **fields)
    RunDir.create(path, config, Manifest())
    shutil.rmtree("state", ignore_errors=True)
    return path


def a_log(path: Path) -> Path:
    path.mkdir()
    columns = "time/total_timesteps,rollout/ep_rew_mean,train/clip_fraction,train/n_updates"
    rows = "".join(f"{512 * k},{k}.0,0.1,{k * 4}\n" for k in range(1, 9))
    (path / "progress.csv").write_text(f"{columns}\n{rows}")
    (path / "0.monitor.csv").write_text('#{"t_start": 1.0, "env_id": "evil:Env"}\nr,l,t\n1.0,20,1.5\n')
    return path


def test_a_log_cannot_name_a_module_to_import(capsys):
    with reading.collect_problems() as problems:
        assert read_log(a_log(Path("log"))).details.action is None
    assert not imported() and len(problems) == 1 and "--trust evil" in problems[0]
    assert cli.main(["doctor", "log"]) == 0
    assert not imported() and "--trust evil" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--trust", "evil"], ["env_id=evil:Env"]])
def test_a_module_that_the_user_names_is_imported(words):
    a_log(Path("log"))
    assert cli.main(["doctor", "log", *words]) == 0
    assert imported()


@pytest.mark.parametrize("command", ["eval", "probe", "watch", "resume", "repeat", "plan", "show", "doctor", "export"])
def test_no_command_imports_the_module_of_a_foreign_run(command, capsys):
    a_foreign_run(Path("foreign"))
    more = ["--to", "numpy"] if command == "export" else []
    try:
        cli.main([command, "foreign", *more])
    except SystemExit as end:
        assert end.code == 2
    assert not imported() and "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["train", "--from", "foreign"], ["split", "--run", "foreign"], ["repeat", "foreign"]]
)
def test_commands_that_take_fields_from_a_run_say_how_to_allow_its_module(words, capsys, monkeypatch):
    assert cli.main(["train", "evil:Env", "--run-dir", "foreign", *SMALL]) == 0
    shutil.rmtree("state")
    forget(monkeypatch)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    error = capsys.readouterr().err
    assert not imported() and "--trust evil" in error and error.count("\n") == 1


def test_functions_of_modules_that_are_loaded_already_are_not_called_either():
    """`os:system` needs no import: what is asked about is the name, not whether something new is loaded."""
    config = Config(env_id="os:system", env_kwargs={"command": "touch imported"})
    RunDir.create("foreign", config, Manifest())
    shutil.rmtree("state")
    with pytest.raises(trust.Untrusted):
        trimtab.evaluate("foreign")
    assert not imported()


def test_a_run_made_here_is_known_again(monkeypatch):
    assert cli.main(["train", "evil:Env", "--run-dir", "mine", *SMALL]) == 0
    forget(monkeypatch)
    assert cli.main(["resume", "mine", "--total-timesteps", "16", "--quiet"]) == 0
    assert imported()
    forget(monkeypatch)
    os.rename("mine", "elsewhere")
    assert cli.main(["repeat", "elsewhere", "--quiet"]) == 0
    assert imported()


@pytest.mark.parametrize("change", ["module", "options", "id", "state"])
def test_a_run_that_was_changed_is_not_taken_for_one_made_here(change, monkeypatch):
    assert cli.main(["train", "evil:Env", "--run-dir", "mine", *SMALL]) == 0
    forget(monkeypatch)
    config, manifest = Path("mine/config.yaml"), Path("mine/manifest.json")
    if change == "module":
        shutil.copy("evil.py", "worse.py")
        config.write_text(config.read_text().replace("evil:Env", "worse:Env"))
    elif change == "options":
        config.write_text(config.read_text().replace("env_kwargs: null", "env_kwargs: {a: 1}").replace("{}", "{a: 1}"))
        assert "a: 1" in config.read_text()
    elif change == "id":
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"id": "../../outside"}))
    else:
        shutil.rmtree("state")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["eval", "mine"])
    assert not imported()


def test_a_configuration_passed_on_the_command_line_names_its_module():
    config = tiny.config(env_id="evil:Env", total_timesteps=8, num_steps=4, num_minibatches=1)
    Path("own.yaml").write_text(json.dumps(config.as_dict()))
    assert cli.main(["train", "--config", "own.yaml", "--run-dir", "mine", "--quiet"]) == 0


def test_python_names_modules_by_what_it_is_given():
    fields = {"num_envs": 1, "num_steps": 4, "num_minibatches": 1, "hidden_sizes": (4,), "eval_every": 0}
    trimtab.train("evil:Env", "first", total_timesteps=8, **fields)
    trust._trusted.clear()
    trimtab.train(tiny.config(env_id="evil:Env", total_timesteps=8, num_steps=4, num_minibatches=1), "second")


def test_python_allows_a_module_with_trust():
    a_foreign_run(Path("foreign"), num_minibatches=1)
    with pytest.raises(trust.Untrusted, match=r"trimtab\.trust\('evil'\)"):
        trimtab.resume("foreign")
    assert not imported()
    trimtab.trust("evil")
    assert trimtab.resume("foreign").finished


# Studies and jobs ------------------------------------------------------------------------------------------


def a_study(path: Path) -> None:
    words = ["--seeds", "2", "--on", "inline", "--run-dir", str(path), *SMALL]
    assert cli.main(["train", "evil:Env", *words]) == 0


def test_a_study_made_here_is_resumed_and_a_foreign_one_is_not(monkeypatch):
    a_study(Path("mine"))
    shutil.rmtree("mine/store")
    forget(monkeypatch)
    assert cli.main(["resume", "mine", "--on", "inline", "--quiet"]) == 0
    assert imported()
    shutil.rmtree("mine/store")
    shutil.rmtree("state")
    forget(monkeypatch)
    with pytest.raises(SystemExit):
        cli.main(["resume", "mine", "--on", "inline", "--quiet"])
    assert not imported()
    assert cli.main(["resume", "mine", "--on", "inline", "--quiet", "--trust", "evil"]) == 0


def test_the_store_that_a_foreign_study_names_is_not_written_to(stranger, capsys):
    a_study(Path("mine"))
    file = Path("mine/study.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"store": str(stranger / "precious")}))
    with pytest.raises(RunError, match=r"name it yourself: trimtab resume mine --store"):
        catalogue.resume(Path("mine"), ExecutionOptions(on="inline"))
    assert not Path("precious").exists()


def test_a_job_cannot_name_a_module_to_import():
    with pytest.raises(trust.Untrusted):
        jobs.from_dict({"kind": "evil:Env"})
    assert not imported()


def test_workers_may_import_what_the_process_that_started_them_may(monkeypatch):
    from trimtab.studies.local_workers import Local

    job = jobs.Train(tiny.config(env_id="evil:Env", total_timesteps=8, num_steps=4, num_minibatches=1))
    local = Local(1)
    try:
        with pytest.raises(trust.Untrusted):
            list(local.run([job], Store(Path("store"))))
        assert not imported()
        trust.trust("evil")
        (outcome,) = local.run([job], Store(Path("store")))
        assert outcome.done and imported()
    finally:
        local.close()
    forget(monkeypatch)
    RunDir(outcome.path).config()  # made by a worker of this user
    assert trust.trusted() == ["evil"]


def test_an_inline_job_of_a_foreign_configuration_is_refused():
    job = jobs.Train(tiny.config(env_id="evil:Env", total_timesteps=8, num_steps=4, num_minibatches=1))
    (outcome,) = Inline().run([job], Store(Path("store")))
    assert "--trust evil" in outcome.error and not imported()
