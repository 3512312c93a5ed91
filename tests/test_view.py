"""`trimtab view`: bounded work, this machine only, and a real browser watching a real run."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from show.browser import Browser

from trimtab import cli
from trimtab.config import Config
from trimtab.extras.live_view import listing as watching
from trimtab.extras.live_view import run_details, run_tree
from trimtab.extras.live_view.attention import attention
from trimtab.extras.live_view.growing_log import Log
from trimtab.extras.live_view.listing import POINTS, RETURN, STEPS, Watch
from trimtab.extras.live_view.run_labels import flat_fields, labels
from trimtab.extras.live_view.run_tree import RunTree
from trimtab.extras.live_view.server import LOOPBACK, Viewer
from trimtab.training.records import Manifest, MetricsRow
from trimtab.training.run_dir import RunDir

READY = "document.documentElement.dataset.ready === '1'"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def row(k: int, batch: int = 512, extra: int = 24) -> dict:
    """A row as long as real ones."""
    numbers = {f"train/metric_number_{i}": (k * 37 + i) % 101 / 7.0 for i in range(extra)}
    return {"iteration": k, STEPS: k * batch, RETURN: float(k % 50), "time/fps": 30_000.0, **numbers}


def a_run(path, rows=4, **changes):
    steps = 1_000_000 if rows > 1_000 else 2048
    run = RunDir.create(path, Config(total_timesteps=steps, **changes), Manifest(seed=1))
    run.append_metrics([MetricsRow.from_dict(row(k)) for k in range(1, rows + 1)])
    return run


@contextmanager
def serving(root):
    viewer = Viewer(root, 0)
    thread = threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.shutdown()
        viewer.server_close()


def fetch(viewer, path, method="GET", **headers):
    connection = http.client.HTTPConnection(LOOPBACK, viewer.server_address[1], timeout=120)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


# A log that grows --------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 900), min_size=1, max_size=60),
    most=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 30_000), max_size=6),
)
def test_a_log_read_as_it_grows_is_the_log_read_at_once(tmp_path_factory, lengths, most, cuts):
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    text = b"".join(json.dumps({"k": k, "x": "y" * n}).encode() + b"\n" for k, n in enumerate(lengths))
    growing = Log(path, most)
    for cut in sorted({min(cut, len(text)) for cut in cuts} | {len(text)}):
        path.write_bytes(text[:cut])
        growing.refresh()
    fresh = Log(path, most)
    fresh.refresh()
    assert growing.curve() == fresh.curve()
    assert [r["k"] for r in fresh.curve()] == sorted({r["k"] for r in fresh.curve()})
    assert fresh.last["k"] == len(lengths) - 1 and fresh.curve()[0]["k"] == 0
    assert len(fresh.curve()) <= most + 2


def test_a_short_log_is_shown_whole_and_an_unfinished_line_is_not(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row(k)) + "\n" for k in range(9)) + '{"iteration": 9, "time/to')
    log = Log(path, 100)
    log.refresh()
    assert [r["iteration"] for r in log.curve()] == list(range(9))


def test_a_log_that_was_cut_back_is_read_anew(tmp_path):
    run = a_run(tmp_path / "run", 40)
    log = Log(run.log, 10)
    log.refresh()
    lines = run.log.read_text().splitlines(keepends=True)
    other = [line.replace('"time/fps": 30000.0', '"time/fps": 70000.0') for line in lines]
    run.log.write_text("".join(other[:20]))
    log.refresh()
    assert log.last["iteration"] == 20 and all(r["time/fps"] == 70000.0 for r in log.curve())
    run.log.write_text("".join(lines))  # cut back and grown beyond where it was, between two looks
    log.refresh()
    assert log.last["iteration"] == 40 and all(r["time/fps"] == 30000.0 for r in log.curve())


# What there is -----------------------------------------------------------------------------------------------


def test_status_follows_the_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    watch = Watch(tmp_path)
    run = a_run(tmp_path / "a", 3)
    status = lambda: watch.listing().runs[0].status
    with run.writing():
        assert status() == "running"
    assert status() == "interrupted"
    run.append_metrics([MetricsRow.from_dict(row(4))])
    assert status() == "finished"


def test_a_run_elsewhere_is_running_while_it_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    run = a_run(tmp_path / "a", 3)  # no lock of this machine
    assert Watch(tmp_path).listing().runs[0].status == "running"
    os.utime(run.log, (time.time() - 1e4,) * 2)
    assert Watch(tmp_path).listing().runs[0].status == "interrupted"


def test_looking_at_a_lock_never_refuses_the_writer(tmp_path, monkeypatch):
    """Thousands of looks while a run is opened for writing again and again."""
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    run, watch, done = a_run(tmp_path / "a", 3), Watch(tmp_path), threading.Event()
    looks = threading.Thread(target=lambda: [watch.listing() for _ in iter(done.is_set, True)])
    looks.start()
    try:
        for _ in range(300):
            with run.writing():
                pass
    finally:
        done.set()
        looks.join()


def test_studies_are_found_with_their_runs_and_links_are_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    root = tmp_path / "runs"
    a_run(root / "split-X-1" / "runs" / "4x8-seed1")
    a_run(tmp_path / "outside")
    (root / "split-X-1" / "study.json").write_text('{"kind": "split"}')
    (root / "link").symlink_to(tmp_path / "outside")
    assert [place.id for place in RunTree(root).places()] == ["split-X-1", "split-X-1/runs/4x8-seed1"]
    watch = Watch(root)
    study = watch.listing().studies[0]
    assert (study.id, study.kind, study.runs, study.done) == ("split-X-1", "split", 1, 1)
    assert study.sentence is None and not study.page
    (root / "split-X-1" / "result.json").write_text('{"sentence": "Use 4 × 8.", "rows": []}')
    assert watch.listing().studies[0].sentence == "Use 4 × 8."


def test_the_study_that_was_written_last_stands_first(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    for k, name in enumerate(("a", "c", "b")):
        log = a_run(tmp_path / name / "store" / "run").log
        os.utime(log, (1_000.0 + k, 1_000.0 + k))
        (tmp_path / name / "study.json").write_text('{"kind": "tune"}')
    assert [study.id for study in Watch(tmp_path).listing().studies] == ["b", "c", "a"]


def test_only_directories_that_changed_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tree, "RACE", -1)  # nothing changes within one tick of the clock here
    for name in ("a/run-1", "a/run-2", "b/c/run-3"):
        a_run(tmp_path / name)
    tree = RunTree(tmp_path)
    assert [place.id for place in tree.places()] == ["a/run-1", "a/run-2", "b/c/run-3"]
    read = tree.folders_read
    assert len(tree.places()) == 3 and tree.folders_read == read
    a_run(tmp_path / "b" / "c" / "run-4")
    assert [place.id for place in tree.places()][-1] == "b/c/run-4" and tree.folders_read <= read + 2
    (tmp_path / "a").rename(tmp_path / ".hidden")
    assert [place.id for place in tree.places()] == ["b/c/run-3", "b/c/run-4"]


def test_a_directory_that_changed_just_now_is_read_again(tmp_path):
    """Two changes within one tick of the file system's clock have the same time stamp."""
    tree = RunTree(tmp_path)
    stamp = tmp_path.stat().st_mtime_ns
    assert tree.places() == []
    a_run(tmp_path / "run")
    os.utime(tmp_path, ns=(stamp, stamp))
    assert [place.id for place in tree.places()] == ["run"]


