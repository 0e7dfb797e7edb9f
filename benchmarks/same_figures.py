"""Comparison of two versions of this package on the demo, the showcase and a smoke run of every study.

``python -m benchmarks.same_figures make FOLDER --leakage /old/.venv/bin/leakage`` runs them on one thread with the
``leakage`` command of an environment; ``make FOLDER2`` uses this environment. A second call continues a stopped run.
``compare FOLDER FOLDER2`` compares all results files, samples, trials and reports value by value: numbers may differ by
1e-9 relative, texts must be equal. Prints the differences and exits with 1 if there are any; fields that the new
version added are counted. Times, paths, machines and versions are ignored, and trials are matched by their
configuration. A renamed metric, field or attack counts as equal to its former name. Run both on one machine, because
processors differ in rounding.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.former_names import FIELDS, MISSED, current_attack, current_metric

TOLERANCE = 1e-9
SHOWN = 5
RUNS = {
    "demo": ("demo", "-o", "demo"),
    "showcase": ("showcase", "-o", "showcase"),
    **{
        paper: ("study", "run", paper, "--scale", "smoke", "-o", "studies")
        for paper in ("secret-sharer", "elmahdy", "mix-and-match", "ethicist", "nlu")
    },
}
"""The arguments of each run, by its name."""
VOLATILE = re.compile(
    r"seconds|time|date|version|machine|command|git_hash|path|folder|salt|hash|code|transformers|torch|cpu|"
    r"pretty_env_info|model_name|model_source|system_|upper_git|leakage_version|more_words|config_source|base_model|"
    r"^trials$|^schema$"
)
STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]+")


def main() -> None:
    """Make or compare runs; exit with 1 if a run fails or results differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("`", ""))
    actions = parser.add_subparsers(dest="action", required=True)
    make = actions.add_parser("make")
    make.add_argument("folder", type=Path)
    make.add_argument("--leakage", type=Path, default=Path(sys.executable).with_name("leakage"))
    make.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    compare = actions.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    options = parser.parse_args()
    done = (
        _make(options.folder, options.leakage, options.only)
        if options.action == "make"
        else _compare(options.old, options.new)
    )
    sys.exit(0 if done else 1)


def _make(folder: Path, leakage: Path, names: list[str]) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for name in names:
        log_file = folder / f"{name}.log"
        if log_file.exists():
            continue
        with (folder / f"{name}.part").open("w") as log:
            words = [str(leakage.absolute()), *RUNS[name]]
            code = subprocess.run(words, cwd=folder, env=os.environ | one_thread, stdout=log, stderr=log).returncode
        print(f"{name}: exit code {code}", flush=True)
        if code:
            return False
        (folder / f"{name}.part").rename(log_file)
    return True


def _compare(old: Path, new: Path) -> bool:
    """Print the differences of each file and the counts; return True if there is no difference."""
    left, right = _records(old), _records(new)
    values = differing = 0
    added: Counter[str] = Counter()
    for name in sorted({*left, *right}):
        if name not in left or name not in right:
            print(f"{name}: only in {old if name in left else new}")
            differing += 1
            continue
        differences = list(_differences(left[name], right[name], "", added))
        values += _count(left[name])
        differing += bool(differences)
        for difference in differences[:SHOWN]:
            print(f"{name}: {difference}")
        if len(differences) > SHOWN:
            print(f"{name}: and {len(differences) - SHOWN:,} more")
    for field, times in added.most_common():
        print(f"{field}: added {times:,} times")
    print(f"{len(left):,} files, {values:,} values: {differing:,} files differ")
    return not differing and bool(left)


def _records(folder: Path) -> dict[str, Any]:
    """Return the content of all JSON files below ``folder``, except in model folders, by name without time stamps."""
    records: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.json*")):
        if path.suffix not in (".json", ".jsonl") or "model" in path.relative_to(folder).parts[:-1]:
            continue
        name = STAMP.sub("TIME", path.relative_to(folder).as_posix())
        text = path.read_text(encoding="utf-8").replace(str(folder.absolute()), "FOLDER")
        record = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        if path.parent.name == "trials":
            identity = json.dumps([record["config"], sorted(record["result"])], sort_keys=True)
            name = f"{Path(name).parent}/{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
            del record["study"]  # Studies share trials; this is the first study that ran it.
        records[name] = record
    return records


def _differences(old: Any, new: Any, path: str, added: Counter[str]) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        known = {_current(name, new) for name in old}
        added.update(name for name in new if name not in known and not VOLATILE.search(name))
        for name in old:
            if not VOLATILE.search(name):
                yield from _differences(old[name], new.get(_current(name, new)), f"{path}.{name}", added)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]", added)
    elif isinstance(old, str) and isinstance(new, str) and old[:2] == '{"' == new[:2]:
        yield from _differences(json.loads(old), json.loads(new), f"{path}()", added)
    elif not _same(old, new):
        yield f"{path.removeprefix('.')} is {str(new)[:80]!r}, was {str(old)[:80]!r}"


def _current(name: str, new: dict[str, Any]) -> str:
    """Return the key of ``new`` that replaces the former key ``name``."""
    metric, ending = re.fullmatch(r"(.*?)((?:_stderr)?(?:,.*)?)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    names = (name, FIELDS.get(name, name), *(f"{current_metric(metric, headline)}{ending}" for headline in MISSED))
    return next((candidate for candidate in names if candidate in new), name)


def _same(old: Any, new: Any) -> bool:
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    if numbers and not isinstance(old, bool) and not isinstance(new, bool):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(new == old or (isinstance(old, str) and new == current_attack(old)))


def _count(record: Any) -> int:
    if isinstance(record, dict):
        return sum(_count(value) for name, value in record.items() if not VOLATILE.search(name))
    return sum(map(_count, record)) if isinstance(record, list) else 1


if __name__ == "__main__":
    main()
