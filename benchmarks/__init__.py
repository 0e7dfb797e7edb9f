"""Measurements of this package. Each file is a script: ``python -m benchmarks.NAME``, in the root of the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Libraries read these when they are imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
