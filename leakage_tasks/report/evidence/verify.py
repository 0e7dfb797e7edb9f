"""Offline verification of an evidence report: its record, its page, and the files that it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leakage_tasks.core.errors import LeakageError, ResultsError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.records import WrongField
from leakage_tasks.report.evidence.files import (
    NO_FILES,
    Files,
    Verification,
    data_outcome,
    manifest_outcome,
    model_outcomes,
    results_outcomes,
    states_recorded,
)
from leakage_tasks.report.evidence.hashes import (
    ALL_HASHED,
    MANIFEST,
    MODEL,
    PARTS,
    PLANTED,
    RESULTS,
    of_kind,
    this_code,
)
from leakage_tasks.report.evidence.page import digest_in, page, record_in
from leakage_tasks.report.evidence.record import Code, Evidence, canonical, digest_of, evidence_from_json
from leakage_tasks.report.load.validate import printable

NOT_PROVEN = (
    "not proven: who made the report, and that its results come from a run; the file has no signature. Sign it with "
    "your own tool, such as gpg --detach-sign report.html"
)
_FROM_RESULTS = ("date", "summary", "protocol", "results", "audit", "checks", "outcomes", "meanings", "limits")
"""Parts of a record that follow from the results alone."""
_FROM_REGISTRIES = ("omissions", "annexes")
"""Parts that also depend on the installed tasks and attacks."""


class Verified(NamedTuple):
    """Outcomes of the checks of a report, and notes on all that no check covers."""

    outcomes: list[Verification]
    notes: list[str]


def verify(path: str | Path, files: Files = NO_FILES) -> Verified:
    """Check a report against itself and against files.

    Args:
        path: The report.
        files: The files to compare with the report's hashes; results are also read, and their figures compared.

    Returns:
        One outcome per check, with notes on the hashes that no given file checks and on the limits of every
        verification. A report whose record cannot be read has no further outcomes and no notes.

    Raises:
        ResultsError: If the file is no report, or a given file cannot be checked.
    """
    text = _read(Path(path))
    record = record_in(text)
    if record is None:
        raise ResultsError(f"{path}: holds no record of an evidence report: give a page of 'leakage report'")
    printed, computed = digest_in(text), digest_of(record)
    words = f"record: SHA-256 {computed}"
    fault = f"{words}, but the page prints {printed or 'none'}: the record or the page was edited"
    checks = [Verification(True, f"{words}, as printed") if printed == computed else Verification(False, fault)]
    try:
        evidence = evidence_from_json(parse_json(record))
    except (WrongField, ValueError) as error:
        fault = f"field {printable(str(error))}" if isinstance(error, WrongField) else "not JSON"
        return Verified([*checks, Verification(False, f"record: {fault}: the record was edited")], [])
    code = this_code()
    same = (code.version, code.sources) == (evidence.code.version, evidence.code.sources)
    checks.append(_page(evidence, record, text, same))
    if files.results is not None:
        checks += [*results_outcomes(evidence, files.results), *_figures(evidence, files.results, same, code)]
    if files.model:
        checks += list(model_outcomes(evidence, files.model))
    if files.manifest is not None:
        checks.append(manifest_outcome(evidence, files.manifest))
    checks += [data_outcome(evidence, data) for data in files.data]
    return Verified(checks, [*_unchecked(evidence, files), NOT_PROVEN])


def _read(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path}: not UTF-8 at byte {error.start}: give a page of 'leakage report'") from None


def _page(evidence: Evidence, record: str, text: str, same_code: bool) -> Verification:
    if canonical(evidence) != record:
        return Verification(False, "record: not in its canonical form: the record was edited")
    if page(evidence) == text:
        return Verification(True, "page: shows the record, byte for byte")
    if same_code:
        return Verification(False, "page: differs from the page of its record: the page was edited")
    return Verification(None, f"page: differs from the page of its record, {_other_code(evidence)}")


def _other_code(evidence: Evidence) -> str:
    return (
        f"but other code wrote it (lm-eval-leakage {evidence.code.version}, sources {evidence.code.sources[:12]}…): "
        "check it with that code"
    )


def _packages(code: Code) -> str:
    return ", ".join(code.extensions) or "none"


def _figures(evidence: Evidence, folder: Path, same_code: bool, code: Code) -> Iterator[Verification]:
    """Yield the comparison of the record with one that is gathered again from the results."""
    # Attacks, whose registry this loads, take seconds to import.
    from leakage_tasks.report.evidence.gather import gather

    named = {stated.name for stated in of_kind(evidence.hashes, RESULTS)}
    paths = [folder] if folder.is_file() else sorted(file for file in folder.rglob("*.json") if file.name in named)
    source = folder if len(paths) != 1 else paths[0]
    try:
        again = gather(source, evidence.settings)
    except LeakageError as error:
        yield Verification(False, f"figures: cannot be gathered from the results again: {error}")
        return
    parts = (*_FROM_RESULTS, *_FROM_REGISTRIES)
    wrong = [name for name in parts if _part(evidence, name) != _part(again, name)]
    wrong += [] if states_recorded(evidence.hashes, again.hashes) else ["hashes"]
    pictures = [drawn.picture for drawn in evidence.figures] != [drawn.picture for drawn in again.figures]
    others = pictures and code.drawing != evidence.code.drawing
    wrong += ["figures"] if pictures and not others else []
    if wrong and not set(wrong) - set(_FROM_REGISTRIES) and evidence.code.extensions != code.extensions:
        packages = f"{_packages(evidence.code)} then, {_packages(code)} now"
        yield Verification(None, f"figures: {', '.join(wrong)} depend on other packages, which differ: {packages}")
    elif wrong and not same_code:
        yield Verification(None, f"figures: {', '.join(wrong)} differ from the results, {_other_code(evidence)}")
    elif wrong:
        yield Verification(False, f"figures: {', '.join(wrong)} differ from the results")
    else:
        yield Verification(True, "figures: equal to the figures of the results")
    if others:
        words = f"pictures: drawn by {evidence.code.drawing}, this is {code.drawing}: check them with that version"
        yield Verification(None, words)


def _part(evidence: Evidence, name: str) -> object:
    """Return a part of a record; the facts on a self-test do not come from the results."""
    value = getattr(evidence, name)
    return tuple(group for group in value if group.title != "Self-test") if name == "protocol" else value


def _unchecked(evidence: Evidence, files: Files) -> list[str]:
    options = {
        RESULTS: ("--results", files.results),
        MODEL: ("--model", files.model or None),
        MANIFEST: ("--manifest", files.manifest),
        PLANTED: ("--data", files.data or None),
    }
    partial = [known for known in of_kind(evidence.hashes, PARTS) if known.digest != ALL_HASHED]
    return [
        *(
            f"not checked: {kind} (give {option})"
            for kind, (option, path) in options.items()
            if path is None and of_kind(evidence.hashes, kind)
        ),
        *(
            f"not checked: {known.kind} {known.name}: {known.digest} (write the report with --model for each)"
            for known in partial
        ),
    ]
