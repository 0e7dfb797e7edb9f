"""The checks of a self-test run without TF32, which the harness would otherwise use on a GPU."""

from types import SimpleNamespace

import pytest
import torch

from leakage_tasks.selftest import run


@pytest.mark.parametrize(
    ("device", "tf32"), [(torch.device("cuda"), False), ("cuda:0", False), ("cpu", True), (None, True)]
)
def test_checks_compute_in_full_float32_on_a_gpu(monkeypatch, device, tf32):
    seen = []
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(run.Subject, "of", lambda lm, settings: None)
    monkeypatch.setattr(run, "CHECKS", (lambda subject: seen.append(torch.backends.cudnn.allow_tf32),))
    run.run_checks(SimpleNamespace(device=device), None)
    assert (seen, torch.backends.cudnn.allow_tf32) == ([tf32], True)
