"""The registry of measured quantities: complete, said once, and what the documents and tables say too."""

from pathlib import Path

import polars as pl
import pytest
from show.examples import measured

from trimtab.core import quantities
from trimtab.core.quantities import QUANTITIES, quantity

GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"


def test_the_glossary_is_the_registry():
    """After a change, paste what `python -c "from trimtab.core import quantities as q; print(q.glossary())"` prints."""
    assert quantities.glossary() in GLOSSARY.read_text()


def test_names_and_labels_are_said_once():
    labels = [q.label for q in QUANTITIES.values()]
    assert len(set(labels)) == len(labels)
    assert all(q.meaning and not q.meaning.endswith(".") for q in QUANTITIES.values())
    everything = (*quantities.ESTIMATES, *quantities.BY_LAG, *quantities.DIRECTIONS, *quantities.MINIBATCHES)
    assert len(everything) + len(quantities.SPLITS) + 1 == len(QUANTITIES)


def test_exact_answers_and_single_values_are_of_the_same_quantity():
    assert quantity("exact_bias_sq") is quantity("bias_sq") and quantity("exact_bias_sq").unit == "gradient²"
    assert quantity("cosine_within_value") is quantity("cosine_within")
    with pytest.raises(KeyError):
        quantity("nothing")


def test_axes_say_label_and_unit():
    assert quantity("variance").axis == "variance, gradient²"
    assert quantity("ess").axis == "effective samples"
    assert quantity("minibatch_drift").axis == "drift"
    assert quantity("noise_scale_environments").axis == "noise scale, in environments, logarithmic"


def test_every_quantity_of_a_table_is_registered_with_its_unit():
    found = measured(((4, 16),), (1000,)).select("quantity", "unit").unique()
    assert found.height > 15
    assert all(quantity(row["quantity"]).unit == row["unit"] for row in found.to_dicts())
    assert found.filter(pl.col("quantity") == "lag_covariance")["unit"].item() == "gradient²"
