"""The functions that differ between versions of the harness, for the installed version."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec("lm_eval.scorers") is None:
    from leakage_tasks.harness.v0_4 import HarnessTask, index_of, leave_out, request, rolling, whole_text
else:
    from leakage_tasks.harness.v0_5 import HarnessTask, index_of, leave_out, request, rolling, whole_text

__all__ = ["HarnessTask", "index_of", "leave_out", "request", "rolling", "whole_text"]
