"""Tests with PyTorch and the libraries that people train with, run by `make test-peers`. None is skipped."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def single_precision():
    """Tests that need more set it."""
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
