"""The Python functions: what the command line does, for an id, a path, a Config or a Run alike."""

import dataclasses
import importlib
import inspect
import json
import re
import subprocess
import sys
import types
import typing

import numpy as np
import pytest
import tiny

import trimtab
from trimtab import api, cli, operations
from trimtab.config import Config, ConfigError
from trimtab.core.errors import RunError
from trimtab.core.fields import declaration
from trimtab.core.options import NOT_GIVEN
from trimtab.operations import HELP
from trimtab.operations.declaration import python_call, python_function
from trimtab.operations.sources import Progressing
from trimtab.operations.study import StudyRun
from trimtab.training.progress import Progress
from trimtab.training.records import EnvironmentRecord, Manifest, MetricsRow
from trimtab.training.run_dir import RunDir


@pytest.fixture
def run(tmp_path):
    """A run of four iterations, written without training."""
    config = tiny.config(learning_rate=1e-3)
    files = RunDir.create(tmp_path / "written", config, Manifest(environment=EnvironmentRecord(time_limit=500)))
    numbers = [{"time/fps": 100.0, "rollout/ep_rew_mean": 10.0 * (k + 1)} for k in range(4)]
    files.append_metrics([MetricsRow(k + 1, 16 * (k + 1), numbers[k]) for k in range(4)])
    files.write_checkpoint(64, 4, {})
    return trimtab.Run(files.path)


def test_the_public_names_are_listed_and_exist():
    assert dir(trimtab) == sorted(trimtab.__all__)
    for name in dir(trimtab):
        assert getattr(trimtab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        trimtab.trian  # noqa: B018


def test_a_split_refuses_what_it_varies_and_what_contradicts_its_run(run, tmp_path):
    with pytest.raises(ConfigError, match="is what a split varies"):
        trimtab.split("CartPole-v1", 64, tmp_path / "out", num_envs=4)
    with pytest.raises(ConfigError, match="too small to split"):
        trimtab.split("CartPole-v1", 0, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"the run .* has"):
        trimtab.split(run, 64, tmp_path / "out", learning_rate=0.5)
    assert not (tmp_path / "out").exists()


def test_studies_from_python_lie_where_the_command_puts_them(monkeypatch, tmp_path):
    begun = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "trimtab.studies.study_engine.run_study", lambda study, out, *rest: begun.append(out) or {"run": ""}
    )
    trimtab.study("paper/published")
    assert begun[0].as_posix() == "runs/study-paper-published-1"


def test_every_command_has_a_function_but_those_for_a_terminal():
    elsewhere = {"doctor": "diagnose", "eval": "evaluate", "show": "load"}
    missing = {name for name in HELP if elsewhere.get(name, name) not in dir(trimtab)}
    assert missing == {"completion", "view"}


@pytest.mark.parametrize("name", api.__all__)
def test_functions_say_their_arguments(name):
    """No function hides arguments behind keywords."""
    function = getattr(api, name)
    assert function.__doc__
    parameters = inspect.signature(function).parameters.values()
    assert not [p.name for p in parameters if p.kind is p.VAR_KEYWORD]


def test_fields_of_a_run_are_parameters_and_have_their_types():
    """Of every function that makes a configuration."""
    types_of_fields = typing.get_type_hints(Config)
    taken = [name for name in api.__all__ if "learning_rate" in inspect.signature(getattr(api, name)).parameters]
    assert {"train", "plan", "split", "tune", "throughput", "configure", "adopt"} == set(taken)
    for name in taken:
        given = typing.get_type_hints(getattr(api, name))
        differing = {field for field, kind in types_of_fields.items() if given[field] != kind}
        assert differing <= {"devices"}  # train also takes "all"


@pytest.mark.parametrize("name", [name for name in HELP if operations.load(name)])
def test_a_command_and_its_function_are_made_of_the_same_options(name):
    """Every option is a parameter of the function and, unless it is for Python only, one of the command."""
    operation = operations.load(name)
    items = {item.name: item for item in dataclasses.fields(operation.options)}
    declared = python_function(operation.options)(operation.function)
    given = inspect.signature(declared).parameters
    of_runs = {item.name for item in dataclasses.fields(Config)} if "learning_rate" in items else set()
    assert set(given) == set(items)
    assert all(f"    {name}: " in declared.__doc__ for name in items.keys() - of_runs)
    typed = {action.dest for action in operation.parser()._actions}
    assert {name for name, item in items.items() if declaration(item).word.shown} <= typed
    for name, item in items.items():
        if item.default is not dataclasses.MISSING and item.default is not NOT_GIVEN:
            assert given[name].default == item.default


@pytest.mark.parametrize("name", api.__all__)
def test_every_parameter_is_documented(name):
    function = getattr(api, name)
    if hasattr(function, "operation"):
        about = function.__doc__
        assert "\nArgs:\n" in about and "\nReturns:\n" in about
        assert not [line for line in about.splitlines() if re.fullmatch(r" +\w+: *", line)]


