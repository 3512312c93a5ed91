"""The drawing shows a run's own numbers and stays inside its frame."""

import xml.etree.ElementTree as ET

import pytest

from trimtab.config import Config
from trimtab.show import flow_diagram

SVG = "{http://www.w3.org/2000/svg}"


def test_the_numbers_of_a_run():
    config = Config(num_envs=4, num_steps=256, num_minibatches=32, update_epochs=10, total_timesteps=300_000)
    words = " | ".join(ET.fromstring(flow_diagram.of_config(config)).itertext())
    for text in ("N = 4 ", "T = 256 ", "4 × 256 = 1,024", "32 minibatches of 32", "10 × 32 = 320", "292 iterations"):
        assert text in words
    assert f"{config.gradient_steps:,} gradient steps" in words


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 2, 2, 1), (4096, 16, 1024, 40), (2, 100_000, 4, 4)])
def test_everything_stays_in_the_frame(sizes):
    num_envs, num_steps, minibatches, epochs = sizes
    size = num_envs * num_steps // minibatches
    drawn = ET.fromstring(
        flow_diagram._flow(num_envs, num_steps, minibatches, size, epochs, 99, 99 * minibatches * epochs)
    )
    _, _, width, height = map(float, drawn.get("viewBox").split())
    boxes = drawn.findall(f"{SVG}rect")
    assert boxes and len(boxes) < 500
    for box in boxes:
        assert float(box.get("x")) >= 0 and float(box.get("x")) + float(box.get("width")) <= width + 0.01
        assert float(box.get("y")) + float(box.get("height")) <= height
    for text in drawn.findall(f"{SVG}text"):  # glyphs are about 0.58 em wide
        assert float(text.get("x")) + 0.58 * float(text.get("font-size")) * len(text.text) <= width
