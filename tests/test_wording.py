"""Names, values and horizons as people read them."""

import math

from trimtab.core.wording import horizon, nearest, plain, steps


def test_horizons():
    assert math.isclose(horizon(0.9), 10.0) and math.isinf(horizon(1.0))
    assert steps(2.5) == "2.5" and steps(27_000) == "27,000"
    assert steps(horizon(0.9)) == "10" and steps(horizon(1.0)) == steps(None) == "∞"


def test_values_are_written_as_they_are_typed():
    assert [plain(v) for v in (None, True, 2.5e-4, (64, 32), 7, "Pong")] == [
        "none",
        "true",
        "0.00025",
        "64 32",
        "7",
        "Pong",
    ]


def test_nearest_names_do_not_mind_the_case_and_come_best_first():
    assert nearest("CARTPOLE", ["Acrobot", "CartPole-v1", "cartpole"]) == ["cartpole", "CartPole-v1"]
    assert nearest("xyz", ["abc"]) == [] and nearest(7, ["17"], cutoff=0.3) == ["17"]
