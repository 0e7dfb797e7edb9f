"""Each paper's tables and figures as something to run: the published figure beside the measured one."""

from leakage_tasks.research.framework.registry import Config, Plan, Result, Scale, Study, Trial, find_studies, register
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report
from leakage_tasks.research.framework.runner import StudyRun, run_studies

__all__ = [
    "Claim",
    "Config",
    "Measured",
    "Plan",
    "Published",
    "Report",
    "Result",
    "Scale",
    "Study",
    "StudyRun",
    "Trial",
    "find_studies",
    "register",
    "run_studies",
]