def test_importing_the_package_and_its_light_functions_loads_no_jax(run):
    code = (
        "import sys, trimtab; r = trimtab.load(sys.argv[1]); repr(r); r._repr_html_(); trimtab.diagnose(r); "
        "trimtab.rescale(r, num_envs=4); trimtab.configure('CartPole-v1')._repr_html_(); dir(trimtab); "
        "trimtab.plan('CartPole-v1'); trimtab.translate('sb3', {}); print('jax' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def on_the_command_line(preset=None, config=None, **flags):
    words = [
        word for name, value in flags.items() for word in (f"--{name}", *([value] if isinstance(value, str) else value))
    ]
    words += [
        word for name, value in (("preset", preset), ("config", config)) if value for word in (f"--{name}", str(value))
    ]
    return operations.load("plan").read(words).options().configuration()


def test_presets_apply_as_on_the_command_line(runs):
    config = trimtab.configure("Pendulum-v1", total_timesteps=50_000)
    assert config == on_the_command_line(env_id="Pendulum-v1", total_timesteps="50_000")
    assert config.norm_obs and config != Config(env_id="Pendulum-v1", total_timesteps=50_000)
    bare = trimtab.configure("Pendulum-v1", preset="none")
    assert bare == Config(env_id="Pendulum-v1")
    sized = trimtab.configure("CartPole-v1", minibatch_size=32)
    assert sized == on_the_command_line(env_id="CartPole-v1", minibatch_size="32") and sized.minibatches == 16
    ewma = trimtab.configure("CartPole-v1", algo="ppo-ewma")
    assert ewma == on_the_command_line(preset="ppo-ewma/CartPole-v1")
    assert trimtab.configure("ppo-ewma/CartPole-v1") == ewma
    (runs / "few.yaml").write_text("env_id: Pendulum-v1\nnum_steps: 64\n")
    assert trimtab.configure("few.yaml") == on_the_command_line(config="few.yaml")


def test_a_config_a_run_and_its_path_are_the_same_source(run):
    config = run.config
    for source in (config, run, run.path, str(run.path)):
        assert trimtab.configure(source) == config
        assert trimtab.configure(source, num_envs=4) == config.replace(num_envs=4)
        assert trimtab.rescale(source, num_envs=4).config == trimtab.rescale(config, num_envs=4).config
    assert trimtab.diagnose(run) == trimtab.diagnose(str(run.path))


def test_mistakes_name_the_nearest(run, runs):
    with pytest.raises(ConfigError, match="num_envs"):
        trimtab.configure("CartPole-v1", num_evns=3)
    with pytest.raises(ConfigError, match="preset"):
        trimtab.configure(run, preset="ppo/CartPole-v1")
    with pytest.raises(RunError, match="a Config is not a run"):
        trimtab.diagnose(run.config)
    with pytest.raises(RunError, match=r"`trimtab\.train` makes one"):
        trimtab.probe("CartPole-v1")
    with pytest.raises(ConfigError, match="at least two"):
        trimtab.compare(run)
    with pytest.raises(ConfigError, match="episodes"):
        trimtab.evaluate(run, episodes=0)
    with pytest.raises(ConfigError, match="start_from"):
        trimtab.train("CartPole-v1", take_optimizer=True)
    assert not list(runs.glob("runs"))


def test_representations_are_short_and_complete(run):
    config = run.config
    assert eval(repr(config), {"Config": Config}) == config  # what differs from the defaults, and nothing else
    assert "adam_beta1" not in repr(config) and repr(Config()) == "Config(env_id='CartPole-v1')"
    assert repr(run).endswith("ppo on CartPole-v1, seed 1; 64 of 64 steps, mean return of the last episodes 40>")
    rescaled = trimtab.rescale(run, num_envs=4)
    assert "num_envs: 2 → 4" in repr(rescaled) and len(repr(rescaled)) < 600
    for shown in (config, run, rescaled):
        html = shown._repr_html_()
        assert html.startswith("<div><b>") and html.count("<tr>") == html.count("</tr>") > 2
    assert "<polyline" in run._repr_html_()
    assert "&lt;b&gt;" in Config(env_id="<b>")._repr_html_()


def test_runs_side_by_side(run, tmp_path, capsys):
    other = RunDir.create(tmp_path / "other", run.config.replace(num_envs=4), Manifest())
    other.append_metrics([MetricsRow(1, 32, {"time/fps": 50.0, "rollout/ep_rew_mean": 7.5})])
    found = trimtab.compare(run, other.path)
    assert found.names == ["written", "other"] and found.differing == {"num_envs": [2, 4]}
    assert found.results["return, last 100 episodes"] == [40.0, 7.5] and found.results["steps"] == [64, 32]
    assert found.curves["other"] == [(32, 7.5)]
    assert all(cells[0] or cells[1] for cells in found.findings.values())
    assert found.runs[1].config.num_envs == 4 and found.runs[1].metrics[0].mean_return == 7.5
    assert "num_envs: 2, 4" in repr(found) and "<th" in found._repr_html_()
    assert cli.main(["compare", str(run.path), str(other.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differing"] == {"num_envs": [2, 4]}
    assert cli.main(["compare", str(run.path), str(other.path)]) == 0
    shown = capsys.readouterr().out
    assert "fields that differ" in shown and "⠀" in shown and "written" in shown
    for line, says in (([run.path, run.path], "named twice"), ([run.path, other.path, "--page", "x.pdf"], "x.html")):
        with pytest.raises(SystemExit):
            cli.main(["compare", *map(str, line)])
        assert says in capsys.readouterr().err


def test_a_page_of_the_comparison_is_written(run, tmp_path, monkeypatch, capsys):
    """What the page looks like is the report's; here, that it is given the runs and written where asked."""
    drawn = types.SimpleNamespace(compare_page=lambda runs: " and ".join(run.name for run in runs))
    monkeypatch.setitem(sys.modules, "trimtab.show.comparison_page", drawn)
    other = RunDir.create(tmp_path / "other", Config(), Manifest())
    page = tmp_path / "page.html"
    assert cli.main(["compare", str(run.path), str(other.path), "--page", str(page)]) == 0
    assert page.read_text() == "written and other" and f"page: {page}" in capsys.readouterr().out


def test_two_runs_of_one_name_are_told_apart(tmp_path):
    for parent in ("a", "b"):
        RunDir.create(tmp_path / parent / "run", Config(), Manifest())
    assert trimtab.compare(tmp_path / "a" / "run", tmp_path / "b" / "run").names == ["a/run", "b/run"]


def test_progress_in_a_notebook_is_one_cell_that_changes(monkeypatch, capsys):
    progress, cells = importlib.import_module("trimtab.training.progress"), []

    class Cell:
        def update(self, bundle, raw):
            cells.append(bundle)

    def display(bundle, raw, display_id):
        cells.append(bundle)
        return Cell()

    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    with Progress(10, "<work>") as bar:
        bar.start()
        bar.update(10, "fast")
    assert [cell["text/plain"] for cell in cells] == ["<work>: compiling", "<work>: 10/10 steps fast"]
    assert 'value="10" max="10"' in cells[-1]["text/html"] and "&lt;work&gt;" in cells[-1]["text/html"]
    assert capsys.readouterr().err == ""


def test_functions_are_silent_unless_someone_is_watching(monkeypatch):
    silent = lambda quiet: Progressing(quiet=quiet).silent
    assert silent(None) and silent(True) and not silent(False)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert not silent(None) and silent(True)


def test_what_other_libraries_and_numpy_call_things_is_understood(run):
    with pytest.raises(ConfigError, match=r"lr=0.001: no such field; here it is learning_rate"):
        trimtab.configure("CartPole-v1", lr=0.001)
    config = trimtab.configure(
        "CartPole-v1", total_timesteps=np.int64(4096), learning_rate=np.float32(0.5), num_envs=8.0
    )
    assert (config.total_timesteps, config.learning_rate, config.num_envs) == (4096, 0.5, 8)
    assert [type(v) for v in (config.total_timesteps, config.learning_rate, config.num_envs)] == [int, float, int]
    with pytest.raises(ConfigError, match=r"num_envs=2\.5: must be a whole number"):
        trimtab.configure("CartPole-v1", num_envs=2.5)
    with pytest.raises(ConfigError, match="is one already"):
        trimtab.configure("ppo/CartPole-v1", preset="none")
    with pytest.raises(ConfigError, match="the same run is named twice"):
        trimtab.compare([run, run])


@pytest.mark.parametrize(
    "function", [trimtab.plan, trimtab.throughput, trimtab.tune, lambda e, **f: trimtab.split(e, 64, **f)]
)
def test_a_constructor_is_refused_where_it_would_be_forgotten(function):
    with pytest.raises(ConfigError, match=r"only `trimtab\.train` takes it"):
        function("CartPole-v1", env=object)


def test_arguments_of_the_wrong_kind_are_named(run):
    with pytest.raises(ConfigError, match="run_dir=1000: must be a directory"):
        trimtab.train("CartPole-v1", 1000)
    with pytest.raises(ConfigError, match=r"episodes=2\.5: must be a whole number"):
        trimtab.evaluate(run, 2.5)


def test_a_study_from_python_records_the_call_that_made_it():
    call = lambda name, *args, **given: python_call(name, operations.load(name).options(*args, **given))
    assert (
        call("split", "Pendulum-v1", 1024, "out", quick=True, gamma=0.9, on="inline")
        == "trimtab.split('Pendulum-v1', 1024, quick=True, gamma=0.9)"
    )
    assert call("tune", Config(), seeds=2, finalists=1) == "trimtab.tune(config, finalists=1)"
    study = python_call("study", StudyRun("post/bias", size="quick", seed=1))
    assert study == "trimtab.study('post/bias', size='quick')"
