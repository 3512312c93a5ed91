"""Nodes of a Ray cluster killed and started again while jobs run: every job is done, none is lost."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fuzz.jobs import Square
from benchmarks.fuzz.ledger import Cases, Tally
from trimtab.core import trust
from trimtab.studies.store import Store

JOBS = 8


def run(cases: Cases, tally: Tally) -> None:
    """Kill a node while jobs run on it, start another, and look whether every outcome came."""
    from ray.cluster_utils import Cluster

    from trimtab.studies.ray_workers import OnRay

    trust.trust("benchmarks.fuzz.jobs")
    os.environ |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "RAY_USAGE_STATS_ENABLED": "0"}
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    doer = OnRay(cluster.address)
    try:
        for case, rng in cases:
            node = cluster.add_node(num_cpus=1)
            with tempfile.TemporaryDirectory() as folder:
                jobs = [Square(rng.randrange(10**6), 0.5) for _ in range(JOBS)]
                outcomes, killed, begin = [], False, time.monotonic()
                for outcome in doer.run(jobs, Store(Path(folder))):
                    outcomes.append(outcome)
                    if not killed and len(outcomes) >= rng.randrange(1, JOBS - 2):
                        cluster.remove_node(node, allow_graceful=False)
                        killed = True
                tally.counts["node kills"] += killed
                tally.counts["jobs on Ray"] += len(outcomes)
                wrong = [o for o in outcomes if not o.done or o.result["square"] != o.job.number**2]
                if wrong or sorted(o.job.number for o in outcomes) != sorted(job.number for job in jobs):
                    tally.problem(case, f"{len(outcomes)} outcomes of {JOBS} jobs; {[o.error for o in wrong][:2]}")
                tally.measures["jobs around a node kill"] = f"{time.monotonic() - begin:.0f} s for {JOBS}"
            if not killed:
                cluster.remove_node(node)
    finally:
        doer.close()
        cluster.shutdown()
