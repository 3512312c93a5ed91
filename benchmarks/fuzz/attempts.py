"""Attempts to break what SECURITY.md states: `python -m benchmarks.fuzz.attempts` writes a log of them.

Each attempt makes a file that a stranger could send, or a request that another page could make, and looks whether it
got what it wanted: code run, a file outside read, changed or removed, a traceback, a hang.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.fuzz import corpus
from benchmarks.fuzz.ledger import ROOT, commit
from trimtab.core.writing import write_atomically

PAGE = ROOT / "docs" / "results" / "security-attempts.md"
SECONDS = 90  # after which a command counts as hanging
RESUME = ("resume", "run", "--total-timesteps", "2048")
Answered = Callable[[int, bytes], bool]


class _Runs:
    """Runs a command where it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


@dataclass
class Attempts:
    """A directory to work in, a file that shows that code was run, and what came of each attempt."""

    root: Path
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def mark(self) -> Path:
        return self.root / "owned"

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(self.root)])
        return os.environ | {"PYTHONPATH": paths, "TRIMTAB_STATE": str(self.root / "state")}

    def fresh(self) -> Path:
        """A new run; nothing is trusted."""
        run = self.root / "run"
        shutil.rmtree(run, ignore_errors=True)
        corpus.make_run(run, 1)
        return run

    def note(self, what: str, how: str, succeeded: bool, answer: str) -> None:
        answer = " ".join(answer.replace(str(self.root), "").replace("|", "/").split())
        self.rows.append((what, how, "**succeeded**" if succeeded else "failed", answer[:160]))
        print(len(self.rows), *self.rows[-1], sep=" | ", flush=True)

    def command(self, what: str, *words: str, wanted: Callable[[bytes], bool] = lambda output: False) -> None:
        """A command on what was prepared; it succeeds by `wanted`, a mark, a traceback or a hang."""
        start, how = time.monotonic(), f"`trimtab {' '.join(words)}`"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "trimtab", *words],
                cwd=self.root,
                env=self.environment,
                capture_output=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            self.note(what, how, True, f"no answer within {SECONDS} s")
            return
        output = done.stdout + done.stderr
        bad = self.mark.exists() or b"Traceback" in output or done.returncode not in (0, 1, 2) or wanted(output)
        self.mark.unlink(missing_ok=True)
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["answered"])[-1]
        self.note(what, how, bad, f"{last} ({time.monotonic() - start:.0f} s)")


def _edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = yaml.safe_load(file.read_text())
    change(values)
    file.write_text(yaml.safe_dump(values) if file.suffix == ".yaml" else json.dumps(values))