def test_runs_of_a_study_are_called_by_what_differs(tmp_path):
    store = tmp_path / "split-X-1" / "store"
    for n, t in ((4, 256), (64, 16)):
        for seed in (1, 2):
            a_run(store / f"train-{n}-{seed}-0f3a9c2b", num_envs=n, num_steps=t, seed=seed)
    a_run(store / "train-base", num_envs=64, num_steps=16, seed=2, learning_rate=1e-5)
    (tmp_path / "split-X-1" / "study.json").write_text('{"kind": "split"}')
    runs = Watch(tmp_path).listing().runs
    assert {run.group for run in runs} == {"split-X-1"}
    assert [run.label for run in runs] == [
        "4 × 256, seed 1",
        "4 × 256, seed 2",
        "64 × 16, seed 1",
        "64 × 16, seed 2",
        "64 × 16, learning_rate 1e-05, seed 2",
    ]


def test_labels_leave_out_what_says_nothing():
    fields = [flat_fields(f"seed: {k}\nhidden_sizes:\n- 64\n- {k}\nenv_id: X\n") for k in (1, 2)]
    assert fields[0]["hidden_sizes"] == "- 64\n- 1"
    assert labels(dict(enumerate(fields))) == {0: "seed 1", 1: "seed 2"}  # the sizes separate no further runs
    assert labels({"a": fields[0]}) == {"a": ""}
    assert labels({"a": {"seed": "["}, "b": {"seed": "2"}})["b"] == "seed 2"  # a damaged value costs its label only


