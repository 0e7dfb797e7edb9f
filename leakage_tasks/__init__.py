"""Measures how much of a model's training data can be got out of it, inside the LM Evaluation Harness."""

# Type checkers take the name for typing's, whose import is spared.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from leakage_tasks.core.version import __version__
    from leakage_tasks.training.callback.callback import ExposureCallback

__all__ = ["ExposureCallback", "__version__"]


def __getattr__(name: str) -> object:
    """Import what is asked for, so that the package itself costs nothing."""
    if name == "__version__":
        from leakage_tasks.core.version import __version__

        return __version__
    if name == "ExposureCallback":
        from leakage_tasks.training.callback.callback import ExposureCallback

        return ExposureCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
