"""Planting of canaries in a dataset: exact numbers of copies at uniformly drawn positions. Controls are not planted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.classes import BY_COUNT, choose_class, class_counts
from leakage_tasks.canaries.copy_rows import check_prompt, points_of
from leakage_tasks.canaries.families.corpus import frequent_words
from leakage_tasks.canaries.generate import public
from leakage_tasks.canaries.manifest import is_private, manifest_hash, read_manifest, write_manifest
from leakage_tasks.canaries.near import with_near_copies
from leakage_tasks.canaries.places import Gap, gaps_of
from leakage_tasks.canaries.plant_jobs import PlantJob, PlantReport, check_places, jobs_of
from leakage_tasks.canaries.plant_shards import plant_shards
from leakage_tasks.canaries.sidecar import named, read_sidecar, repetitions_in, sha256_of, sidecar_path, write_sidecar
from leakage_tasks.canaries.sizes import high_share
from leakage_tasks.canaries.turns import check_turns, draw_turns
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.former_names import accept_former_arguments
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, Format, Layout
from leakage_tasks.data.chat import role_of, turn_of
from leakage_tasks.data.hub import is_hub, shards_for
from leakage_tasks.data.layout import TEXT
from leakage_tasks.data.shards import shards_of


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
    (:func:`~leakage_tasks.canaries.plant_shards.plant_shards`). It may also be a data set of the hub,
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
    check_prompt(prompt)
    text, is_named = (TEXT, False) if text_column is None else (text_column, True)
    wanted = Columns(text, label_column, split, source_column, role_of(role, "--role"), prompt, is_named)
    source, position = Path(source), turn_of(chat_position, "--chat-position")
    shards = None if is_hub(source) else shards_of(source)
    if is_hub(source) or shards is not None:
        unsupported = {
            "validation": validation,
            "label": label,
            "near-copies": near_copies,
            "chat-position": None if position == "new" else position,
        }
        for name, value in unsupported.items():
            if value is not None:
                raise OptionError(
                    f"--{name} is not for shards: use it when making the canaries, or plant into one file"
                )
        with unchanged(Path(manifest)):
            canaries = read_manifest(Path(manifest))
            planted = _to_plant(canaries, Path(manifest), source_column)
            job = PlantJob(Path(manifest), source, named(Path(output)), seed, wanted)
            shards = shards or shards_for(source, wanted, job.output)
            report = plant_shards(job, shards, canaries, planted, jobs, dask)
            return replace(report, public=public(canaries), remark=high_share(report.record, canaries))
    if position != "new":
        check_turns(position, label_column, source_column, label, prompt)
    copies = jobs_of(Path(manifest), wanted, seed, (source, output), (validation, validation_output), position)
    first = copies[0]
    with ExitStack() as files, unchanged(*(job.source for job in copies), first.manifest):
        canaries = read_manifest(first.manifest)
        kinds = [job.kind for job in copies]
        check_places(copies)
        layouts = [_layout(kind, job) for kind, job in zip(kinds, copies, strict=True)]
        chosen, canaries, labelled = _label(canaries, first, layouts[0], label)
        if near_copies is not None:
            if validation is not None:
                raise OptionError("--near-copies and --validation do not go together: a near copy is planted once")
            words = frequent_words(first.kind.row_texts(first.source, layouts[0], wanted))
            canaries = with_near_copies(canaries, near_copies, words, seed)
        planted = _to_plant(canaries, first.manifest, source_column)
        if labelled or near_copies is not None:
            # The manifest is replaced when the files close, together with the planted data.
            write_manifest(canaries, files.enter_context(replacing(first.manifest, private=is_private(canaries))))
        reports = [_plant(job, layout, canaries, planted, files) for job, layout in zip(copies, layouts, strict=True)]
    remark = high_share(reports[0].record, canaries)
    whole = replace(reports[0], label=chosen, labelled=labelled, public=public(canaries), remark=remark)
    return replace(whole, validation=reports[1]) if len(reports) > 1 else whole


def _layout(kind: Format, job: PlantJob) -> Layout:
    """Return the layout of the data.

    Raises PlantingError for a turn or role that the data do not have, and as ``survey`` does.
    """
    layout = kind.survey(job.source, job.wanted)
    if not layout.chat and job.turn != "new":
        problem = f"column {layout.text!r} holds no chat turns, so copies cannot go into the last or a random turn"
        raise PlantingError(subject=str(job.source), problem=problem, remedy="leave {} out", option="chat_position")
    return layout.for_copies(job.source, job.wanted)


def _plant(
    job: PlantJob, layout: Layout, canaries: Sequence[Canary], planted: Sequence[Canary], files: ExitStack
) -> PlantReport:
    """Write one copy of the data and its record; both files replace older files when ``files`` closes."""
    shares = ((canary, repetitions_in(job.part, canary.repetitions)) for canary in planted)
    here = [replace(canary, repetitions=share) for canary, share in shares if share]
    before, content = sha256_of(job.source), manifest_hash(canaries)
    earlier = read_sidecar(sidecar_path(job.source))
    if earlier and (earlier.output_sha256, earlier.manifest_sha256) == (before, content):
        raise PlantingError(
            f"{job.source}: holds the canaries of this manifest already: plant into {earlier.input} instead"
        )
    record_beside = files.enter_context(replacing(job.record_path, like=job.source))
    beside = files.enter_context(replacing(job.output, like=job.source))
    skipped = _write_copies(job, beside, layout, here)
    if job.turn != "new":
        characters = job.kind.characters(beside, replace(layout, characters=None), job.wanted)
    else:
        characters = job.kind.characters(job.source, layout, job.wanted)
        # A line of running text includes its line break.
        characters += sum((len(canary.text) + job.kind.running) * canary.repetitions for canary in here)
    copies = {canary.id: canary.repetitions for canary in here}
    heights = {}
    if job.turn == "new":
        all_heights = {canary.id: job.kind.height(layout.row(canary)) for canary in here}
        heights = {name: height for name, height in all_heights.items() if height != 1}
    record = job.record(layout, (before, content, sha256_of(beside)), copies, characters, heights)
    write_sidecar(record, record_beside)
    controls = sum(not canary.planted for canary in canaries)
    return PlantReport(
        job.output,
        job.record_path,
        record,
        controls,
        natural=len(canaries) - len(planted) - controls,
        few=len(planted) - len(here),
        without_turn=skipped,
        labels_unused=layout.label is None and any(canary.label is not None for canary in here),
    )


def _write_copies(job: PlantJob, output: Path, layout: Layout, here: Sequence[Canary]) -> int:
    """Write the data with the canaries' copies. Return the number of conversations without a suitable turn."""
    if job.turn != "new":
        drawn = draw_turns(job, layout, here)
        job.kind.write_into_turns(job.source, output, layout, job.wanted, drawn.additions)
        return drawn.skipped
    gaps, by_id = draw_gaps(here, layout.rows, job.stream), {canary.id: canary for canary in here}
    points = points_of(job.kind, job.source, layout, job.wanted, gaps, by_id, job.stream)
    job.kind.write(job.source, output, layout, job.wanted, points)
    return 0