def _link(path: Path, target: Path | str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# Code ------------------------------------------------------------------------------------------------------


def run_code(tries: Attempts) -> None:
    """Files that name a module, hold pickles or tagged Python objects."""
    (tries.root / "evil.py").write_text(f"open({str(tries.mark)!r}, 'w')\nclass Env: pass\n")
    run = tries.fresh()
    _edit(run / "config.yaml", lambda values: values.update(env_id="evil:Env"))
    more = (("watch", "run"), ("probe", "run"), ("rescale", "run", "--num-envs", "8"), ("repeat", "run"))
    for words in (("show", "run"), ("doctor", "run"), ("eval", "run"), RESUME, *more):
        tries.command("a module as env_id of a run", *words)
    for words in (("train", "--from", "run", "--total-timesteps", "64"), ("split", "--run", "run", "--batch", "64")):
        tries.command("a module as env_id of a run", *words)
    _edit(tries.fresh() / "config.yaml", lambda v: v.update(env_id="os:system", env_kwargs={"command": "touch owned"}))
    tries.command("a function of a loaded module as env_id", "eval", "run")
    _edit(tries.root / "study" / "study.json", lambda values: values["asked"]["config"].update(env_id="evil:Env"))
    tries.command("a module in study.json", "resume", "study", "--on", "inline", "--quiet")
    run = tries.fresh()
    _edit(run / "manifest.json", lambda values: values.update(id="../../outside", environment={"id": "evil:Env"}))
    tries.command("a module and a path as ids in manifest.json", "doctor", "run")
    tag = f"!!python/object/apply:os.system ['touch {tries.mark}']"
    with open(tries.fresh() / "config.yaml", "a") as file:
        file.write(f"x: {tag}\n")
    tries.command("a Python tag in config.yaml", "show", "run")
    (tries.root / "zoo.yaml").write_text(f"CartPole-v1:\n  n_steps: {tag}\n")
    tries.command("a Python tag in hyperparameters", "translate", "zoo.yaml", "--env-id", "CartPole-v1")
    boom = pickle.dumps(_Runs(tries.mark))
    np.savez(tries.root / "log" / "evaluations.npz", results=np.array([_Runs(tries.mark)], object))
    tries.command("pickled arrays in evaluations.npz", "doctor", "log")
    np.savez(tries.root / "arrays.npz", a=np.array([_Runs(tries.mark)], object))
    tries.command("pickled arrays in a policy", "adopt", "arrays.npz", "CartPole-v1")
    for name in ("policy.pth", "policy.npz", "policy.pkl", "policy.safetensors"):
        (tries.root / name).write_bytes(boom)
        tries.command("a pickle as a policy", "adopt", name, "CartPole-v1")
    with zipfile.ZipFile(tries.root / "log" / "model.zip", "w") as archive:
        serialized = {":serialized:": base64.b64encode(boom).decode()}
        archive.writestr("data", json.dumps({"n_steps": 64, "policy_class": serialized}))
        archive.writestr("policy.pth", boom)
    tries.command("pickles in a saved model", "doctor", "log")
    tries.command("pickles in a saved model", "adopt", "log/model.zip", "CartPole-v1")


# Places ----------------------------------------------------------------------------------------------------


def leave_the_run(tries: Attempts) -> None:
    """Links and special files in a run, to read, change or remove what is outside."""
    outside = tries.root / "outside"
    outside.mkdir()
    precious = outside / "precious.txt"
    for name in (".lock", "metrics.jsonl", "evaluations.jsonl", "episodes", "checkpoints", "buffers"):
        precious.write_text("precious\n" * 5000)
        run = tries.fresh()
        _link(run / name, precious if "." in name else outside)
        tries.command(
            f"{name} is a link to a place outside", *RESUME, wanted=lambda output: precious.stat().st_size != 45_000
        )
    for name, target in (("metrics.jsonl", "/etc/passwd"), ("config.yaml", "/etc/passwd"), ("episodes", "/etc")):
        _link(tries.fresh() / name, target)
        tries.command(f"{name} is a link to {target}", "show", "run", wanted=lambda output: b"root:" in output)
    for name in ("metrics.jsonl", "config.yaml", "manifest.json"):
        _link(tries.fresh() / name, "/dev/zero")
        tries.command(f"{name} is a link to /dev/zero", "doctor", "run")
        file = tries.fresh() / name
        file.unlink()
        os.mkfifo(file)
        tries.command(f"{name} is a pipe", "doctor", "run")
    os.mkfifo(tries.fresh() / ".lock")
    tries.command(".lock is a pipe", *RESUME)
    run = tries.fresh()
    checkpoint = next(iter(sorted((run / "checkpoints").iterdir()))) / "checkpoint.json"
    _edit(checkpoint, lambda values: values.update(lengths={"../../outside/precious.txt": 0}))
    precious.write_text("precious\n" * 5000)
    changed = lambda output: precious.stat().st_size != 45_000
    tries.command("a checkpoint names another file to cut", *RESUME, wanted=changed)


# Sizes and text --------------------------------------------------------------------------------------------


def use_up(tries: Attempts) -> None:
    """Files that would take time or memory without bound."""
    sparse = ("manifest.json", "config.yaml", "metrics.jsonl", "episodes/0000000000.parquet")
    for name in (*sparse, "checkpoints/000000001024/state.safetensors"):
        os.truncate(tries.fresh() / name, 3_000_000_000)
        for words in (("show", "run"), ("doctor", "run")):
            tries.command(f"{name} of 3 GB", *words)
    tries.command("a checkpoint of 3 GB", "eval", "run")
    with open(tries.fresh() / "metrics.jsonl", "ab") as file:
        file.write(b'{"iteration": 17, "time/total_timesteps": 1088, ' + b'"a": 1, ' * 3_000_000 + b'"b": 1}\n')
    tries.command("a line of 24 MB", "doctor", "run")
    lines = (
        f'{{"iteration": {k}, "time/total_timesteps": {64 * k}, '
        + ", ".join(f'"train/x{k}_{j}": 1' for j in range(2000))
        + "}\n"
        for k in range(1, 300)
    )
    (tries.fresh() / "metrics.jsonl").write_text("".join(lines))
    tries.command("600,000 different metrics", "doctor", "run")
    columns = ",".join(f"c{k}" for k in range(200_000))
    rows = ("1,1" + ",1" * 200_000 + "\n") * 20
    (tries.root / "log" / "progress.csv").write_text(f"time/total_timesteps,train/n_updates,{columns}\n{rows}")
    tries.command("a table of 200,000 columns", "doctor", "log")
    nested = "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]\n" for k in range(1, 40))
    for text, what in ((nested, "aliases of aliases"), ("[" * 10**6, "a million brackets")):
        (tries.root / "own.yaml").write_text(text)
        tries.command(what, "plan", "--config", "own.yaml")
    _edit(tries.fresh() / "config.yaml", lambda v: v.update(num_envs=2**20, num_steps=2**20, total_timesteps=2**31 - 1))
    tries.command("a batch of 2⁴⁰ samples", "show", "run")
    with zipfile.ZipFile(tries.root / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", b"0" * 200_000_000)
    tries.command("a saved model that unpacks to 200 MB", "doctor", "bomb.zip")


def show_as_code(tries: Attempts) -> None:
    """Text of a file that a terminal or a page would act upon."""
    _edit(tries.fresh() / "config.yaml", lambda values: values.update(env_id="\x1b]0;owned\x07\x1b[2J"))
    for words in (("show", "run"), ("doctor", "run")):
        tries.command("escape sequences as env_id", *words, wanted=lambda output: b"\x1b]0" in output)
    script = "<script>alert(1)</script>"
    run = tries.fresh()
    _edit(run / "config.yaml", lambda values: values.update(env_id=script))
    shown = lambda output: script in (run / "page.html").read_text() if (run / "page.html").exists() else False
    tries.command("a script as env_id, on a page", "show", "run", "--page", wanted=shown)


# The local page --------------------------------------------------------------------------------------------


def ask_the_page(tries: Attempts) -> None:
    """Requests to `trimtab view` that another page, or another program, could make."""
    tries.fresh()
    words = [sys.executable, "-m", "trimtab", "view", ".", "--port", "0"]
    server = subprocess.Popen(words, cwd=tries.root, env=tries.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline())
        assert found is not None
        _ask_all(tries, int(found[1]))
    finally:
        server.terminate()
        server.wait()


def _ask_all(tries: Attempts, port: int) -> None:
    own, refused = f"127.0.0.1:{port}", lambda status, body: status >= 400
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page?id=../../../etc", "/page?id=/etc"):
        _ask(tries, port, path, refused)
    for path in ("/api/run?id=..", "/api/config?id=../../etc", "//etc/passwd", "/static/%00", "/api/run?id=run%00"):
        _ask(tries, port, path, refused)
    _ask(tries, port, "/" + "a" * 100_000, refused)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        _ask(tries, port, "/api/runs", refused, method)
    for headers in (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Host": f"evil@{own}"},
    ):
        _ask(tries, port, "/api/runs", refused, headers=headers)
    for origin in ("http://evil.example", "null", f"http://{own}.evil.example", "http://127.0.0.1"):
        _ask(tries, port, "/api/runs", refused, headers={"Host": own, "Origin": origin})
    _ask(tries, port, "/api/runs", refused, headers={"Host": own} | {f"X-{k}": "a" * 500 for k in range(200)})
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    for one in held[:100]:
        with suppress(OSError):
            one.send(b"GET /api")
    for one in held:
        one.close()
    time.sleep(1)
    _ask(tries, port, "/api/runs", lambda status, body: status == 200, what="after 200 half-open connections")


def _ask(
    tries: Attempts,
    port: int,
    path: str,
    good: Answered,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    what: str = "a request to the page",
) -> None:
    told = {name: value for name, value in (headers or {}).items() if not name.startswith("X-")}
    how = f"`{method} {path[:50]}` {told or ''}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        tries.note(what, how, not good(answer.status, body) or b"root:" in body, f"{answer.status}")
    except (OSError, http.client.HTTPException) as error:
        tries.note(what, how, False, type(error).__name__)
    finally:
        connection.close()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        tries = Attempts(corpus.make(Path(folder)))
        for kind in (run_code, leave_the_run, use_up, show_as_code, ask_the_page):
            kind(tries)
    succeeded = sum(row[2] != "failed" for row in tries.rows)
    lines = [
        "# Attempts against SECURITY.md",
        "",
        f"`python -m benchmarks.fuzz.attempts` made {len(tries.rows)} attempts on {time.strftime('%Y-%m-%d')} at "
        f"commit {commit()}; {succeeded} succeeded. Earlier attempts that did succeed are among the defects of",
        "[robustness](robustness.md): links out of a run, a checkpoint of 8 GB, 600,000 different metrics.",
        "",
        "| attempt | by | result | answer |",
        "|---|---|---|---|",
        *(f"| {what} | {how} | {result} | {answer} |" for what, how, result, answer in tries.rows),
        "",
    ]
    write_atomically(PAGE, "\n".join(lines).encode())
    return 1 if succeeded else 0


if __name__ == "__main__":
    sys.exit(main())
