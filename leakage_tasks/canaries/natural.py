"""Secrets that are in a corpus already, as canaries of kind ``natural`` with their context as template."""

from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from leakage_tasks.canaries.alphabets import BUILT_IN, Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.detect import DETECTORS, LONGEST, DetectedSecret, find_secrets, kinds_of
from leakage_tasks.canaries.generate import check_number
from leakage_tasks.canaries.spaces import Filling, literal
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.layout import NoColumnError
from leakage_tasks.data.saved import is_saved

CONTEXT = 40
"""Characters before a secret that its template begins with, at most, unless asked for otherwise."""
MOST_CONTEXT = LONGEST - 1
TRIES = 100
"""Draws of a control's secret before there are taken to be too few."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_UP_TO_A_WORD = re.compile(r"\S*\s+(?=\S)")


@dataclass(frozen=True)
class Passage:
    """Text, of which secrets that begin at ``first``..``stop`` are looked for: what is around is their context."""

    text: str = field(repr=False)
    first: int = 0
    stop: int | None = None


@dataclass
class _Secret:
    """One secret: how often it occurs in all, and each way it stands there with how often."""

    kind: str
    times: int = 0
    ways: Counter[tuple[str, Filling]] = field(default_factory=Counter)


def natural_canaries(
    passages: Iterable[Passage],
    *,
    detect: Iterable[str] = tuple(DETECTORS),
    context: int = CONTEXT,
    controls: int = 0,
    seed: int = 0,
    id_prefix: str = "",
) -> list[Canary]:
    """One canary for each distinct secret in ``passages``, in order of first occurrence, each followed by its controls.

    A secret's template is what stands before it, up to ``context`` characters of its line beginning with a whole word
    (and of the line before, where it begins its own), then its format with a slot for each character that an attacker
    would have to guess. Of several contexts the most common one is taken. ``repetitions`` is how often the secret
    occurs, in whatever form and context. ``controls`` never-planted twins of each have another random secret in the
    same template, none that was found or that another control has. What they are drawn from depends on ``seed`` and id
    alone; where a draw is taken already, on the secrets and controls before it too.

    Raises OptionError for an unknown kind, a number below 0, or where nothing is found.
    """
    if not 0 <= context <= MOST_CONTEXT:
        raise OptionError(f"--context is {context}: give 0 to {MOST_CONTEXT} characters")
    check_number("--controls", controls)
    kinds = kinds_of(detect)
    secrets = _collect(passages, kinds, context)
    if not secrets:
        raise OptionError(
            f"no secret of kind {', '.join(kinds)} was found: look for others with --detect, or elsewhere"
        )
    taken = {(secret.kind, "".join(filling)) for secret in secrets for _, filling in secret.ways}
    canaries = []
    for number, secret in enumerate(secrets, 1):
        canary = _canary(secret, f"{id_prefix}natural-{number:04}-{secret.kind}")
        canaries += [canary, *(_control(canary, secret.kind, index, seed, taken) for index in range(controls))]
    return canaries


def holding_secrets(canaries: Iterable[Canary]) -> list[str]:
    """Return the ids of natural canaries whose template shows the secret of another one, as a manifest may have it.

    What :func:`natural_canaries` makes never does.
    """
    natural = [canary for canary in canaries if canary.kind == "natural" and canary.planted]
    secrets = {_hidden(canary) for canary in natural}
    lengths = sorted({len(secret) for secret in secrets})
    pieces = {canary.template: canary.space.pieces for canary in natural}
    shown = {template for template, around in pieces.items() if _shows(around, secrets, lengths)}
    return [canary.id for canary in natural if canary.template in shown]


def warn_of_shown_secrets(canaries: Sequence[Canary]) -> None:
    """Warn of natural canaries whose attacker is given another secret in clear."""
    found = holding_secrets(canaries)
    if found:
        warn_once(
            f"the templates of {len(found)} natural canaries, such as {found[0]!r}, hold another secret in clear, "
            "which the attacker is given: make the manifest anew with 'leakage canaries --from-text'"
        )


def _hidden(canary: Canary) -> str:
    """Return what an attacker has to find: the filled text without what is before the first and after the last slot."""
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
    """The text of any file that canaries can be planted into, or of all ``.txt`` files of a folder by name.

    Raises PlantingError where it cannot be read, OptionError for a folder without text, ChangedError for a file that
    changes meanwhile.
    """
    wanted = Columns(text_column, None, split)
    for source in _sources(path):
        kind = format_of(source)
        with unchanged(source):
            try:
                layout = kind.survey(source, wanted)
            except NoColumnError as error:
                # In a file without a header they are its first row.
                raise error.nameless from None
            turns = (turn for row in kind.texts(source, layout, wanted) for turn in row)
            yield from _running(turns) if kind.running else map(Passage, turns)


def check_output(path: Path, output: Path) -> None:
    """Raise OptionError where the manifest would take the place of the corpus."""
    if output.exists() and any(source.exists() and source.samefile(output) for source in _sources(path)):
        raise OptionError(f"-o {output}: is the text that --from-text reads: choose another name")


def summary(canaries: Sequence[Canary], output: Path) -> str:
    """What was found, in counts alone, as one line for people."""
    secrets = [canary for canary in canaries if canary.planted]
    kinds = Counter(canary.id.rpartition("-")[2] for canary in secrets)
    counted = ", ".join(f"{kinds[kind]} {kind}" for kind in DETECTORS if kinds[kind])
    return (
        f"{output}: {len(secrets)} natural secrets ({counted}) that occur "
        f"{sum(secret.repetitions for secret in secrets)} times, {len(canaries) - len(secrets)} controls; only its "
        "owner may read the file, which holds them"
    )


def revealed(canaries: Iterable[Canary]) -> Iterator[str]:
    """A line for each secret that shows it in its context, whatever control characters that has."""
    for canary in canaries:
        if canary.planted:
            yield f"{canary.id} ({canary.repetitions} times): {json.dumps(canary.text, ensure_ascii=False)}"


def _sources(path: Path) -> list[Path]:
    if not path.is_dir() or is_saved(path):
        return [path]
    found = sorted(each for each in path.iterdir() if each.suffix.lower() == ".txt" and each.is_file())
    if not found:
        raise OptionError(f"--from-text {path}: a folder without .txt files that 'datasets' did not save: name another")
    return found


def _running(blocks: Iterable[str]) -> Iterator[Passage]:
    """Blocks of one text, which end anywhere, as passages with enough of their neighbours around."""
    held, first = "", 0
    for block in blocks:
        held += block
        stop = len(held) - LONGEST
        if stop > first:
            yield Passage(held, first, stop)
            kept = max(0, stop - LONGEST)
            held, first = held[kept:], stop - kept
    yield Passage(held, first)


def _collect(passages: Iterable[Passage], kinds: Sequence[str], context: int) -> list[_Secret]:
    secrets: dict[tuple[str, str], _Secret] = {}
    for passage in passages:
        stop = len(passage.text) if passage.stop is None else passage.stop
        before = 0
        for found in find_secrets(passage.text):
            if found.kind in kinds and passage.first <= found.start < stop:
                secret = secrets.setdefault((found.kind, found.normal), _Secret(found.kind))
                secret.times += 1
                # A context goes back no further than the secret before it: no template shows another secret.
                secret.ways[_way(passage.text, found, min(context, found.start - before))] += 1
            before = found.end
    return list(secrets.values())


def _way(text: str, found: DetectedSecret, context: int) -> tuple[str, Filling]:
    """Template and filling of a secret where it stands."""
    start, end = found.hidden
    hidden = text[start:end]
    alphabet = _alphabet(found.kind, hidden)
    parts = re.split(rf"([{re.escape(''.join(alphabet.values))}]+)", hidden)
    slots = [f"{{{alphabet.name}:{len(part)}}}" if index % 2 else literal(part) for index, part in enumerate(parts)]
    before = _before(text, found.start, context) + text[found.start : start]
    template = literal(before) + "".join(slots) + literal(text[end : found.end])
    return template, tuple("".join(parts[1::2]))


def _before(text: str, start: int, context: int) -> str:
    """The context of a secret that begins at ``start``."""
    first = max(0, start - context)
    before = text[first:start]
    lines = before.split("\n")
    kept = lines.pop()
    while lines and not kept.strip():
        kept = f"{lines.pop()}\n{kept}"
    if len(kept) == len(before) and first:
        begun = _UP_TO_A_WORD.match(text, first - 1, start)
        kept = text[begun.end() : start] if begun else kept
    return _SURROGATE.split(kept)[-1]


def _alphabet(kind: str, hidden: str) -> Alphabet:
    """Digits, or what the local part of an address is made of: capitals only where it has some."""
    characters = DETECTORS[kind].characters
    if characters == string.digits:
        return BUILT_IN["digits"]
    if hidden == hidden.lower():
        return Alphabet("local", tuple(character for character in characters if not character.isupper()))
    return Alphabet("local_capitals", tuple(characters))


def _canary(secret: _Secret, name: str) -> Canary:
    # Among equals the way that came first.
    ((template, filling), _) = secret.ways.most_common(1)[0]
    alphabet = _alphabet(secret.kind, "".join(filling))
    alphabets = {} if alphabet.name in BUILT_IN else {alphabet.name: alphabet}
    return Canary(name, template, filling, repetitions=secret.times, kind="natural", alphabets=alphabets)


def _control(canary: Canary, kind: str, place: int, seed: int, taken: set[tuple[str, str]]) -> Canary:
    name = canary.id.removesuffix(kind) + f"control-{place}-{kind}"
    stream = random.Random(f"natural:{seed}:{name}")
    for _ in range(TRIES):
        filling = canary.space.at(stream.randrange(canary.space.size))
        if (kind, "".join(filling)) not in taken:
            taken.add((kind, "".join(filling)))
            return replace(canary, id=name, secret=filling, repetitions=0, planted=False)
    raise OptionError(
        f"--controls: {canary.id} has {canary.space.size} fillings, too few for more controls: ask for fewer"
    )
