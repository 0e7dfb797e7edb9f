"""A small manifest."""

from tests.canaries.conftest import manifest  # noqa: F401
