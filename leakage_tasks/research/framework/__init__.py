"""Each paper's tables and figures as something to run: the published figure beside the measured one."""

from leakage_tasks.research.framework.registry import (
    Config,
    Result,
    Scale,
    Study,
    StudyPlan,
    StudyTrial,
    find_studies,
    register,
)
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report
from leakage_tasks.research.framework.runner import StudyRun, run_studies

__all__ = [
    "Claim",
    "Config",
    "Measured",
    "StudyPlan",
    "Published",
    "Report",
    "Result",
    "Scale",
    "Study",
    "StudyRun",
    "StudyTrial",
    "find_studies",
    "register",
    "run_studies",
]
