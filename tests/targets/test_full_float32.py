"""TF32 is off within our passes on CUDA, and set as before afterwards, by either form of torch's settings."""

import subprocess
import sys

import pytest
import torch

from leakage_tasks.targets.full_float32 import full_float32

CUDA = torch.device("cuda")


def test_tf32_is_off_within_and_on_afterwards(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with full_float32(CUDA):
        assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == (False, False)
    assert torch.backends.cudnn.allow_tf32


def test_it_is_restored_after_an_error(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with pytest.raises(ZeroDivisionError), full_float32(CUDA):
        _ = 1 / 0
    assert torch.backends.cudnn.allow_tf32


def test_a_cpu_is_left_alone(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with full_float32(torch.device("cpu")):
        assert torch.backends.cudnn.allow_tf32


NEWER = """
import torch
from leakage_tasks.targets.full_float32 import full_float32
torch.backends.fp32_precision = "tf32"
torch.backends.cudnn.rnn.fp32_precision = "tf32"
with full_float32(torch.device("cuda")):
    print(torch.backends.cudnn.rnn.fp32_precision, torch.backends.cuda.matmul.fp32_precision)
print(torch.backends.cudnn.rnn.fp32_precision, torch.backends.fp32_precision)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has the older form alone")
def test_a_process_that_uses_the_newer_form():
    done = subprocess.run([sys.executable, "-c", NEWER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ieee", "ieee", "tf32", "tf32"]
