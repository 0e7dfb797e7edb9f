"""Do two versions of this package find the same? The demo, the showcase and a smoke run of every study, compared.

``python -m benchmarks.same_figures make FOLDER --leakage /old/.venv/bin/leakage`` runs them with one thread by the
``leakage`` of an environment, ``make FOLDER2`` by this one's; a second call goes on where the first was stopped.
``compare FOLDER FOLDER2`` goes through all results files, samples, trials and reports of both, value by value: numbers
may differ by 1e-9 of their size, texts not at all. It prints what differs and exits with 1; fields that the new version
has added are counted. What says when, where, how long and by which version is left out, and trials, which are named by
their code, are known by their config. A name that replaced a former one is the same name. Both on one machine: other
processors round in other ways.
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
"""What is run, by its name."""
VOLATILE = re.compile(
    r"seconds|time|date|version|machine|command|git_hash|path|folder|salt|hash|code|transformers|torch|cpu|"
    r"pretty_env_info|model_name|model_source|system_|upper_git|leakage_version|more_words|config_source|base_model|"
    r"^trials$|^schema$"
)
STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]+")


def main() -> None:
    """Run the command; exit with 1 where something failed or differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("`", ""))
    actions = parser.add_subparsers(dest="action", required=True)
    make = actions.add_parser("make")
    make.add_argument("folder", type=Path)
    make.add_argument("--leakage", type=Path, default=Path(sys.executable).with_name("leakage"))
    make.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    compare = actions.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    asked = parser.parse_args()
    done = _make(asked.folder, asked.leakage, asked.only) if asked.action == "make" else _compare(asked.old, asked.new)
    sys.exit(0 if done else 1)


def _make(folder: Path, leakage: Path, names: list[str]) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for name in names:
        told = folder / f"{name}.log"
        if told.exists():
            continue
        with (folder / f"{name}.part").open("w") as log:
            words = [str(leakage.absolute()), *RUNS[name]]
            code = subprocess.run(words, cwd=folder, env=os.environ | one_thread, stdout=log, stderr=log).returncode
        print(f"{name}: exit code {code}", flush=True)
        if code:
            return False
        (folder / f"{name}.part").rename(told)
    return True


def _compare(old: Path, new: Path) -> bool:
    """Print a line a file that differs, and the counts."""
    left, right = _records(old), _records(new)
    values = differing = 0
    added: Counter[str] = Counter()
    for name in sorted({*left, *right}):
        if name not in left or name not in right:
            print(f"{name}: only in {old if name in left else new}")
            differing += 1
            continue
        found = list(_differences(left[name], right[name], "", added))
        values += _count(left[name])
        differing += bool(found)
        for each in found[:SHOWN]:
            print(f"{name}: {each}")
        if len(found) > SHOWN:
            print(f"{name}: and {len(found) - SHOWN:,} more")
    for field, times in added.most_common():
        print(f"{field}: added {times:,} times")
    print(f"{len(left):,} files, {values:,} values: {differing:,} files differ")
    return not differing and bool(left)


def _records(folder: Path) -> dict[str, Any]:
    """What each file of JSON or JSON lines below ``folder`` holds, by its name without times and model folders."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.json*")):
        if path.suffix not in (".json", ".jsonl") or "model" in path.relative_to(folder).parts[:-1]:
            continue
        name = STAMP.sub("TIME", path.relative_to(folder).as_posix())
        text = path.read_text(encoding="utf-8").replace(str(folder.absolute()), "FOLDER")
        record = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        if path.parent.name == "trials":
            asked = json.dumps([record["config"], sorted(record["result"])], sort_keys=True)
            name = f"{Path(name).parent}/{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
            del record["study"]  # Of several that share a trial, the first that asked for it.
        found[name] = record
    return found


def _differences(old: Any, new: Any, where: str, added: Counter[str]) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        known = {_current(name, new) for name in old}
        added.update(name for name in new if name not in known and not VOLATILE.search(name))
        for name in old:
            if not VOLATILE.search(name):
                yield from _differences(old[name], new.get(_current(name, new)), f"{where}.{name}", added)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{where}[{place}]", added)
    elif isinstance(old, str) and isinstance(new, str) and old[:2] == '{"' == new[:2]:
        yield from _differences(json.loads(old), json.loads(new), f"{where}()", added)
    elif not _same(old, new):
        yield f"{where.removeprefix('.')} is {str(new)[:80]!r}, was {str(old)[:80]!r}"


def _current(name: str, new: dict[str, Any]) -> str:
    """Return the name that the version of ``new`` has for what an older one calls ``name``."""
    metric, ending = re.fullmatch(r"(.*?)((?:_stderr)?(?:,.*)?)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    names = (name, FIELDS.get(name, name), *(f"{current_metric(metric, each)}{ending}" for each in MISSED))
    return next((each for each in names if each in new), name)


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
