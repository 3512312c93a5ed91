"""`make demo`: how should 1,024 Pendulum samples be split into N environments × T steps?"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from trimtab.cli import main

COMMAND = ["split", "Pendulum-v1", "--batch", "1024", "--max-seeds", "5"]  # five tell apart what is far apart

if __name__ == "__main__":
    out = next(p for k in itertools.count(1) if not (p := Path("runs") / f"demo-{k}").exists())
    code = main([*COMMAND, "--run-dir", str(out), *sys.argv[1:]])
    if code == 0:
        print(f"figures: {out}/figures    open in a browser: {(out / 'page.html').resolve()}")
    sys.exit(code)
