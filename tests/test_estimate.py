"""A value with its interval: printed, written as JSON and read back."""

import json
import math

import pytest

import trimtab
from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved


def test_printing():
    assert str(Estimate(1.234e-4, 1.1e-4, 1.4e-4)) == "1.23e-4 [1.1e-4, 1.4e-4]"
    assert str(Estimate(1234.5, 1180.0, 1310.0)) == "1230 [1200, 1300]"
    assert str(Estimate(0.0, 0.0, 0.0)) == "0 [0, 0]"
    assert repr(Estimate(-0.5, -0.61, -0.4)) == "<Estimate -0.5 [-0.61, -0.4]>"
    assert [repr(UNRESOLVED), repr(unresolved(3.25))] == ["<Estimate inconclusive>", "<Estimate 3.25, inconclusive>"]
    assert str(Estimate(-0.5, -0.61, -0.4)) == "-0.5 [-0.61, -0.4]"
    assert str(Estimate(1000.0, 1001.0, 1004.0)) == "1000 [1001, 1004]"
    assert str(Estimate(0.0999, 0.0996, 0.1)) == "0.0999 [0.0996, 0.1]"
    assert str(UNRESOLVED) == "inconclusive"
    assert str(Estimate(0.5, -1.0, 2.0, resolved=False)) == "0.5 [-1, 2]", "only what is unbounded is inconclusive"
    assert str(Estimate(0.5, 0.1, math.inf, resolved=False)) == "inconclusive"
    assert math.isnan(UNRESOLVED.value)


@pytest.mark.parametrize("estimate", [Estimate(1.5, -1.0, 2.0), Estimate(1.0, 0.5, 2.0, resolved=False)])
def test_json_and_back(estimate):
    assert Estimate.from_dict(json.loads(json.dumps(estimate.as_dict()))) == estimate


def test_what_is_not_a_number_is_none_in_json():
    assert unresolved(2.0).as_dict() == {"value": 2.0, "lo": None, "hi": None, "resolved": False}
    assert Estimate(1.0, 0.5, math.inf).as_dict()["hi"] is None
    assert not Estimate.from_dict(UNRESOLVED.as_dict()).known


def test_other_units_change_all_three_numbers():
    assert Estimate(2.0, 1.0, 4.0).times(10) == Estimate(20.0, 10.0, 40.0)


def test_the_public_name_is_the_same_class():
    assert trimtab.anatomy.Estimate is Estimate
