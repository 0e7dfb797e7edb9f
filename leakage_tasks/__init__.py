"""Measures how much of a model's training data can be got out of it, inside the LM Evaluation Harness."""

# Type checkers take the name for typing's, whose import is spared.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from leakage_tasks.lab.callback import ExposureCallback

__version__ = "0.1.0"
__all__ = ["ExposureCallback", "__version__"]


def __getattr__(name: str) -> object:
    """Import what needs torch and transformers when it is asked for, so that the package itself costs nothing."""
    if name == "ExposureCallback":
        from leakage_tasks.lab.callback import ExposureCallback

        return ExposureCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
