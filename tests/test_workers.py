"""Commands in processes of their own: order, output, failure."""

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from trimtab.config import Config
from trimtab.runs import device
from trimtab.runs.records import RunDir, RunError
from trimtab.studies import workers
from trimtab.studies.workers import Task, run_all


@pytest.fixture(autouse=True)
def python_instead(monkeypatch):
    """Tasks are pieces of Python; a test that hangs ends."""
    monkeypatch.setattr(workers, "COMMAND", (sys.executable, "-c"))
    signal.alarm(60)
    yield
    signal.alarm(0)


def test_dense_networks_take_one_thread_and_image_networks_a_share(monkeypatch):
    for name in ("NPROC", "TRIMTAB_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRIMTAB_THREADS", "4")
    for network, threads in (("mlp", "1"), ("impala", "4")):
        monkeypatch.delenv("NPROC", raising=False)
        device.prepare(device.threads_for(network))
        assert os.environ["NPROC"] == threads
    monkeypatch.setenv("NPROC", "7")
    device.prepare(1)
    assert os.environ["NPROC"] == "7"


def test_output_of_any_length_arrives():
    """A pipe holds 64 KiB: a command that prints more must not wait for someone to read."""
    outputs = run_all([Task("long", ["print('x' * 1_000_000)"]), Task("short", ["print('y')"])])
    assert len(outputs["long"]) == 1_000_001 and outputs["short"] == "y\n"


def test_a_task_waits_for_what_it_needs(tmp_path):
    file = tmp_path / "made"
    make = Task("make", [f"import time; time.sleep(0.3); open({str(file)!r}, 'w').write('here')"])
    read = Task("read", [f"print(open({str(file)!r}).read())"], after=("make",))
    assert run_all([read, make], at_once=2)["read"] == "here\n"


def test_the_first_failure_is_raised_in_its_own_words_and_ends_the_others():
    broken = Task("broken", ["import sys; sys.exit('trimtab: num_envs: 0 is not positive')"])
    with pytest.raises(RunError, match=r"^broken failed: num_envs: 0 is not positive$"):
        run_all([broken, Task("endless", ["import time; time.sleep(600)"])], at_once=2)


def test_ending_the_parent_ends_what_it_started(tmp_path):
    child = tmp_path / "child"
    sleep = f"import os, time; open({str(child)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    script = (
        "import sys; from trimtab import workers; workers.COMMAND = (sys.executable, '-c'); "
        f"workers.run_all([workers.Task('endless', [{sleep!r}])])"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    while not (child.exists() and child.read_text()):
        time.sleep(0.05)
    parent.terminate()
    assert parent.wait() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)


def test_a_run_that_was_begun_is_resumed_and_what_a_kill_left_is_cleared(tmp_path):
    values = Config(seed=7).as_dict()
    begun, broken = tmp_path / "begun", tmp_path / "broken"
    RunDir.create(begun, values, {})
    (broken / "checkpoints").mkdir(parents=True)
    again = workers.train_task("a b", values, begun, tmp_path / "configs")
    assert again.argv[:2] == ["resume", str(begun)]
    anew = workers.train_task("a b", values, broken, tmp_path / "configs", checkpoints=3)
    file = tmp_path / "configs" / "a-b.yaml"
    assert anew.argv[:5] == ["train", "--config", str(file), "--run-dir", str(broken)] and not broken.exists()
    assert yaml.safe_load(file.read_text())["seed"] == 7 and anew.argv[-3:] == ["--checkpoints", "3", "--json"]


def test_what_was_done_is_not_done_again(tmp_path):
    kept = tmp_path / "kept"
    once = Task("once", [f"open({str(tmp_path / 'ran')!r}, 'a').write('x'); print('done')"])
    assert run_all([once], kept=kept) == run_all([once], kept=kept) == {"once": "done\n"}
    assert (tmp_path / "ran").read_text() == "x"
