"""Leakage measures for the LM Evaluation Harness: canaries, attacks, metrics."""

# Type checkers take the name for typing's, whose import is spared.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from leakage_tasks.api.audit import Audit, audit
    from leakage_tasks.api.canaries import plant, verify
    from leakage_tasks.api.reports import exposure, read_findings
    from leakage_tasks.api.suffixes import extract_suffixes
    from leakage_tasks.api.texts import search_texts
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.manifest import read_manifest, write_manifest
    from leakage_tasks.core.errors import LeakageError
    from leakage_tasks.core.version import __version__
    from leakage_tasks.pairs import Pair
    from leakage_tasks.report.load.results import read_runs
    from leakage_tasks.report.publish import verify_report, write_board, write_card, write_report
    from leakage_tasks.training.callback.callback import ExposureCallback
    from leakage_tasks.training.prompt.settings import PromptSettings
    from leakage_tasks.training.prompt.tuning import tune_prompt

__all__ = [
    "Audit",
    "ExposureCallback",
    "LeakageError",
    "Pair",
    "PromptSettings",
    "__version__",
    "audit",
    "exposure",
    "extract_suffixes",
    "make_canaries",
    "plant",
    "read_findings",
    "read_manifest",
    "read_runs",
    "search_texts",
    "tune_prompt",
    "verify",
    "verify_report",
    "write_board",
    "write_card",
    "write_manifest",
    "write_report",
]
_PLACES = {
    "Audit": "api.audit",
    "ExposureCallback": "training.callback.callback",
    "LeakageError": "core.errors",
    "Pair": "pairs",
    "PromptSettings": "training.prompt.settings",
    "__version__": "core.version",
    "audit": "api.audit",
    "exposure": "api.reports",
    "extract_suffixes": "api.suffixes",
    "make_canaries": "canaries.generate",
    "plant": "api.canaries",
    "read_findings": "api.reports",
    "read_manifest": "canaries.manifest",
    "read_runs": "report.load.results",
    "search_texts": "api.texts",
    "tune_prompt": "training.prompt.tuning",
    "verify": "api.canaries",
    "verify_report": "report.publish",
    "write_board": "report.publish",
    "write_card": "report.publish",
    "write_manifest": "canaries.manifest",
    "write_report": "report.publish",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, so that the package itself costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
