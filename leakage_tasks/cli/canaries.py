"""``leakage canaries``, ``plant`` and ``verify``: options in, one library call, a short report out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary

_SOURCE = (
    ".txt, .jsonl, .csv, .conll (or these with .gz, .zst), .parquet, .arrow, a folder saved by 'datasets', one with "
    "seq.in, seq.out and label, or shards: a folder of such files, or a quoted pattern such as 'data/*.jsonl.zst'."
)


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
    from leakage_tasks.canaries.cli_options import CanaryOptions, requested
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


@register_command("plant", 2)
def plant_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the planted copy goes, in the same format.")],
    manifest: Annotated[Path | None, typer.Argument(help="Manifest that 'leakage canaries' wrote.")] = None,
    source: Annotated[Path | None, typer.Argument(help=_SOURCE)] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Validation data, which gets a tenth of each canary's copies instead.")
    ] = None,
    validation_output: Annotated[Path | None, typer.Option(help="Where the planted copy of --validation goes.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same places.")] = 0,
    text_column: Annotated[str, typer.Option(help="Column of the text, or of chat turns.")] = "text",
    role: Annotated[
        str | None,
        typer.Option(help="Whose turn of a chat the canaries are: assistant (default), user, system or tool."),
    ] = None,
    turn: Annotated[
        str | None,
        typer.Option(
            help="Where in chats: new (default), each copy a conversation of its own, or at the end of the last or a "
            "random turn of --role in a conversation that is there."
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column that gets the canaries' labels (NLU data: always).")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(help="Column that gets the canaries' source sentences, for translation.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="For canaries without a label: rarest, most-popular or a class; the manifest gets it too."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a saved folder with several that gets the canaries.")] = "train",
    fuzzy: Annotated[
        int | None,
        typer.Option(help="Change so many words around the secret in all copies but one; the manifest gets them too."),
    ] = None,
    remove: Annotated[
        Path | None,
        typer.Option(help="Take the canaries out of this planted data again, by its record; without MANIFEST, SOURCE."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Shards at once, in processes of their own.")] = 1,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster whose workers take the shards.")
    ] = None,
) -> None:
    """Plant canaries in a copy of a dataset, in random places; controls stay out."""
    if remove is not None:
        from leakage_tasks.canaries.removing import remove as take_out

        if manifest is not None or source is not None:
            raise typer.BadParameter("takes neither MANIFEST nor SOURCE", param_hint="--remove")
        typer.echo(take_out(remove, output, jobs=jobs, dask=dask))
        return
    if manifest is None or source is None:
        raise typer.BadParameter("name the manifest and the data", param_hint="MANIFEST SOURCE")
    from leakage_tasks.canaries.generate import public
    from leakage_tasks.canaries.manifest import read_manifest
    from leakage_tasks.canaries.planting import plant

    report = plant(
        manifest,
        source,
        output,
        validation=validation,
        validation_output=validation_output,
        seed=seed,
        text_column=text_column,
        label_column=label_column,
        source_column=source_column,
        role=role,
        turn=turn,
        split=split,
        label=label,
        fuzzy=fuzzy,
        jobs=jobs,
        dask=dask,
    )
    typer.echo(report.summary())
    if report.validation is not None:
        typer.echo(report.validation.summary())
    if public(read_manifest(manifest)):
        typer.echo(
            f"leakage: warning: {manifest} holds secrets of this package's own README or demo, which other people's "
            "training data and models may hold as well: make new ones with 'leakage canaries', without --seed",
            err=True,
        )


@register_command("verify", 3)
def verify_command(
    planted: Annotated[Path, typer.Argument(help="Dataset that 'leakage plant' wrote.")],
    manifest: Annotated[Path, typer.Argument(help="Manifest it was planted from.")],
    chunk: Annotated[int | None, typer.Option(help="Say which canaries chunks of this length cut in two.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Count chunks in this tokenizer's tokens.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the text (default: as planted).")] = None,
    source_column: Annotated[str | None, typer.Option(help="Column of the source (default: as planted).")] = None,
    split: Annotated[str | None, typer.Option(help="Split of a saved folder (default: as planted).")] = None,
    jobs: Annotated[int, typer.Option(help="Shards at once, in processes of their own.")] = 1,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster whose workers take the shards.")
    ] = None,
) -> None:
    """Check a planted dataset: hashes, exact copies, no control in it. Exit code 1 if something differs."""
    from leakage_tasks.canaries.verify import verify

    report = verify(
        planted,
        manifest,
        chunk,
        tokenizer,
        text_column=text_column,
        source_column=source_column,
        split=split,
        jobs=jobs,
        dask=dask,
    )
    for line in report.lines():
        typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)


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
