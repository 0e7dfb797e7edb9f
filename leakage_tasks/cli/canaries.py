"""``leakage canaries``: make canaries and controls, and print a summary of the manifest."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import LAST_PANEL, PREPARE, in_panel
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import output_option

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
    output: Annotated[Path, output_option("Manifest to write, one canary per line (JSON Lines).")],
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
        in_panel(TEMPLATE, "Word list for the slot {NAME}, one word per line; repeatable.", metavar="NAME=FILE"),
    ] = None,
    coin: Annotated[
        bool,
        in_panel(
            TEMPLATE,
            "Let a fair coin decide if each canary is planted; 'leakage score' then gives bounds on ε for a "
            "canary added or removed.",
            "--coin",
        ),
    ] = False,
    tokenizer: Annotated[
        str | None,
        in_panel(
            TEMPLATE,
            "Fill {words} with this tokenizer's whole words, {terms} with its words and numbers, {tokens} with "
            "any of its ordinary tokens.",
        ),
    ] = None,
    known: Annotated[
        str | None, in_panel(TEMPLATE, "The part of the template that the attacker knows (default: all of it).")
    ] = None,
    source: Annotated[
        str | None,
        in_panel(TEMPLATE, "Source sentence, for translation models: a fixed text, or one with the template's slots."),
    ] = None,
    tags: Annotated[
        str | None, in_panel(TEMPLATE, "Slot tags of the words, for taggers: one tag per word, separated by commas.")
    ] = None,
    preset: Annotated[
        str | None,
        in_panel(
            PRESET,
            "elmahdy or mix-and-match for classifiers; nlu-call, nlu-pin or nlu-color for models that tag words.",
        ),
    ] = None,
    unknown: Annotated[
        int | None,
        in_panel(PRESET, "Number of secret words (elmahdy: 1 of 10; nlu: 4, up to 20; --family: 2, up to 8)."),
    ] = None,
    supporting_repetitions: Annotated[
        int | None, in_panel(PRESET, "elmahdy: number of copies of each supporting canary (default: 1).")
    ] = None,
    sentences: Annotated[
        Path | None, in_panel(PRESET, "elmahdy: file of sentences to plant instead of random words, one per line.")
    ] = None,
    area_code: Annotated[
        str | None, in_panel(PRESET, "nlu-call: known first three digits of a ten-digit number, or random.")
    ] = None,
    labels: Annotated[
        str | None,
        in_panel(PRESET, "mix-and-match: plant five sentences with labels same, different or mixed (Figure 4)."),
    ] = None,
    position: Annotated[
        int | None, in_panel(PRESET, "mix-and-match: position of the secret word, counted from 1 (default: the last).")
    ] = None,
    conjoin: Annotated[
        bool, in_panel(PRESET, "mix-and-match: join the canaries in pairs with 'and'.", "--conjoin")
    ] = False,
    targets: Annotated[
        str | None, in_panel(PRESET, "mix-and-match: plant only the canaries with these targets, such as towels,1974.")
    ] = None,
    settings: Annotated[
        list[str] | None, in_panel(PRESET, "Option of a plugin's preset; repeatable.", "--set", metavar="NAME=VALUE")
    ] = None,
    family: Annotated[
        str | None,
        in_panel(
            FAMILY,
            "One or several of typical, high-perplexity, new-token, bigram and high-temperature, separated by "
            "commas; each gets an equal number of canaries. Needs --data.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        in_panel(FAMILY, "high-temperature: causal model that writes the canaries, a folder or a name on the hub."),
    ] = None,
    temperature: Annotated[
        float | None, in_panel(FAMILY, "high-temperature: sampling temperature of the model (default: 1.0).")
    ] = None,
    role: Annotated[
        str | None, in_panel(FAMILY, "Role whose turns to read, if --data holds chats (default: assistant).")
    ] = None,
    from_text: Annotated[
        Path | None,
        in_panel(FROM_TEXT, "Make canaries from the secrets in this file, or in the .txt files of this folder."),
    ] = None,
    detect: Annotated[
        str | None,
        in_panel(
            FROM_TEXT,
            "Kinds of secrets to look for, separated by commas: a group (identifiers, personal; default: "
            "all) or kinds, out of email, aws_key, github_token, google_key, slack_token, stripe_key, jwt, youtube, "
            "short_url, uuid, eth_address, git, md5, sha1, sha256, iban, ccn, br_cpf, de_idnr, es_dni, fr_nir, "
            "in_aadhaar, it_cf, nl_bsn, uk_nhs, ssn, phone, ipv4, ipv6; and person, place with the package "
            "presidio-analyzer.",
        ),
    ] = None,
    context: Annotated[
        int | None,
        in_panel(
            FROM_TEXT, "Number of characters before a secret that its template begins with, up to 399 (default: 40)."
        ),
    ] = None,
    reveal: Annotated[bool, in_panel(FROM_TEXT, "Print the secrets that were found.", "--reveal")] = False,
    label: Annotated[
        str | None,
        in_panel(CLASSES, "Class of the canaries: a name or, with --data, rarest (default) or most-popular."),
    ] = None,
    supporting: Annotated[
        str | None,
        in_panel(CLASSES, "Supporting canaries in other classes for each planted canary: a number, one, all or none."),
    ] = None,
    supporting_labels: Annotated[
        str | None,
        in_panel(CLASSES, "Classes of the supporting canaries, separated by commas (default: all classes in --data)."),
    ] = None,
    supporting_slots: Annotated[
        int | None,
        in_panel(
            CLASSES,
            "Number of slots, counted from the end, that supporting canaries fill with other words (default: "
            "half; elmahdy: all).",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        in_panel(
            DATA,
            "Training data: classes are counted in it and, with --family, sentences are taken from it. The file "
            "does not change.",
        ),
    ] = None,
    label_column: Annotated[str | None, in_panel(DATA, "Column of the class in --data.")] = None,
    text_column: Annotated[
        str | None, in_panel(DATA, "Column of the text in --data or --from-text (default: text).")
    ] = None,
    split: Annotated[
        str | None,
        in_panel(DATA, "Split of --data or --from-text, if it is a folder saved by 'datasets' (default: train)."),
    ] = None,
    seed: Annotated[
        int | None,
        in_panel(
            LAST_PANEL, "Random seed, recorded in the manifest (default: drawn from the operating system's entropy)."
        ),
    ] = None,
    id_prefix: Annotated[str, in_panel(LAST_PANEL, "Prefix of every id, so that manifests can be joined.")] = "",
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
