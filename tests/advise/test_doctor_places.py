"""`trimtab doctor` of folders, saved models, missing paths and records that grow."""

import json
import zipfile

import pytest

import trimtab
from trimtab.advise.diagnosis import Diagnosis, FolderDiagnosis
from trimtab.cli import main
from trimtab.config import Config
from trimtab.core.errors import RunError
from trimtab.libraries.common.log_doctor import diagnose_place
from trimtab.libraries.common.log_watch import watch_place
from trimtab.training.records import Manifest, MetricsRow
from trimtab.training.run_dir import RunDir

TABLE = (
    "time/total_timesteps,rollout/ep_rew_mean,train/value_loss,train/approx_kl,train/clip_fraction,train/n_updates\n"
)
SIZES = {"n_envs": 4, "n_steps": 128, "batch_size": 128}


def rows(first, last):
    return "".join(f"{512 * k},{20 + k},1.0,0.01,0.05,{10 * k}\n" for k in range(first, last))


def sb3(folder, **changes):
    """A run of Stable-Baselines3 with its saved model; what is pickled in it would not load."""
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text(TABLE + rows(1, 40))
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(SIZES | {"gamma": 0.98, "_total_timesteps": 20480} | changes))
    return folder


def own(folder):
    run = RunDir.create(folder, Config(), Manifest(seed=1))
    run.append_metrics([MetricsRow(k, 512 * k, {"rollout/ep_rew_mean": k}) for k in (1, 2)])
    return folder


def one_line(capsys, *argv):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", *map(str, argv)])
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and not said.out
    return said.err


def test_a_value_out_of_range_is_read_as_the_nearest(tmp_path):
    found = trimtab.diagnose(sb3(tmp_path / "PPO_1", ent_coef=-0.3))
    assert "ent_coef=-0.3 is outside trimtab's range: read as 0" in [f.seen for f in found.findings]


def test_a_folder_gives_a_line_for_each_run_and_lists_what_cannot_be_read(tmp_path, capsys):
    sb3(tmp_path / "logs" / "ppo" / "a")
    sb3(tmp_path / "logs" / "b")
    own(tmp_path / "logs" / "c")
    sb3(tmp_path / "logs" / "broken").joinpath("progress.csv").write_text("time/total_timesteps,loss\n1,2\n")
    (tmp_path / "logs" / "broken" / "model.zip").unlink()
    found = trimtab.diagnose(tmp_path / "logs")
    assert isinstance(found, FolderDiagnosis) and len(found.runs) == 3 and "broken" in found.problems[0]
    assert main(["doctor", str(tmp_path / "logs")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5 and said[3].startswith("not read: ") and said[4].startswith("3 runs. ")
    assert main(["doctor", str(tmp_path / "logs"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3
    assert "--page needs one run" in one_line(capsys, tmp_path / "logs", "--page", tmp_path / "x.html")
    assert main(["doctor", str(tmp_path / "logs" / "c"), "--page"]) == 0
    assert (tmp_path / "logs" / "c" / "doctor.html").is_file()


def test_a_saved_model_alone_and_other_archives(tmp_path, capsys):
    folder = sb3(tmp_path / "PPO_1")
    (folder / "progress.csv").unlink()
    found = diagnose_place(folder / "model.zip")
    assert any("no metrics of training" in f.seen for f in found.findings)
    assert any(f.check == "discount" for f in found.findings), "rules of its hyperparameters apply"
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("notes.txt", "no model")
    assert "no model saved by Stable-Baselines3" in one_line(capsys, tmp_path / "other.zip")


def test_paths_without_a_run(tmp_path, capsys):
    assert "no such file or directory" in one_line(capsys, tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    assert "nothing to diagnose; looked for a run directory" in one_line(capsys, tmp_path / "empty")
    with pytest.raises(RunError, match="no such file"):
        trimtab.diagnose(tmp_path / "missing")
    assert "a run of trimtab has its own" in one_line(capsys, own(tmp_path / "run"), "gamma=0.9")


def test_hyperparameters_may_stand_anywhere_and_in_any_spelling(tmp_path, capsys):
    folder = sb3(tmp_path / "PPO_1")
    assert main(["doctor", "n_envs=16", str(folder), "--json", "n-steps=64"]) == 0
    assert "16 environments" in json.dumps(json.loads(capsys.readouterr().out))


def test_watching_judges_again_when_the_log_has_grown(tmp_path):
    """Nothing there, then a table without updates, then one that grows; an unchanged one is not judged again."""
    folder, pauses = tmp_path / "PPO_1", []
    steps = [
        lambda: folder.mkdir(),
        lambda: (folder / "progress.csv").write_text(TABLE + rows(1, 10)),
        lambda: None,
        lambda: (folder / "progress.csv").write_text(TABLE + rows(1, 20)),
    ]

    def pause(seconds):
        pauses.append(seconds)
        steps.pop(0)() if steps else pytest.fail("looked after the last change")

    looks = watch_place(folder, SIZES, 3.0, pause)
    assert "no such file" in next(looks) and "nothing to diagnose" in next(looks)
    first, second = next(looks), next(looks)
    assert isinstance(first, Diagnosis) and len(pauses) == 4 and min(pauses) >= 3.0
    iterations = [next(f.seen for f in found.findings if f.check == "finite") for found in (first, second)]
    assert "9 iterations" in iterations[0] and "19 iterations" in iterations[1]


def test_watching_ends_with_an_interrupt(tmp_path, capsys, monkeypatch):
    folder = sb3(tmp_path / "PPO_1")

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("trimtab.libraries.common.log_watch.time.sleep", interrupt)
    assert main(["doctor", str(folder), "--watch", "2"]) == 0
    said = capsys.readouterr().out
    assert "39 iterations" in said and f"watching {folder} every 2 s" in said
    assert main(["doctor", str(folder), "--watch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]
    assert "watch='soon': must be a number" in one_line(capsys, folder, "--watch", "soon")
