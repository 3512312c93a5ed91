"""What `make mutations` breaks is still there to be broken: its edits apply, each in one place."""

import pytest

from benchmarks.mutations import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_edits_apply(mutant):
    compile(mutant.source(), mutant.file.name, "exec")
    assert all((ROOT / test.partition("::")[0]).is_file() for test in mutant.tests.split())


def test_an_edit_that_no_longer_applies_is_refused():
    stale = MUTANTS[0]._replace(edits=(("no_such_name + 1", "0"),))
    with pytest.raises(ValueError, match="occurs 0 times"):
        stale.source()
