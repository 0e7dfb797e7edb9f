"""``leakage canaries``: options in, one library call, a short report out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary


@register_command("canaries", 1)
def canaries_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Manifest to write, one canary a line (JSONL).")],
    template: Annotated[
        str | None,
        typer.Option(help="Text with slots, such as 'The pin of {unique} is {digits:4}.'; {unique} is a word each."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A paper's canaries instead: elmahdy or mix-and-match for classifiers, nlu-call, nlu-pin or nlu-color "
            "for models that tag words."
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Canaries like --data instead, as many of each family: typical, high-perplexity, new-token, bigram, "
            "high-temperature; several with commas between."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="How many canaries, copies and controls: smoke (6, 6 controls) to try things out, routine (32 planted "
            "1, 4 and 16 times, 100 controls; what a template without any number gets) or powered (96, 200)."
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(help="Planted canaries, in all, instead of a profile's.")] = None,
    repetitions: Annotated[
        str | None, typer.Option(help="How often each is planted, dealt out in turn (default: 1; elmahdy, nlu: 100).")
    ] = None,
    controls: Annotated[
        int | None, typer.Option(help="Control twins that are never planted, in all; with --from-text, of each secret.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Make the canaries of this seed again, which stands in their manifest (default: a seed of the "
            "operating system's entropy)."
        ),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Word list for {NAME}, a word a line; repeatable.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Its whole words become {words}, with its numbers {terms}, its ordinary tokens {tokens}."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="high-temperature: causal model that writes them, a folder or hub name.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="high-temperature: what it draws its words at (default: 1.0).")
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="--family: whose turns of chats in --data to take (default: assistant).")
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="The part of the template the attacker knows (default: all).")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Source sentence for a translation model; fixed, or with the template's slots."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Class of the canaries: a name or, of --data, rarest (default) or most-popular.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Training data, to count its classes in or, for --family, to take sentences from; not changed."
        ),
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the class in --data.")] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the text in --data or --from-text (default: text).")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of --data or --from-text, for a saved folder (default: train).")
    ] = None,
    tags: Annotated[str | None, typer.Option(help="Slot tags, one a word, with commas between.")] = None,
    supporting: Annotated[
        str | None,
        typer.Option(help="Supporting canaries in other classes for each planted one: a number, one, all or none."),
    ] = None,
    supporting_labels: Annotated[
        str | None, typer.Option(help="Those classes, with commas between (default: all in --data).")
    ] = None,
    supporting_slots: Annotated[
        int | None, typer.Option(help="How many of the last slots they fill anew (default: half; elmahdy: all).")
    ] = None,
    supporting_repetitions: Annotated[
        int | None, typer.Option(help="elmahdy: how often each of them is planted (default: 1).")
    ] = None,
    unknown: Annotated[
        int | None,
        typer.Option(help="How many words are secret (elmahdy: 1 of 10; nlu: 4, up to 20; --family: 2, up to 8)."),
    ] = None,
    area_code: Annotated[
        str | None, typer.Option(help="nlu-call: known first digits of a number of ten: three digits, or random.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(help="elmahdy: file of sentences, one a line, to plant instead of random words.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="mix-and-match: five sentences labelled same, different or mixed (Figure 4).")
    ] = None,
    position: Annotated[
        int | None, typer.Option(help="mix-and-match: which word is secret (default: the last).")
    ] = None,
    doubled: Annotated[bool, typer.Option("--doubled", help="mix-and-match: pairs joined with 'and'.")] = False,
    only: Annotated[str | None, typer.Option(help="mix-and-match: these targets alone, such as towels,1974.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of a preset that a plugin brings; repeatable."),
    ] = None,
    from_text: Annotated[
        Path | None,
        typer.Option(help="Make canaries of the secrets in this file, or in the .txt files of this folder, instead."),
    ] = None,
    detect: Annotated[
        str | None, typer.Option(help="--from-text: kinds of secrets, of email,ccn,ssn,phone (default: all).")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="--from-text: characters before a secret to begin its template with (40).")
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="--from-text: print the secrets that were found.")] = False,
    id_prefix: Annotated[str, typer.Option(help="Put before every id, so that manifests can be joined.")] = "",
) -> None:
    """Make canaries: secrets in a template, to be planted in a training set, and controls to compare with."""
    given = {name: value for name, value in locals().items() if name != "output"}
    if seed is None:
        del given["seed"]
    from leakage_tasks.canaries import natural
    from leakage_tasks.canaries.cli_options import requested
    from leakage_tasks.canaries.generation_modes import CanaryOptions
    from leakage_tasks.canaries.manifest import write_manifest
    from leakage_tasks.core.atomic import check_place

    check_place(output)
    if from_text is not None:
        natural.check_output(from_text, output)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        canaries = requested(CanaryOptions(**given))
    write_manifest(canaries, output)
    for warning in caught:
        typer.echo(f"leakage: warning: {warning.message}", err=True)
    for line in natural.revealed(canaries) if reveal else ():
        typer.echo(line)
    typer.echo(_summary(canaries, output) if from_text is None else natural.summary(canaries, output))


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
        f"space of {shown} secrets, {log2(size):.1f} bits" + _of_class(canaries) + _of_data(canaries)
    )


def _of_class(canaries: list[Canary]) -> str:
    """The class of the canaries that have one in common, which may have been found by counting."""
    labels = {canary.label for canary in canaries if canary.supports is None}
    return f"; class {labels.pop()!r}" if len(labels) == 1 and None not in labels else ""


def _of_data(canaries: list[Canary]) -> str:
    """For canaries of families: which, and that the manifest may hold what the data hold."""
    families = dict.fromkeys(canary.family for canary in canaries if canary.family is not None)
    if not families:
        return ""
    held = "; the manifest, and samples logged with it, hold sentences of --data: only you may read it"
    return f"; of each family: {', '.join(families)}" + held
