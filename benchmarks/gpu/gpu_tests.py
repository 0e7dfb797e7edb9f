"""The tests that need a GPU; other machines skip them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

from benchmarks import ROOT
from benchmarks.gpu.report import FAILED, HELD, LEFT_OUT, Report, step_options

REASON = 'reason="needs a GPU"'
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def files() -> list[str]:
    """Return the test files that contain a test that needs a GPU."""
    found = (path for path in (ROOT / "tests").rglob("test_*.py") if REASON in path.read_text(encoding="utf-8"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def main() -> None:
    """Run the tests with "gpu" in their names."""
    options = step_options(__doc__).parse_args()
    report = Report("tests", options.out)
    if importlib.util.find_spec("pytest") is None:
        report.add("pytest", "not installed", LEFT_OUT)
        report.exit()
    words = [sys.executable, "-m", "pytest", "-q", "-k", "gpu", "-p", "no:cacheprovider", *files()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n")
    counts = {what: int(number) for number, what in COUNTS.findall(done.stdout)}
    words_of_counts = ", ".join(f"{number} {what}" for what, number in counts.items()) or "no test ran"
    outcome = FAILED if done.returncode else LEFT_OUT if counts.get("skipped") else HELD
    report.add("tests that need a GPU", words_of_counts, outcome)
    report.exit()


if __name__ == "__main__":
    main()
