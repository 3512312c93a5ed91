"""A headless Chromium driven over its debugging pipe: what a page draws, logs and asks the network for."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def executable() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no browser: install the package chromium (apt-get install chromium)"
    return found


@dataclass
class Visit:
    """What happened while a page was open."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Browser:
    """One page at a time; close it by leaving the `with` block."""

    def __init__(self, profile: Path):
        to_read, self.to_write = os.pipe()
        self.to_hear, to_say = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4; names are given so that they cannot collide.
        script = f'exec 8<&{to_read} 9>&{to_say}; exec 3<&8 4>&9; exec "$@"'
        argv = ["bash", "-c", script, "-", executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(argv, pass_fds=(to_read, to_say), **quiet)
        os.close(to_read)
        os.close(to_say)
        self.buffer, self.number, self.attached, self.visit = b"", 0, None, Visit()

    def __enter__(self) -> Browser:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.to_write)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(10)
        os.close(self.to_hear)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.attached:
            message["sessionId"] = self.attached
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self.number:
                assert "error" not in heard, f"{method}: {heard['error']}"
                return heard["result"]

    def _hear(self, patience: float = 60) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.to_hear], [], [], patience)
            piece = os.read(self.to_hear, 1 << 16) if ready else b""
            assert piece, "the browser stopped answering"
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.visit.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.visit.errors.append(str(params["exceptionDetails"].get("exception", params)))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.visit.errors.append(str([a.get("value", a.get("description")) for a in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.visit.errors.append(params["entry"]["text"])

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, page: Path | str, width: int, until: str, patience: float = 180) -> Visit:
        """Open a file or an address at a window width and wait until an expression holds."""
        self.visit = Visit()
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self.eventually(until, patience)
        return self.visit

    def eventually(self, expression: str, patience: float = 180) -> Any:
        """The value of an expression, once it holds."""
        end = time.monotonic() + patience
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"not in {patience} s: {expression}; {self.visit.errors}"
            time.sleep(0.1)
        return value

    def screenshot(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