def _label(
    canaries: list[Canary], job: PlantJob, layout: Layout, label: str | None
) -> tuple[str | None, list[Canary], int]:
    """Return the selected class, the canaries (with this class if they had no class), and the number of changes."""
    if label is None:
        return None, canaries, 0
    if layout.label is None:
        raise OptionError(f"--label {label} needs --label-column: name the column of the classes")
    chosen = label
    if label in BY_COUNT or not layout.new_labels:
        counts = class_counts(job.source, layout.label, job.wanted.split, text_column=job.wanted.text)
        chosen = choose_class(counts, label)
    bare = [canary.label is None and canary.kind not in ("natural", "supporting", "near") for canary in canaries]
    with_it = [replace(canary, label=chosen) if needs else canary for canary, needs in zip(canaries, bare, strict=True)]
    return chosen, with_it, sum(bare)


def draw_gaps(canaries: Iterable[Canary], rows: int, seed: int | str) -> list[Gap]:
    """Return a gap (0 … ``rows``) for every copy of every canary, see
    :func:`~leakage_tasks.canaries.places.gaps_of`."""
    return gaps_of({canary.id: canary.repetitions for canary in canaries}, rows, seed)


def _to_plant(canaries: Sequence[Canary], manifest: Path, source_column: str | None) -> list[Canary]:
    """Return the canaries to plant.

    Raises PlantingError if there are no such canaries, or if a canary has a source sentence but no column for it.
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
    for canary in chosen:
        if canary.source is not None and source_column is None:
            raise PlantingError(f"{canary.id} has a source sentence: name the column it goes to with --source-column")
    return chosen
