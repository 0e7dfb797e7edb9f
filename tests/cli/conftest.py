"""A small manifest, and a tokenizer."""

from tests.canaries.conftest import byte_level, manifest  # noqa: F401