def test_attention_names_what_needs_somebody(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    watch = Watch(tmp_path)
    assert "no runs yet" in attention(watch).sentence
    for k in (1, 2):
        with a_run(tmp_path / "group" / f"run-{k}", 2).writing():
            pass
    broken = a_run(tmp_path / "broken", 2)
    broken.append_metrics([MetricsRow.from_dict(row(3) | {"not_finite": ["params"]})])
    with broken.writing():
        pass
    found = attention(watch)
    assert found.diagnosed == 3 and found.sentence.startswith(
        f"{len(found.concerns)} things need attention. Start with"
    )
    by_problem = {concern.problem: concern for concern in found.concerns}
    stopped = by_problem["interrupted"]
    assert stopped.count == 2 and stopped.command == f"trimtab resume {tmp_path}/group/run-2"
    assert "finite" in by_problem and by_problem["finite"].runs == ("broken",)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """500 runs of a million steps; their logs are one file under many names."""
    root = tmp_path_factory.mktemp("many")
    first = a_run(root / "run-000", 1_953, seed=0)
    config = first.path.joinpath("config.yaml").read_text()
    for k in range(1, 500):
        path = root / f"run-{k:03d}"
        path.mkdir()
        path.joinpath("config.yaml").write_text(config.replace("seed: 0\n", f"seed: {k}\n"))
        os.link(first.path / "manifest.json", path / "manifest.json")
        os.link(first.log, path / "metrics.jsonl")
    return root


def test_the_first_answer_for_500_runs_reads_their_ends_only(many):
    watch = Watch(many)
    total = sum(place.path.joinpath("metrics.jsonl").stat().st_size for place in RunTree(many).places())
    listing = watch.listing()
    assert len(listing.runs) == 500 and {run.step for run in listing.runs} == {1_953 * 512}
    assert watch.bytes_read <= 500 * 4_096 and watch.bytes_read < total / 200
    before = watch.bytes_read
    watch.listing()
    assert watch.bytes_read == before  # nothing has changed: nothing is read


def test_curves_are_bounded_in_work_and_in_what_is_held(many):
    watch = Watch(many)
    runs = watch.listing().runs
    for run in runs[:40]:
        curve = watch.curve(watch.place(run.id), [RETURN, "train/metric_number_3"])
        assert POINTS / 2 - 2 <= len(curve.step) <= POINTS + 2 and curve.step == sorted(curve.step)
        assert "train/metric_number_5" in curve.names
    assert len(watch._curves) == watching.OPEN
    before = watch.bytes_read
    watch.curve(watch.place(runs[39].id), [RETURN])
    assert watch.bytes_read - before < 8_192  # the second look costs the last line


# The server --------------------------------------------------------------------------------------------------


def test_it_is_bound_to_this_machine_only(tmp_path):
    with serving(tmp_path) as viewer:
        assert viewer.socket.getsockname()[0] == LOOPBACK
        with socket.create_server((LOOPBACK.replace("0.1", "0.2"), viewer.server_address[1])):
            pass  # another address of this machine has the port free: the server does not listen everywhere


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7007", "127.0.0.1.evil.example", "", "10.0.0.5"])
def test_names_of_other_machines_are_refused(tmp_path, host):
    with serving(tmp_path) as viewer:
        answer, data = fetch(viewer, "/api/runs", Host=host)
        assert answer.status == 403 and b"root" not in data
        assert fetch(viewer, "/api/runs", Host="localhost:1")[0].status == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1.evil.example", "http://127.0.0.1", "http://localhost:1"],
)
def test_requests_of_other_pages_are_refused(tmp_path, origin):
    with serving(tmp_path) as viewer:
        assert fetch(viewer, "/api/runs", Origin=origin)[0].status == 403
        assert fetch(viewer, "/api/runs", Origin=viewer.address.rstrip("/"))[0].status == 200


def test_nothing_can_be_written_and_nothing_outside_be_read(tmp_path):
    a_run(tmp_path / "runs" / "a")
    a_run(tmp_path / "b")
    with serving(tmp_path / "runs") as viewer:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert fetch(viewer, "/api/runs", method)[0].status in (405, 501)
        for path in (
            "/../b/config.yaml",
            "/api/run?id=../b",
            "/api/curve?id=/etc",
            "/page?id=a",
            "/api/study?id=a",
            "/x",
        ):
            assert fetch(viewer, path)[0].status == 404
        assert fetch(viewer, "/api/run?id=a")[0].status == 200
        answer, data = fetch(viewer, "/", "HEAD")
        assert (
            answer.status == 200 and data == b"" and "default-src 'none'" in answer.headers["Content-Security-Policy"]
        )


def test_asking_again_costs_a_304_until_something_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "GLANCE", 0.0)
    run = a_run(tmp_path / "a", 2)
    with serving(tmp_path) as viewer:
        for path in ("/api/runs", "/api/attention", "/api/curve?id=a", "/"):
            first, _ = fetch(viewer, path)
            again, data = fetch(viewer, path, If_None_Match=first.headers["ETag"])
            assert again.status == 304 and data == b""
        tag = fetch(viewer, "/api/curve?id=a")[0].headers["ETag"]
        run.append_metrics([MetricsRow.from_dict(row(3))])
        answer, data = fetch(viewer, "/api/curve?id=a", If_None_Match=tag)
        assert answer.status == 200 and json.loads(data)["step"] == [512, 1024, 1536]


