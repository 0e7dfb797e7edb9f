"""``--engine atheris``: inputs to the pure parsers that are led by which lines they reach, where atheris is installed.

What reaches new lines is kept in the state folder, as is an input that fails; a later call goes on from there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from leakage_tasks.core.errors import LeakageError
from tests.fuzzing.case import ensure, stream_of

LONGEST = 8_000
BEGIN = 30
GUIDED = "manifests, templates, results or cards"


def parsers(scratch: Path) -> dict[str, Callable[[bytes], None]]:
    """Each parser by the surface it belongs to; those that read files are given one in ``scratch``."""
    canary = import_module("leakage_tasks.canaries.canary")
    manifest = import_module("leakage_tasks.canaries.manifest")
    spaces = import_module("leakage_tasks.canaries.spaces")
    results = import_module("leakage_tasks.report.load.results_file")
    files = import_module("leakage_tasks.report.card.file")
    splice = import_module("leakage_tasks.report.card.splice")
    path = scratch / "results_2026-01-02T03-04-05.json"

    def read_results(data: bytes) -> None:
        path.write_bytes(data)
        results.read_run(path)

    return {
        "manifests": lambda data: canary.canary_from_json(manifest._read_json(_text(data), "line"), "line"),
        "templates": lambda data: spaces.parse_template(_text(data)),
        "results": read_results,
        "cards": lambda data: splice.with_results(files.split_card(_text(data), Path("README.md")), "m", []),
    }


def fuzz(surface: str, count: int, seed: int, state: Path) -> None:
    """Feed ``count`` inputs more; the process ends here, with exit code 0 unless one failed. Needs atheris."""
    import atheris

    place = state / "atheris" / surface
    for name in ("kept", "failed", "scratch"):
        (place / name).mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["leakage_tasks"]):
        parse = parsers(place / "scratch")[surface]
        _begin(surface, seed, place)

    def one(data: bytes) -> None:
        try:
            parse(data)
        except LeakageError as error:
            ensure(str(error).isprintable(), "a terminal can show an error")

    told = (f"-runs={count}", f"-seed={seed + 1}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048")
    atheris.Setup([sys.argv[0], *told, f"-artifact_prefix={place / 'failed'}/", str(place / "kept")], one)
    atheris.Fuzz()


def _begin(surface: str, seed: int, place: Path) -> None:
    """Files of the surface's own inputs to begin with, unless there are some already."""
    make = import_module(f"tests.fuzzing.surfaces.{surface}").make
    for number in range(0 if any((place / "kept").iterdir()) else BEGIN):
        with tempfile.TemporaryDirectory() as folder:
            make(stream_of(seed, surface, number), Path(folder))
            files = [path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size <= LONGEST]
            for path in files:
                (place / "kept" / f"{number}-{path.name}").write_bytes(path.read_bytes())


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
