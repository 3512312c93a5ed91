"""python -m benchmarks.fuzz TOOL [--count N] [--seconds S] [--seed K] [--first N] [--no-record] [--settle]"""

from __future__ import annotations

import argparse
import sys

from benchmarks.fuzz import configurations, disks, files, kills, ledger, page, ray_nodes, scale, stores
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


def _is_open(tool: str, case: str) -> bool:
    """Whether a case still goes wrong."""
    seed, number = case.partition(".")[0].split(":")
    tally = Tally()
    TOOLS[tool](Cases(tool, int(seed), 1, 3600.0, int(number)), tally)
    return bool(tally.problems)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("tool", choices=(*TOOLS, "page"), help="page: only write the page again")
    parser.add_argument("--count", type=int, default=10**9, help="cases to do")
    parser.add_argument("--seconds", type=float, default=60.0, help="time after which no further case begins")
    parser.add_argument("--seed", type=int, help="default: one that was not used before")
    parser.add_argument("--first", type=int, default=0, help="number of the first case: to repeat one")
    parser.add_argument("--no-record", action="store_true", help="leave docs/results as they are")
    parser.add_argument("--settle", action="store_true", help="repeat the cases of open problems instead")
    arguments = parser.parse_args()
    if arguments.tool == "page":
        print(page.write())
        return 0
    if arguments.settle:
        left = ledger.settle(arguments.tool, lambda case: _is_open(arguments.tool, case))
        print(f"{page.write()}: {left} open problems of {arguments.tool}")
        return 1 if left else 0
    seed = ledger.next_seed(arguments.tool) if arguments.seed is None else arguments.seed
    cases = Cases(arguments.tool, seed, arguments.count, arguments.seconds, arguments.first)
    tally = Tally()
    try:
        TOOLS[arguments.tool](cases, tally)
    finally:
        if not arguments.no_record:
            ledger.add(arguments.tool, cases, tally)
            page.write()
    print(f"{arguments.tool}, seed {seed}: {dict(tally.counts)} {tally.measures or ''}")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
