"""``leakage canaries``, ``plant`` and ``verify``: options in, one library call, a short report out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.errors import OptionError

if TYPE_CHECKING:
    from leakage_tasks.canaries.alphabets import Alphabet
    from leakage_tasks.canaries.canary import Canary


def canaries_command(
    template: Annotated[
        str,
        typer.Option(help="Text with slots, such as 'The pin of {unique} is {digits:4}.'; {unique} is a word each."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Manifest to write, one canary a line (JSONL).")],
    count: Annotated[int, typer.Option(help="Planted canaries, in all.")] = 1,
    repetitions: Annotated[str, typer.Option(help="How often each is planted, dealt out in turn.")] = "1",
    controls: Annotated[int, typer.Option(help="Control twins that are never planted, in all.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same canaries.")] = 0,
    words: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Word list for {NAME}, a word a line; repeatable.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Its whole words become {words}, its ordinary tokens {tokens}.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="The part of the template the attacker knows (default: all).")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Class of the canaries.")] = None,
    tags: Annotated[str | None, typer.Option(help="NER tags, one a token, with commas between.")] = None,
    supporting: Annotated[int, typer.Option(help="Supporting canaries of other classes for each planted one.")] = 0,
    supporting_labels: Annotated[str | None, typer.Option(help="Their classes, with commas between.")] = None,
    supporting_slots: Annotated[
        int | None, typer.Option(help="How many of the last slots they fill anew (default: half).")
    ] = None,
    id_prefix: Annotated[str, typer.Option(help="Put before every id, so that manifests can be joined.")] = "",
) -> None:
    """Make canaries: secrets in a template, to be planted in a training set, and controls to compare with."""
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.manifest import write_manifest

    alphabets = _alphabets(template, words or [], tokenizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        canaries = make_canaries(
            template,
            count,
            repetitions=_numbers("--repetitions", repetitions),
            controls=controls,
            seed=seed,
            alphabets=alphabets,
            known=known,
            label=label,
            tags=_items(tags),
            supporting=supporting,
            supporting_labels=_items(supporting_labels),
            supporting_slots=supporting_slots,
            id_prefix=id_prefix,
        )
    write_manifest(canaries, output)
    for warning in caught:
        typer.echo(f"leakage: warning: {warning.message}", err=True)
    typer.echo(_summary(canaries, output))


def plant_command(
    manifest: Annotated[Path, typer.Argument(help="Manifest that 'leakage canaries' wrote.")],
    source: Annotated[Path, typer.Argument(help=".txt, .jsonl, .csv, .parquet or a folder saved by 'datasets'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the planted copy goes, in the same format.")],
    seed: Annotated[int, typer.Option(help="Same seed, same places.")] = 0,
    text_column: Annotated[str, typer.Option(help="Column of the text, or of chat turns.")] = "text",
    label_column: Annotated[str | None, typer.Option(help="Column that gets the canaries' labels.")] = None,
    split: Annotated[str, typer.Option(help="Split of a saved folder with several that gets the canaries.")] = "train",
) -> None:
    """Plant canaries in a copy of a dataset, in random places; controls stay out."""
    from leakage_tasks.canaries.planting import plant

    report = plant(manifest, source, output, seed=seed, text_column=text_column, label_column=label_column, split=split)
    typer.echo(report.summary())


def verify_command(
    planted: Annotated[Path, typer.Argument(help="Dataset that 'leakage plant' wrote.")],
    manifest: Annotated[Path, typer.Argument(help="Manifest it was planted from.")],
    chunk: Annotated[int | None, typer.Option(help="Say which canaries chunks of this length cut in two.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Count chunks in this tokenizer's tokens.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the text (default: as planted).")] = None,
    split: Annotated[str | None, typer.Option(help="Split of a saved folder (default: as planted).")] = None,
) -> None:
    """Check a planted dataset: hashes, exact copies, no control in it. Exit code 1 if something differs."""
    from leakage_tasks.canaries.verify import verify

    report = verify(planted, manifest, chunk, tokenizer, text_column=text_column, split=split)
    for line in report.lines():
        typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(item) for item in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} is {text!r}: give whole numbers with commas between, such as 1,10") from None


def _items(text: str | None) -> list[str] | None:
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def _alphabets(template: str, words: list[str], tokenizer: str | None) -> dict[str, Alphabet]:
    from leakage_tasks.canaries.alphabets import tokenizer_words, word_file
    from leakage_tasks.canaries.spaces import slot_names

    used = slot_names(template)
    found = {}
    if tokenizer is not None:
        kinds = {"words": "whole-words", "tokens": "tokens"}
        found = {name: tokenizer_words(name, tokenizer, what) for name, what in kinds.items() if name in used}
    for item in words:
        name, equals, file = item.partition("=")
        if not (name and equals and file):
            raise OptionError(f"--words is {item!r}: write a name and a file, such as cities=cities.txt")
        found[name] = word_file(name, file)
    return found


def _summary(canaries: list[Canary], output: Path) -> str:
    from math import log2

    planted = [canary for canary in canaries if canary.planted]
    supporting = sum(canary.kind == "supporting" for canary in planted)
    copies = sum(canary.repetitions for canary in planted)
    size = canaries[0].space.size
    shown = f"{size:,}" if size < 10**15 else f"2^{log2(size):.1f}"
    return (
        f"{output}: {len(planted) - supporting} canaries"
        + (f" and {supporting} supporting ones" if supporting else "")
        + f" ({copies} copies to plant), {len(canaries) - len(planted)} controls; "
        f"space of {shown} secrets, {log2(size):.1f} bits"
    )
