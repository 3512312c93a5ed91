"""`trimtab view` of files that somebody else made: nothing outside is shown, nothing blocks, every read is bounded."""

import http.client
import json
import os
import resource
import socket
import time

import pytest
from test_view import a_run, fetch, row, serving

from trimtab.extras.live_view.listing import RETURN, STEPS
from trimtab.extras.live_view.server import MOST_CONNECTIONS


def test_links_that_lead_out_of_the_directory_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "page.html").write_text("secret page")
    (secret / "config.yaml").write_text("env_id: secret-v1\n")
    (secret / "metrics.jsonl").write_text(json.dumps(row(4) | {RETURN: 12345.0}) + "\n")
    (secret / "result.json").write_text('{"sentence": "secret sentence"}')
    root = tmp_path / "runs"
    run, study = a_run(root / "study" / "run").path, root / "study"
    (study / "study.json").write_text('{"kind": "split"}')
    for name in ("page.html", "result.json"):
        (study / name).symlink_to(secret / name)
    for name in ("config.yaml", "metrics.jsonl"):
        (run / name).unlink()
        (run / name).symlink_to(secret / name)
    with serving(root) as viewer:
        paths = ("/api/runs", "/api/attention", "/api/study?id=study", "/page?id=study")
        paths += tuple(f"/api/{what}?id=study/run" for what in ("run", "config", "curve"))
        answers = {path: fetch(viewer, path) for path in paths}
    assert all(b"secret" not in data and b"12345" not in data for _, data in answers.values())
    assert answers["/page?id=study"][0].status == 404
    assert "is a link to a place outside" in json.loads(answers["/api/run?id=study/run"][1])["problem"]


@pytest.mark.parametrize("inside", ["episodes", "probes"])
def test_directories_in_a_run_that_are_links_out_are_not_followed(tmp_path, inside):
    run = a_run(tmp_path / "runs" / "run").path
    outside = tmp_path / "outside"
    outside.mkdir()
    if (run / inside).exists():
        (run / inside).rmdir()
    (run / inside).symlink_to(outside)
    with serving(tmp_path / "runs") as viewer:
        body = json.loads(fetch(viewer, "/api/run?id=run")[1])
    assert body["problem"].startswith(f"{inside} is a link to a place outside")


def test_links_within_the_directory_are_followed(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.json").write_text('{"kind": "split"}')
    (study / "other.html").write_text("its page")
    (study / "page.html").symlink_to("other.html")
    with serving(tmp_path) as viewer:
        assert fetch(viewer, "/page?id=study")[1] == b"its page"


def _append(run, row):
    with open(run.log, "a") as file:
        file.write(json.dumps(row) + "\n")


def damage(run, how: str) -> None:
    """What a stranger or a broken disk may leave of a run."""
    if how == "pipe":
        for name in ("config.yaml", "metrics.jsonl"):
            (run.path / name).unlink()
            os.mkfifo(run.path / name)
    elif how == "sparse":
        os.truncate(run.log, 2_000_000_000)
    elif how == "types":
        (run.path / "config.yaml").write_text("env_id: [1]\nnum_envs: a\nnum_steps: {}\ntotal_timesteps: [2]\n")
        _append(run, {"iteration": [1], STEPS: "many", RETURN: {}})
    elif how == "digits":
        (run.path / "config.yaml").write_text(f"env_id: {'9' * 5000}\nseed: {'9' * 5000}\nnum_envs: -3\n")
    elif how == "aliases":
        nested = "".join(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]\n" for k in range(1, 40))
        (run.path / "config.yaml").write_text(f"a0: &a0 [x, x]\n{nested}")
    elif how == "json":
        (run.path / "manifest.json").write_bytes(b"\xff")
        _append(run, {"iteration": 5})
    elif how == "lock":
        os.mkfifo(run.lock)
    else:
        (run.path / "episodes" / "0000000000.parquet").write_bytes(b"PAR1junk")
        (run.path / "probes").mkdir()
        (run.path / "probes" / "a.parquet").write_bytes(b"PAR1junk")


@pytest.mark.parametrize("how", ["pipe", "sparse", "types", "digits", "aliases", "json", "lock", "shard"])
def test_damaged_files_are_shown_as_far_as_they_can_be_read(tmp_path, how):
    damage(a_run(tmp_path / "run", 4), how)
    a_run(tmp_path / "good", 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(tmp_path) as viewer:
        answer, data = fetch(viewer, "/api/runs")
        assert answer.status == 200 and {r["id"] for r in json.loads(data)["runs"]} == {"good", "run"}
        assert fetch(viewer, "/api/attention")[0].status == 200
        for what in ("run", "config", "curve"):
            assert fetch(viewer, f"/api/{what}?id=run")[0].status == 200
            assert json.loads(fetch(viewer, f"/api/{what}?id=good")[1])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_one_connection_too_many_is_closed_and_room_is_made_again(tmp_path):
    with serving(tmp_path) as viewer:
        held = [socket.create_connection(viewer.server_address) for _ in range(MOST_CONNECTIONS)]
        time.sleep(0.5)
        with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
            fetch(viewer, "/api/runs")
        for connection in held:
            connection.close()
        time.sleep(0.5)
        assert fetch(viewer, "/api/runs")[0].status == 200
