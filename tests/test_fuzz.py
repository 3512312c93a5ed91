"""The short part of the standing tools (`make fuzz`): a few cases of each, from a seed that does not change."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz import __main__ as tools
from benchmarks.fuzz import configurations, damage, defects, files, kills, ledger, page, stores
from benchmarks.fuzz.ledger import Cases, Tally
from trimtab.config import Config


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))


def tally_of(tool: str, count: int, seed: int = 1) -> Tally:
    tally = Tally()
    tools.TOOLS[tool](Cases(tool, seed, count, 300), tally)
    return tally


def test_damaged_files_cost_their_damaged_parts_only():
    tally = tally_of("files", 400)
    assert not tally.problems and tally.counts["damaged files"] == 400
    assert tally.counts["read in part or whole"] > 100 and tally.counts["one-line errors"] > 50


def test_commands_on_damaged_files_end_in_one_line():
    assert not tally_of("commands", 2).problems


def test_a_wrong_answer_is_a_problem(monkeypatch):
    """What a reading gives of damaged episodes is compared with what was written."""
    monkeypatch.setattr("trimtab.core.reading._refuse_damaged_table", lambda file, path: None)
    only = [subject for subject in files.SUBJECTS if subject.name == "episodes"]
    monkeypatch.setattr(files, "SUBJECTS", tuple(only))
    monkeypatch.setattr("benchmarks.fuzz.readings.SUBJECTS", tuple(only))
    assert any("some of them other ones" in what for _, what in tally_of("files", 300).problems)


def test_counts_add_up_over_invocations(tmp_path):
    record = tmp_path / "robustness.json"
    for seed in (1, 2):
        tally = Tally(members={"shapes": {f"{seed:08x}", "0000000f"}})
        tally.counts["cases"] = 5
        tally.problem(f"{seed}:3", "wrong")
        ledger.add("files", Cases("files", seed, 5, 1.0), tally, record)
    entry = json.loads(record.read_text())["tools"]["files"]
    assert entry["counts"] == {"cases": 10, "problems": 2} and len(entry["members"]["shapes"]) == 3 * ledger.HASH
    assert [i["seeds"] for i in entry["invocations"]] == [[1, 2]] and ledger.next_seed("files", record) == 3
    assert ledger.settle("files", lambda case: case == "1:3", record) == 1


def test_the_page_shows_counts_goals_and_defects(tmp_path):
    record = tmp_path / "robustness.json"
    tally = Tally(members={"shapes": {"0" * ledger.HASH}}, measures={"memory": "5 MB"})
    tally.counts["damaged files"] = 1234
    tally.problem("1:3", "wrong | answer")
    ledger.add("files", Cases("files", 1, 5, 1.0), tally, record)
    text = page.write(record).read_text()
    assert "1,234 damaged files | 100,000 | 1 |" in text and "`wrong / answer`" in text and "memory: 5 MB" in text


def test_every_defect_on_the_page_has_its_test():
    root = Path(__file__).parent.parent
    for _, _, test in defects.DEFECTS:
        file, name = test.split("::")
        assert f"def {name}(" in (root / file).read_text(), test


def test_random_configurations_are_valid_and_make_all_kinds_of_choices():
    rng = random.Random(1)
    drawn = [configurations.draw(rng) for _ in range(60)]
    assert None not in drawn and len({config.shape for config in drawn}) > 50
    for name in ("algo", "optimizer", "norm_adv", "backend"):
        assert len({getattr(config, name) for config in drawn}) > 1
    assert len(set().union(*(configurations.pairs(configurations.levels(config)) for config in drawn))) > 1000
    config = next(config for config in drawn if config.backend == "tabular")
    assert configurations.other_numbers(config, rng).shape == config.shape


def test_a_random_configuration_trains_and_resumes_to_the_same_numbers(tmp_path):
    from trimtab.training.engine_cache import EngineCache

    config = Config(**kills.SMALL | {"total_timesteps": 48})
    assert configurations._trained(config, tmp_path, random.Random(1), EngineCache(), True) == "trained"


def test_a_killed_run_ends_as_the_undisturbed_one():
    # A process of its own: forks need one in which no threads were started.
    script = (
        "from benchmarks.fuzz import kills; from benchmarks.fuzz.ledger import Cases, Tally; import sys\n"
        "kills.KINDS = {'ppo': kills.KINDS['ppo']}; tally = Tally()\n"
        "kills.run(Cases('kills', 1, 1, 300), tally); print(tally.counts['kills']); sys.exit(bool(tally.problems))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ledger.ROOT / "src"), str(ledger.ROOT)])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and int(done.stdout.split()[-1]) > 0, done.stdout + done.stderr


def test_two_studies_on_one_store_do_each_job_once(monkeypatch):
    monkeypatch.setattr(stores, "JOBS", 12)
    monkeypatch.setattr(stores, "WORKERS", 4)
    tally = tally_of("shared-store", 1)
    assert not tally.problems and tally.counts["jobs that two studies shared"] == 12


def test_a_case_follows_from_its_number():
    def results(first: int) -> list[bytes]:
        cases = Cases("files", 7, 6 - first, 60, first)
        return [rng.choice(damage.BYTES)(bytes(range(200)), rng) for _, rng in cases]

    assert results(0)[4:] == results(4)
