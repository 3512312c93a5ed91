"""A probe in the terminal and as plain numbers."""

import dataclasses
import json
import math

import numpy as np

from trimtab.gradient.anatomy import as_json
from trimtab.show.probe_tables import print_anatomy


def test_the_table_says_what_was_measured(probed, capsys):
    anatomy = dataclasses.replace(probed[0], exact={"bias_sq": 0.25}, notes=("only a test",))
    print_anatomy(anatomy)
    text = capsys.readouterr().out
    for words in ("individual", "covariance", "effective", "noise scale", "bias²", "1/(1-γλ)", "Note: only a test."):
        assert words in text
    assert "4 × 16 = 64 samples" in text and "0.25" in text


def test_what_is_not_resolved_is_said(probed, capsys):
    nothing = dataclasses.replace(probed[0].bias_sq, value=math.nan, lo=math.nan, hi=math.nan, resolved=False)
    print_anatomy(dataclasses.replace(probed[0], bias_sq=nothing))
    line = next(line for line in capsys.readouterr().out.splitlines() if "bias²" in line)
    assert "not resolved" in line


def test_plain_numbers_are_valid_json_and_complete(probed):
    anatomy = probed[0]
    found = json.loads(json.dumps(as_json(anatomy), allow_nan=False))
    for name in ("variance", "individual", "covariance", "ess", "grad_sq", "bias_sq", "mse", "noise_scale"):
        assert set(found[name]) == {"value", "lo", "hi", "resolved"}
    assert found["variance"]["value"] == anatomy.variance.value
    assert len(found["lag_covariance"]) == anatomy.num_steps
    assert found["lag_covariance_interval"][0] == list(anatomy.decomposition.lag_interval[0])
    assert len(found["minibatch"]["drift"]) == 8 and found["minibatch"]["minibatch_size"] == 16
    assert np.shape(found["replicate_cosines"]) == anatomy.replicate_cosines.shape


def test_what_is_not_a_number_is_none():
    assert _numbers([1.0, math.nan, math.inf]) == [1.0, None, None]