def test_a_page_that_is_gone_before_it_is_answered_is_no_news(tmp_path, capfd):
    """Loading again and again resets connections; nobody wants that in the terminal."""
    with serving(tmp_path) as viewer:
        for words in (b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /ap"):
            with socket.create_connection(viewer.server_address) as page:
                page.sendall(words)
                page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
        assert fetch(viewer, "/api/runs")[0].status == 200
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_a_run_closely(tmp_path, monkeypatch):
    monkeypatch.setattr(run_details, "REST", 0.0)
    a_run(tmp_path / "a", 4, num_envs=4)
    with serving(tmp_path) as viewer:
        found = json.loads(fetch(viewer, "/api/run?id=a")[1])
        assert found["changed"] == ["total_timesteps"] and found["config"]["num_envs"] == 4
        assert {finding["verdict"] for finding in found["findings"]} <= {"act", "watch", "fine", "unknown"}
        assert found["sentence"] and found["probes"] == []
        (tmp_path / "a" / "config.yaml").write_text("num_envs: [")
        (found,) = json.loads(fetch(viewer, "/api/runs")[1])["runs"]
        assert found["id"] == "a" and found["env_id"] == "?" and found["batch"] == [None, None]
        problem = json.loads(fetch(viewer, "/api/run?id=a")[1])
        assert problem["problem"] and problem["config"] == {} and problem["findings"] == []


@pytest.mark.parametrize("words", ["view nowhere", "view . --port 99999", "view . --port many", "view . --port TAKEN"])
def test_mistakes_end_in_one_line(words, runs, capsys):
    with socket.create_server((LOOPBACK, 0)) as taken:
        argv = words.replace("TAKEN", str(taken.getsockname()[1])).split()
        with pytest.raises(SystemExit) as stopped:
            cli.main(argv)
    said = capsys.readouterr()
    assert stopped.value.code == 2 and said.err.count("\n") == 1 and not said.out


# In a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [1280, 390])
def test_many_runs_are_listed_compared_and_filtered(browser, many, width):
    with serving(many) as viewer:
        visit = browser.open(viewer.address, width, READY)
        assert visit.errors == [] and all(url.startswith(("http://127.0.0.1:", "data:")) for url in visit.requests)
        assert "500 runs" in browser.run("document.getElementById('counts').textContent")
        assert browser.run("document.querySelectorAll('#charts figure').length") == 6
        assert browser.eventually("document.querySelector('#charts figure').dataset.lines === '3'")
        assert browser.run(OVERFLOW) <= 0
        browser.run(
            "const f = document.getElementById('filter'); f.value = 'run-49'; f.dispatchEvent(new Event('input'))"
        )
        assert browser.run("document.querySelectorAll('#runs .run').length") == 10
        browser.run("document.querySelectorAll('#runs .run input')[0].click()")
        assert browser.eventually("document.querySelector('#charts figure').dataset.lines === '4'")
        assert "seed" in browser.eventually("document.getElementById('differences').textContent")
        browser.run("document.querySelectorAll('#runs .run .name')[1].click()")
        assert browser.eventually("document.querySelectorAll('#detail td .fine').length > 0")
        assert visit.errors == []


LIVE = (
    "train CartPole-v1 --preset none --num-envs 2 --num-steps 32 --hidden-sizes 8 --total-timesteps 100000000 --quiet"
)


@contextmanager
def command_of(*words):
    """A command in a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "trimtab.cli", *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_live_run_is_watched_and_outlives_the_page(browser, runs):
    """A run somebody else started: its page grows; closing the page stops nothing; stopping the run is seen."""
    (runs / "runs").mkdir()
    shown = "document.querySelector('.run .small').textContent"
    with command_of(*LIVE.split(), "--run-dir", "runs/live") as training:
        with command_of("view", "--port", "0") as viewing:
            browser.open(viewing.stdout.readline().split()[0], 1280, READY)
            browser.eventually("document.querySelector('#charts figure')?.dataset.lines === '1'", patience=120)
            first = browser.run(shown)
            assert browser.run("document.querySelector('.run .status').textContent") == "running"
            browser.eventually(f"{shown} !== {json.dumps(first)}")
            viewing.send_signal(signal.SIGINT)
            assert viewing.wait(20) == 0
        assert browser.eventually("document.querySelector('.gone')?.textContent").startswith("trimtab view is closed")
        assert training.poll() is None  # the page is gone; the run goes on
        with serving(runs / "runs") as viewer:
            browser.open(viewer.address, 1280, READY)
            training.send_signal(signal.SIGINT)
            assert training.wait(60) == 130
            browser.eventually("document.querySelector('.run .status').textContent === 'interrupted'")
