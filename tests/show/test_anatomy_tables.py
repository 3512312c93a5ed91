"""A probe in the terminal and as plain numbers."""

import dataclasses
import json
import math

import numpy as np

from trimtab.core.json_values import from_json, to_json
from trimtab.gradient.anatomy import ExactAnswers, ProbeResult, finite_numbers
from trimtab.show.probe_tables import print_anatomy


def test_the_table_says_what_was_measured(probed, capsys):
    anatomy = dataclasses.replace(probed[0], exact=ExactAnswers(bias_sq=0.25), notes=("only a test",))
    print_anatomy(anatomy)
    text = capsys.readouterr().out
    for words in (
        "individual",
        "within rows",
        "between rows",
        "variance floor",
        "effective",
        "noise scale",
        "bias²",
        "1/(1-γλ)",
        "Note: only a test.",
    ):
        assert words in text
    assert "4 × 16 = 64 samples" in text and "0.25" in text


def test_what_is_not_resolved_is_said(probed, capsys):
    nothing = dataclasses.replace(probed[0].bias_sq, value=math.nan, lo=math.nan, hi=math.nan, resolved=False)
    print_anatomy(dataclasses.replace(probed[0], bias_sq=nothing))
    line = next(line for line in capsys.readouterr().out.splitlines() if "bias²" in line)
    assert "inconclusive" in line


def test_plain_numbers_are_valid_json_and_complete(probed):
    anatomy = probed[0]
    found = json.loads(json.dumps(to_json(anatomy), allow_nan=False))
    for name in ("variance", "individual", "covariance", "ess", "grad_sq", "bias_sq", "mse", "noise_scale"):
        assert set(found[name]) == {"value", "lo", "hi", "resolved"}
    assert found["variance"]["value"] == anatomy.variance.value
    assert len(found["lag_covariance"]) == anatomy.num_steps
    assert found["lag_covariance_interval"][0] == list(anatomy.decomposition.lag_interval[0])
    assert len(found["minibatch"]["drift"]) == 8 and found["minibatch"]["minibatch_size"] == 16
    assert np.shape(found["replicate_cosines"]) == np.shape(anatomy.replicate_cosines)


def test_what_is_not_a_number_is_none():
    assert finite_numbers([1.0, math.nan, math.inf]) == (1.0, None, None)


def test_a_result_read_back_from_json_is_the_same(probed):
    for anatomy in probed:
        read = from_json(ProbeResult, json.loads(json.dumps(to_json(anatomy), allow_nan=False)))
        assert to_json(read) == to_json(anatomy) and repr(read.variance) == repr(anatomy.variance)
        assert read.options == anatomy.options and read.minibatch == anatomy.minibatch


def test_a_result_of_another_version_is_read(probed):
    """Without keys that are newer than the file, and with keys of later versions."""
    kept = to_json(probed[0])
    for name in ("replicate_cosines", "minibatch", "exact"):
        entry = {k: v for k, v in kept.items() if k != name} | {"of_a_later_version": 1}
        assert from_json(ProbeResult, entry).variance == probed[0].variance
