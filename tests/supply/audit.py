"""Have the packages installed here known advisories? pip-audit asks; a package it could not look up is a failure.

Exit codes: 0 all were looked up and none has one; 1 some have one, or were not looked up; 3 no database of advisories
can be reached. ``make audit`` runs this in the environment whose packages are meant, with pip-audit from another one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

OURS = "lm-eval-leakage"
SERVICES = ("pypi", "osv")
Outcome = tuple[int, list[str]]


def pins() -> dict[str, str]:
    """Version by name of what is installed, ours left out; versions as an index has them, so without ``+cpu``."""
    found = {canonicalize_name(each.name): each.version.partition("+")[0] for each in distributions()}
    return {str(name): version for name, version in sorted(found.items()) if name != OURS}


def ask(program: list[str], pinned: dict[str, str], service: str) -> list[dict[str, Any]] | None:
    """What pip-audit says of each package, None where it got no answer."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "pins.txt")
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()))
        options = ["-r", str(wanted), "--no-deps", "--disable-pip", "-f", "json", "--progress-spinner", "off"]
        done = subprocess.run([*program, *options, "-s", service], capture_output=True, text=True)
    try:
        answers: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return answers


def judge(answers: list[dict[str, Any]] | None, pinned: dict[str, str]) -> Outcome:
    """The exit code, and a line for each package that is at fault."""
    known = {each["name"]: each for each in answers or () if "vulns" in each}
    if not known:
        return 3, ["advisories were not looked up: no database of advisories can be reached from here"]
    lines = [
        f"{name} {each['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no version yet'}"
        for name, each in known.items()
        for found in each["vulns"]
    ]
    why = {each["name"]: each.get("skip_reason") for each in answers or ()}
    missing = [name for name in pinned if name not in known]
    lines += [f"{name} {pinned[name]}: not looked up ({why.get(name) or 'no answer'})" for name in missing]
    return (1, lines) if lines else (0, [f"{len(known)} packages looked up, no advisories"])


def audit(program: list[str], pinned: dict[str, str]) -> Outcome:
    """Ask one database after the other until one knows any of the packages."""
    outcome: Outcome = judge(None, pinned)
    for service in SERVICES:
        outcome = judge(ask(program, pinned, service), pinned)
        if outcome[0] != 3:
            break
    return outcome


def main() -> None:
    """Ask, print, exit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="+", help="how pip-audit is called")
    code, lines = audit(parser.parse_args().program, pins())
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
