"""``leakage canaries``: make canaries and controls, and print a summary of the manifest."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import LAST_PANEL, PREPARE
from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary

TEMPLATE = "More for --template"
PRESET = "Instead of --template: the canaries of a paper"
FAMILY = "Instead of --template: text like the training data"
FROM_TEXT = "Instead of --template: secrets found in a text"
CLASSES = "Classes, for classifiers"
DATA = "Reading --data and --from-text"


@register_command(
    "canaries",
    PREPARE,
    1,
    example="leakage canaries --template 'Pin of {unique}: {digits:6}.' -o canaries.jsonl",
    renamed={"--doubled": "--conjoin", "--only": "--targets"},
)
def canaries_command(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Manifest to write, one canary per line (JSON Lines).")
    ],
    template: Annotated[
        str | None,
        typer.Option(
            help="Text with slots, such as 'Pin of {unique}: {digits:6}.'; {unique} is a different word in each canary."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Number of canaries, copies and controls: smoke (6 canaries, 6 controls: for a trial), routine (32 "
            "canaries planted 1, 4 or 16 times, 100 controls) or powered (96 canaries, 200 controls). A template "
            "without --count, --repetitions and --controls gets routine."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Total number of planted canaries (default: the profile's, or 1).")
    ] = None,
    repetitions: Annotated[
        str | None,
        typer.Option(
            help="Copies of each canary, such as 1,4,16, assigned in turn (default: the profile's, or 1; elmahdy, nlu: "
            "100)."
        ),
    ] = None,
    controls: Annotated[
        int | None,
        typer.Option(
            help="Total number of controls, which are never planted (default: the profile's, or 0); with --from-text, "
            "controls per secret."
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Word list for the slot {NAME}, one word per line; repeatable.",
            rich_help_panel=TEMPLATE,
        ),
    ] = None,
    coin: Annotated[
        bool,
        typer.Option(
            "--coin",
            help="Let a fair coin decide if each canary is planted; 'leakage score' then gives bounds on ε for a "
            "canary added or removed.",
            rich_help_panel=TEMPLATE,
        ),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Fill {words} with this tokenizer's whole words, {terms} with its words and numbers, {tokens} with "
            "any of its ordinary tokens.",
            rich_help_panel=TEMPLATE,
        ),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            help="The part of the template that the attacker knows (default: all of it).", rich_help_panel=TEMPLATE
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Source sentence, for translation models: a fixed text, or one with the template's slots.",
            rich_help_panel=TEMPLATE,
        ),
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option(
            help="Slot tags of the words, for taggers: one tag per word, separated by commas.",
            rich_help_panel=TEMPLATE,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="elmahdy or mix-and-match for classifiers; nlu-call, nlu-pin or nlu-color for models that tag words.",
            rich_help_panel=PRESET,
        ),
    ] = None,
    unknown: Annotated[
        int | None,
        typer.Option(
            help="Number of secret words (elmahdy: 1 of 10; nlu: 4, up to 20; --family: 2, up to 8).",
            rich_help_panel=PRESET,
        ),
    ] = None,
    supporting_repetitions: Annotated[
        int | None,
        typer.Option(help="elmahdy: number of copies of each supporting canary (default: 1).", rich_help_panel=PRESET),
    ] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            help="elmahdy: file of sentences to plant instead of random words, one per line.", rich_help_panel=PRESET
        ),
    ] = None,
    area_code: Annotated[
        str | None,
        typer.Option(
            help="nlu-call: known first three digits of a ten-digit number, or random.", rich_help_panel=PRESET
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="mix-and-match: plant five sentences with labels same, different or mixed (Figure 4).",
            rich_help_panel=PRESET,
        ),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            help="mix-and-match: position of the secret word, counted from 1 (default: the last).",
            rich_help_panel=PRESET,
        ),
    ] = None,
    conjoin: Annotated[
        bool,
        typer.Option("--conjoin", help="mix-and-match: join the canaries in pairs with 'and'.", rich_help_panel=PRESET),
    ] = False,
    targets: Annotated[
        str | None,
        typer.Option(
            help="mix-and-match: plant only the canaries with these targets, such as towels,1974.",
            rich_help_panel=PRESET,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Option of a plugin's preset; repeatable.", rich_help_panel=PRESET
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="One or several of typical, high-perplexity, new-token, bigram and high-temperature, separated by "
            "commas; each gets an equal number of canaries. Needs --data.",
            rich_help_panel=FAMILY,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="high-temperature: causal model that writes the canaries, a folder or a name on the hub.",
            rich_help_panel=FAMILY,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="high-temperature: sampling temperature of the model (default: 1.0).", rich_help_panel=FAMILY
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            help="Role whose turns to read, if --data holds chats (default: assistant).", rich_help_panel=FAMILY
        ),
    ] = None,
    from_text: Annotated[
        Path | None,
        typer.Option(
            help="Make canaries from the secrets in this file, or in the .txt files of this folder.",
            rich_help_panel=FROM_TEXT,
        ),
    ] = None,
    detect: Annotated[
        str | None,
        typer.Option(
            help="Kinds of secrets to look for, separated by commas: a group (identifiers, personal; default: "
            "all) or kinds, out of email, aws_key, github_token, google_key, slack_token, stripe_key, jwt, youtube, "
            "short_url, uuid, eth_address, git, md5, sha1, sha256, iban, ccn, br_cpf, de_idnr, es_dni, fr_nir, "
            "in_aadhaar, it_cf, nl_bsn, uk_nhs, ssn, phone, ipv4, ipv6; and person, place with the package "
            "presidio-analyzer.",
            rich_help_panel=FROM_TEXT,
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            help="Number of characters before a secret that its template begins with (default: 40).",
            rich_help_panel=FROM_TEXT,
        ),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Print the secrets that were found.", rich_help_panel=FROM_TEXT)
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(
            help="Class of the canaries: a name or, with --data, rarest (default) or most-popular.",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    supporting: Annotated[
        str | None,
        typer.Option(
            help="Supporting canaries in other classes for each planted canary: a number, one, all or none.",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    supporting_labels: Annotated[
        str | None,
        typer.Option(
            help="Classes of the supporting canaries, separated by commas (default: all classes in --data).",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    supporting_slots: Annotated[
        int | None,
        typer.Option(
            help="Number of slots, counted from the end, that supporting canaries fill with other words (default: "
            "half; elmahdy: all).",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Training data: classes are counted in it and, with --family, sentences are taken from it. The file "
            "does not change.",
            rich_help_panel=DATA,
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the class in --data.", rich_help_panel=DATA)
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(help="Column of the text in --data or --from-text (default: text).", rich_help_panel=DATA),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split of --data or --from-text, if it is a folder saved by 'datasets' (default: train).",
            rich_help_panel=DATA,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed, recorded in the manifest (default: drawn from the operating system's entropy).",
            rich_help_panel=LAST_PANEL,
        ),
    ] = None,
    id_prefix: Annotated[
        str, typer.Option(help="Prefix of every id, so that manifests can be joined.", rich_help_panel=LAST_PANEL)
    ] = "",
) -> None:
    """Make canaries (secrets to plant) and controls.

    Give one of --template, --preset, --family and --from-text, and a file for the manifest.
    """
    values = {name: value for name, value in locals().items() if name != "output"}
    if seed is None:
        del values["seed"]
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
        canaries = requested(CanaryOptions(**values))
    write_manifest(canaries, output)
    for warning in caught:
        typer.echo(f"leakage: warning: {warning.message}", err=True)
    for line in natural.revealed(canaries) if reveal else ():
        typer.echo(line)
    typer.echo(_summary(canaries, output) if from_text is None else natural.summary(canaries, output))


def _summary(canaries: list[Canary], output: Path) -> str:
    from math import log2

    from leakage_tasks.core.nouns import counted

    planted = [canary for canary in canaries if canary.planted]
    supporting = sum(canary.kind == "supporting" for canary in planted)
    copies = sum(canary.repetitions for canary in planted)
    size = canaries[0].space.size
    shown = f"{size:,}" if size < 10**15 else f"2^{log2(size):.1f}"
    others, controls = len(planted) - supporting, len(canaries) - len(planted)
    return (
        f"{output}: {counted(others, 'canary')}"
        + (f" and {counted(supporting, 'supporting canary')}" if supporting else "")
        + f" ({counted(copies, 'copy')} to plant), {counted(controls, 'control')}"
        + (f" ({coins} of them by a coin); " if (coins := sum(c.coin for c in canaries if not c.planted)) else "; ")
        + f"space of {shown} secrets, {log2(size):.1f} bits"
        + _shared_class(canaries)
        + _families(canaries)
    )


def _shared_class(canaries: list[Canary]) -> str:
    """Return a note that names the class if all canaries have one in common: it may be the rarest of the data."""
    labels = {canary.label for canary in canaries if canary.supports is None}
    return f"; class {labels.pop()!r}" if len(labels) == 1 and None not in labels else ""


def _families(canaries: list[Canary]) -> str:
    """Return a note that names the families, and warns that the manifest may hold text of the training data."""
    families = dict.fromkeys(canary.family for canary in canaries if canary.family is not None)
    if not families:
        return ""
    private = "; the manifest, and samples logged with it, hold sentences of --data: only you may read it"
    return f"; of each family: {', '.join(families)}{private}"
