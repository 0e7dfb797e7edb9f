"""Planting of canaries in a dataset: exact numbers of copies at uniformly drawn positions. Controls are not planted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from leakage_tasks.canaries.canary import AUXILIARY_KINDS, Canary
from leakage_tasks.canaries.classes import BY_COUNT, choose_class, class_counts
from leakage_tasks.canaries.families.corpus import frequent_words
from leakage_tasks.canaries.generate import public
from leakage_tasks.canaries.manifest import is_private, read_manifest, write_manifest
from leakage_tasks.canaries.near import with_near_copies
from leakage_tasks.canaries.places import Gap, check_copies, check_prompt, gaps_of
from leakage_tasks.canaries.plant_jobs import PlantJob, PlantReport, check_places, jobs_of
from leakage_tasks.canaries.plant_shards import Counted, count, plant_counted
from leakage_tasks.canaries.sidecar import named
from leakage_tasks.canaries.sizes import high_share
from leakage_tasks.canaries.turns import check_turns
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.former_names import accept_former_arguments
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.core.workers import check_jobs, check_no_cluster, workers
from leakage_tasks.data import Columns
from leakage_tasks.data.chat import Turn, role_of, turn_of
from leakage_tasks.data.hub import is_hub, shards_for
from leakage_tasks.data.layout import TEXT
from leakage_tasks.data.shards import Shards, check_splits, shards_of


@accept_former_arguments(fuzzy="near_copies", turn="chat_position")
def plant(
    manifest: Path,
    source: Path,
    output: Path,
    *,
    validation: Path | None = None,
    validation_output: Path | None = None,
    seed: int = 0,
    text_column: str | None = None,
    label_column: str | None = None,
    source_column: str | None = None,
    split: str = "train",
    label: str | None = None,
    role: str | None = None,
    chat_position: str | None = None,
    prompt: str | None = None,
    near_copies: int | None = None,
    jobs: int = 1,
    dask: str | None = None,
) -> PlantReport:
    """Copy ``source`` to ``output`` and insert every planted canary of ``manifest``, ``repetitions`` times.

    By default each copy is a new row, in a gap drawn uniformly from the gaps between rows and at both ends: a line of a
    text file, or, if the column holds chat turns, a short conversation (:func:`~leakage_tasks.data.chat.conversation`).
    Controls are left out, and natural canaries too, because the data already contain them. A record with hashes and
    counts is written to ``<output>.leakage.json``. Equal input, manifest and seed give an identical output, byte for
    byte.

    Rows can hold a prompt and its answers in separate columns (:mod:`leakage_tasks.data.shapes`). Then the copy goes
    into the text column, or into the column of ``role``; its other answers, and further columns that trainers read, are
    taken from a randomly drawn row of the data.

    ``source`` may be a folder of files, or a pattern: the files are shards of one data set, and ``output`` is a folder
    (:func:`~leakage_tasks.canaries.plant_shards.plant_counted`). It may also be a data set of the hub,
    ``hub:owner/name`` (:mod:`leakage_tasks.data.hub`), whose shards are streamed.

    Args:
        manifest: The path of the manifest.
        source: The data to copy.
        output: The path of the copy.
        validation: Validation data, which get a tenth of each canary's repetitions (rounded down) instead; see
            :func:`~leakage_tasks.canaries.sidecar.repetitions_in`.
        validation_output: The path of the validation data's copy, which has its own record.
        seed: The seed of all positions.
        text_column: The column for the canaries' texts.
        label_column: The column for their classes; not needed for NLU data, which also get the canaries' tags.
        source_column: The column for their source sentences, in a parallel corpus.
        split: The split to copy.
        label: A class of the label column, or ``rarest`` or ``most-popular``, for canaries and controls without a
            class. An attack must know the class, so the manifest is rewritten together with the output. Supporting
            canaries need classes of their own.
        role: The role whose turn a copy is in a chat (default: assistant).
        chat_position: ``last`` or ``random`` to append each copy to an existing conversation with a text of ``role``:
            on a new line at the end of the last such turn or of a random one (:mod:`leakage_tasks.canaries.turns`).
        prompt: The prompt before a copy (default: a fixed sentence).
        near_copies: The number of words around the secret to replace in all repetitions of a canary but the first
            (:func:`~leakage_tasks.canaries.near.with_near_copies`); the manifest is rewritten with these near copies.
        jobs: The number of shards processed in parallel.
        dask: The address of a dask scheduler for shards.

    Returns:
        The report of the planting.

    Raises:
        LeakageError: If the data are unreadable, unwritable, unsuitable or change while they are read. No output is
            left except finished shards.
    """
    check_jobs(jobs)
    check_prompt(prompt)
    text, is_named = (TEXT, False) if text_column is None else (text_column, True)
    wanted = Columns(text, label_column, split, source_column, role_of(role, "--role"), prompt, is_named)
    manifest, position = Path(manifest), turn_of(chat_position, "--chat-position")
    remote = is_hub(Path(source))
    shards = Shards(Path(source)) if remote else shards_of(named(Path(source)))
    alone = shards.alone and not remote
    if not remote:
        check_splits(shards.home, split)
    if not alone:
        _check_options_of_shards(validation, label, near_copies, position)
    else:
        check_no_cluster(dask)
    if alone and position != "new":
        check_turns(position, label_column, source_column, label, prompt)
    whole = PlantJob(manifest, shards, named(Path(output)), seed, wanted, turn=position)
    copies = jobs_of(whole, validation, validation_output)
    watched = [job.source for job in copies] if alone else []
    with ExitStack() as files, unchanged(*watched, manifest):
        canaries = read_manifest(manifest)
        _to_plant(canaries, manifest, source_column)
        if remote:
            copies = [replace(whole, shards=shards_for(Path(source), wanted, whole.output))]
        check_places(copies)
        with workers(len(copies[0].shards.names), 1 if alone else jobs, dask) as map_call:
            parts = [count(job, map_call) for job in copies]
            chosen, canaries, labelled = _label(canaries, parts[0], label)
            if near_copies is not None:
                canaries = _with_near_copies(canaries, parts[0], near_copies, validation)
            planted = _to_plant(canaries, manifest, source_column)
            if labelled or near_copies is not None:
                # The manifest is replaced when the files close, together with the planted data.
                write_manifest(canaries, files.enter_context(replacing(manifest, private=is_private(canaries))))
            reports = [plant_counted(part, canaries, planted, map_call, files) for part in parts]
    remark = high_share(reports[0].record, canaries)
    report = replace(reports[0], label=chosen, labelled=labelled, public=public(canaries), remark=remark)
    return replace(report, validation=reports[1]) if len(reports) > 1 else report


def _check_options_of_shards(
    validation: Path | None, label: str | None, near_copies: int | None, position: Turn
) -> None:
    """Raise OptionError for an option that changes the manifest or needs a single file."""
    unsupported = {
        "validation": validation,
        "label": label,
        "near-copies": near_copies,
        "chat-position": None if position == "new" else position,
    }
    for name, value in unsupported.items():
        if value is not None:
            earlier = "give it to leakage canaries, or " if name == "label" else ""
            raise OptionError(f"--{name} is not for shards: {earlier}plant into one file")


def _with_near_copies(
    canaries: Sequence[Canary], part: Counted, near_copies: int, validation: Path | None
) -> list[Canary]:
    if validation is not None:
        raise OptionError("--near-copies and --validation do not go together: a near copy is planted once")
    job = part.job
    words = frequent_words(job.kind.row_texts(job.source, part.layout, job.wanted))
    return with_near_copies(canaries, near_copies, words, job.seed)


def _label(canaries: list[Canary], part: Counted, label: str | None) -> tuple[str | None, list[Canary], int]:
    """Return the selected class, the canaries (with this class if they had no class), and the number of changes."""
    if label is None:
        return None, canaries, 0
    job, layout = part.job, part.layout
    if layout.label is None:
        raise OptionError(f"--label {label} needs --label-column: name the column of the classes")
    chosen = label
    if label in BY_COUNT or not layout.new_labels:
        counts = class_counts(job.source, layout.label, job.wanted.split, text_column=job.wanted.text)
        chosen = choose_class(counts, label)
    bare = [canary.label is None and canary.kind not in ("natural", *AUXILIARY_KINDS) for canary in canaries]
    with_it = [replace(canary, label=chosen) if needs else canary for canary, needs in zip(canaries, bare, strict=True)]
    return chosen, with_it, sum(bare)


def draw_gaps(canaries: Iterable[Canary], rows: int, seed: int | str) -> list[Gap]:
    """Return a gap (0 … ``rows``) for every copy of every canary, see
    :func:`~leakage_tasks.canaries.places.gaps_of`."""
    return gaps_of({canary.id: canary.repetitions for canary in canaries}, rows, seed)


def _to_plant(canaries: Sequence[Canary], manifest: Path, source_column: str | None) -> list[Canary]:
    """Return the canaries to plant.

    Raises PlantingError if there are no such canaries or too many copies, or if a canary has a source sentence but no
    column for it.
    """
    planted = {canary.id for canary in canaries if canary.planted}
    for canary in canaries:
        if canary.planted and canary.supports is not None and canary.supports not in planted:
            raise PlantingError(
                f"{manifest}: {canary.id} supports {canary.supports}, a control: make the manifest again"
            )
    chosen = [canary for canary in canaries if canary.planted and canary.kind != "natural"]
    if not chosen:
        raise PlantingError(
            f"{manifest}: holds only controls or natural canaries, nothing to plant: make some to plant"
        )
    check_copies(manifest, sum(canary.repetitions for canary in chosen))
    for canary in chosen:
        if canary.source is not None and source_column is None:
            raise PlantingError(f"{canary.id} has a source sentence: name the column it goes to with --source-column")
    return chosen
