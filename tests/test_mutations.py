"""What `make mutations` breaks is still there to be broken: its edits apply, each in one place."""

import pytest

from benchmarks.mutations import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_edits_apply(mutant):
    text = (ROOT / "src" / "trimtab" / mutant.file).read_text()
    assert [old for old, _ in mutant.edits if text.count(old) != 1] == []
    assert all((ROOT / test.partition("::")[0]).is_file() for test in mutant.tests.split())
