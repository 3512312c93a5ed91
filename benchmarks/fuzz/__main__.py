"""python -m benchmarks.fuzz TOOL [--count N] [--seconds S] [--seed K] [--first N] [--no-record]"""

from __future__ import annotations

import argparse
import sys

from benchmarks.fuzz import configurations, disks, files, kills, ledger, ray_nodes, scale, stores
from benchmarks.fuzz.ledger import Cases, Tally, Tool

TOOLS: dict[str, Tool] = {
    "files": files.run,
    "commands": files.run_commands,
    "kills": kills.run,
    "configurations": configurations.run,
    "configurations-by-command": configurations.run_commands,
    "disks": disks.run,
    "shared-store": stores.run_shared,
    "many-jobs": stores.run_many,
    "killed-studies": stores.run_killed,
    "ray-nodes": ray_nodes.run,
    "memory": scale.run_memory,
    "view": scale.run_view,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--count", type=int, default=10**9, help="cases to do")
    parser.add_argument("--seconds", type=float, default=60.0, help="time after which no further case begins")
    parser.add_argument("--seed", type=int, help="default: one that was not used before")
    parser.add_argument("--first", type=int, default=0, help="number of the first case: to repeat one")
    parser.add_argument("--no-record", action="store_true", help="leave docs/results as they are")
    arguments = parser.parse_args()
    seed = ledger.next_seed(arguments.tool) if arguments.seed is None else arguments.seed
    cases = Cases(arguments.tool, seed, arguments.count, arguments.seconds, arguments.first)
    tally = Tally()
    try:
        TOOLS[arguments.tool](cases, tally)
    finally:
        if not arguments.no_record:
            ledger.add(arguments.tool, cases, tally)
    print(f"{arguments.tool}, seed {seed}: {dict(tally.counts)} {tally.measures or ''}")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
