"""A Python that starts at once: fixtures for tests that start the harness often and ask nothing about its start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def warm_server() -> Iterator[Path]:
    """The program that stands in for ``sys.executable``, served until the session ends."""
    with tempfile.TemporaryDirectory() as folder:
        path, client = Path(folder, "socket"), Path(folder, "python")
        words = f'{sys.executable} -IS {HERE / "client.py"} {sys.executable} {path} "$@"'
        client.write_text(f"#!/bin/sh\nWARM_PYTHON={client} exec {words}\n")
        client.chmod(0o755)
        command = [sys.executable, str(HERE / "server.py"), str(path)]
        # Pipes, as the streams of programs are: Python asks once whether a stream can be wound back.
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, text=True, **pipes) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield client
            assert server.stdin is not None
            server.stdin.close()


@pytest.fixture(scope="module")
def warm_python(warm_server: Path) -> Iterator[None]:
    """Let ``sys.executable`` name a Python that need not import torch and others."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "executable", str(warm_server))
        patched.setenv("PYTHON_EXEC", str(warm_server))  # torchrun's
        yield
