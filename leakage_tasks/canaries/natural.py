"""Secrets that a corpus already contains, as canaries of kind ``natural`` with the surrounding text as template."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.detect import DETECTORS, LONGEST, detector_of, kinds_of
from leakage_tasks.canaries.generate import check_number
from leakage_tasks.canaries.kinds.names import NAMES
from leakage_tasks.canaries.natural_secrets import (
    Alphabets,
    NaturalSecret,
    Passage,
    alphabets_of,
    collect,
    measurable,
)
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.layout import NoColumnError
from leakage_tasks.data.saved import is_saved

CONTEXT = 40
"""Default limit on the characters before a secret in its template."""
MOST_CONTEXT = LONGEST - 1
TRIES = 100
"""Maximum number of attempts to draw an unused secret for a control."""
VALID_TRIES = 100_000
"""Maximum number of attempts to draw a valid secret for a control."""
SHOWN_BITS = 1.0
"""Bits that rules such as check digits take from a space, from which the summary states them."""


def natural_canaries(
    passages: Iterable[Passage],
    *,
    detect: Iterable[str] = ("all",),
    context: int = CONTEXT,
    controls: int = 0,
    seed: int = 0,
    id_prefix: str = "",
) -> list[Canary]:
    """Make a canary for each distinct secret in ``passages``, in order of first occurrence, followed by its controls.

    A secret's template begins with the preceding text: up to ``context`` characters of its line from the beginning of a
    word (and of the line before, if the secret starts its line). Then comes the secret's format, with a slot for each
    character that an attacker must guess. If a secret has several contexts, the most common one is used.
    ``repetitions`` counts all occurrences of the secret, in any form and context. A control has the secret's template
    with another valid random secret, which is not in the passages and differs from the other controls. Secrets whose
    space is not known are left out, with a warning that counts them.

    Args:
        passages: The texts to search.
        detect: The kinds of secrets, or the names of groups of kinds.
        context: The maximum number of characters before a secret in its template.
        controls: The number of never-planted controls of each secret.
        seed: The seed of the controls' secrets; a draw depends on it, on the control's id and on the secrets in use.
        id_prefix: The text before every id.

    Raises:
        OptionError: For an unknown kind, a number below 0, or if no secret is found.
    """
    if not 0 <= context <= MOST_CONTEXT:
        raise OptionError(f"--context is {context}: give 0 to {MOST_CONTEXT} characters")
    check_number("--controls", controls)
    names = list(detect)
    kinds = kinds_of(names)
    secrets, declined = measurable(collect(passages, kinds, context))
    _warn_of_declined(declined)
    if not secrets:
        raise OptionError(
            f"no secret of kind {', '.join(names)} was found: choose other kinds with --detect, or another text"
        )
    alphabets = {kind: alphabets_of(kind, secrets) for kind in {secret.kind for secret in secrets}}
    planted = [
        _canary(secret, f"{id_prefix}natural-{number:04}-{secret.kind}", alphabets[secret.kind])
        for number, secret in enumerate(secrets, 1)
    ]
    taken = {
        (secret.kind, "".join(form.template(alphabets[secret.kind])[1])) for secret in secrets for form in secret.forms
    }
    canaries = []
    for canary, secret in zip(planted, secrets, strict=True):
        canaries += [canary, *(_control(canary, secret, index, seed, taken) for index in range(controls))]
    return canaries


def holding_secrets(canaries: Iterable[Canary]) -> list[str]:
    """Return the ids of natural canaries whose template shows the secret of another canary.

    Manifests made by :func:`natural_canaries` contain no such canary.
    """
    natural = [canary for canary in canaries if canary.kind == "natural" and canary.planted]
    secrets = {_hidden(canary) for canary in natural}
    lengths = sorted({len(secret) for secret in secrets})
    pieces = {canary.template: canary.space.pieces for canary in natural}
    shown = {template for template, around in pieces.items() if _shows(around, secrets, lengths)}
    return [canary.id for canary in natural if canary.template in shown]


def warn_of_shown_secrets(canaries: Sequence[Canary]) -> None:
    """Warn about natural canaries whose template shows the attacker another secret."""
    showing = holding_secrets(canaries)
    if showing:
        warn_once(
            f"the templates of {len(showing)} natural canaries, such as {showing[0]!r}, hold another secret in clear, "
            "which the attacker is given: make the manifest again with 'leakage canaries --from-text'"
        )


def _hidden(canary: Canary) -> str:
    """Return the text from the first to the last slot, which the attacker must guess."""
    first, *_, last = canary.space.pieces
    return canary.text[len(first) : len(canary.text) - len(last)]


def _shows(pieces: Iterable[str], secrets: set[str], lengths: Sequence[int]) -> bool:
    return any(
        piece[at : at + length] in secrets
        for piece in pieces
        for length in lengths
        for at in range(len(piece) - length + 1)
    )


def corpus_passages(path: Path, *, text_column: str = "text", split: str = "train") -> Iterator[Passage]:
    """Yield the text of a file in any format that canaries can be planted into, or of all ``.txt`` files of a folder.

    Files of a folder are sorted by name. Raises PlantingError if the text cannot be read, OptionError for a folder
    without text, ChangedError for a file that changes while it is read.
    """
    wanted = Columns(text_column, None, split)
    for source in _sources(path):
        kind = format_of(source)
        with unchanged(source):
            try:
                layout = kind.survey(source, wanted)
            except NoColumnError as error:
                # In a file without a header, the column names are its first row, which may hold secrets.
                raise error.nameless from None
            turns = (turn for row in kind.texts(source, layout, wanted) for turn in row)
            yield from _running(turns) if kind.running else map(Passage, turns)


def check_output(path: Path, output: Path) -> None:
    """Raise OptionError if the manifest would overwrite the corpus."""
    if output.exists() and any(source.exists() and source.samefile(output) for source in _sources(path)):
        raise OptionError(f"-o {output}: is the text that --from-text reads: choose another name")


def summary(canaries: Sequence[Canary], output: Path) -> str:
    """Return a one-line summary with counts only, which reveals no secret."""
    secrets = [canary for canary in canaries if canary.planted]
    kinds = Counter(canary.id.rpartition("-")[2] for canary in secrets)
    present = [kind for kind in (*DETECTORS, *NAMES) if kinds[kind]]
    rules = {kind: detector_of(kind).rule_bits for kind in present}
    ruled = ", ".join(f"{bits:.1f} bits of {kind}" for kind, bits in rules.items() if bits >= SHOWN_BITS)
    times, controls = sum(secret.repetitions for secret in secrets), len(canaries) - len(secrets)
    occur, in_all = ("occurs", "") if len(secrets) == 1 else ("occur", " in all")
    return (
        f"{output}: {counted(len(secrets), 'natural secret')} "
        f"({', '.join(f'{kinds[kind]} {kind}' for kind in present)}) that {occur} {counted(times, 'time')}{in_all}, "
        f"{counted(controls, 'control')}"
        + (f"; rules such as check digits take at least {ruled}" if ruled else "")
        + "; only its owner may read the file, which holds them"
    )


def revealed(canaries: Iterable[Canary]) -> Iterator[str]:
    """Yield a line with each secret in its context, with control characters escaped."""
    for canary in canaries:
        if canary.planted:
            yield f"{canary.id} ({counted(canary.repetitions, 'time')}): {json.dumps(canary.text, ensure_ascii=False)}"


def _sources(path: Path) -> list[Path]:
    if not path.is_dir() or is_saved(path):
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".txt" and file.is_file())
    if not files:
        raise OptionError(f"--from-text {path}: a folder without .txt files or a saved data set: name another")
    return files


def _running(blocks: Iterable[str]) -> Iterator[Passage]:
    """Yield the blocks of one text as overlapping passages, so that each passage has enough context."""
    held, first = "", 0
    for block in blocks:
        held += block
        stop = len(held) - LONGEST
        if stop > first:
            yield Passage(held, first, stop)
            start = max(0, stop - LONGEST)
            held, first = held[start:], stop - start
    yield Passage(held, first)


def _warn_of_declined(declined: Counter[str]) -> None:
    if declined:
        each = ", ".join(f"{number} {what}" for what, number in declined.items())
        message = f"left out {counted(declined.total(), 'secret')} whose space is not known: {each}"
        warnings.warn(message, stacklevel=3)


def _canary(secret: NaturalSecret, name: str, alphabets: Alphabets) -> Canary:
    template, filling, own = secret.form.template(alphabets)
    uniform = detector_of(secret.kind).uniform
    return Canary(name, template, filling, repetitions=secret.times, kind="natural", alphabets=own, uniform=uniform)


def _control(canary: Canary, secret: NaturalSecret, number: int, seed: int, taken: set[tuple[str, str]]) -> Canary:
    """Return a twin of ``canary`` with another valid secret of the same kind."""
    kind, form = secret.kind, secret.form
    name = canary.id.removesuffix(kind) + f"control-{number}-{kind}"
    stream = random.Random(f"natural:{seed}:{name}")
    detector, start, tries = detector_of(kind), len(form.before), 0
    for _ in range(VALID_TRIES):
        filling = canary.space.at(stream.randrange(canary.space.size))
        if not detector.recognises(canary.space.begin(filling)[start:] + form.separator, form.check_length):
            continue
        if (kind, "".join(filling)) not in taken:
            taken.add((kind, "".join(filling)))
            return replace(canary, id=name, secret=filling, repetitions=0, planted=False)
        tries += 1
        if tries == TRIES:
            break
    raise OptionError(
        f"--controls: {canary.id} has {canary.space.size} fillings, too few for more controls: give a lower number"
    )
