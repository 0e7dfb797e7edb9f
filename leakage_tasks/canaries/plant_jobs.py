"""What one planting has to do: a copy of the data, or one of the training and one of the validation data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.canaries.sidecar import Part, Sidecar, named
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns, Format, Layout


@dataclass(frozen=True)
class PlantJob:
    """A copy to make of ``source``; ``part`` is None where it gets every repetition."""

    manifest: Path
    source: Path
    output: Path
    seed: int
    wanted: Columns
    part: Part | None = None

    @property
    def stream(self) -> str:
        """What the places of the copies are drawn with."""
        return f"validation:{self.seed}" if self.part == "validation" else str(self.seed)

    def record(
        self,
        layout: Layout,
        kind: Format,
        manifest: str,
        hashes: tuple[str, str],
        copies: dict[str, int],
        characters: int,
    ) -> Sidecar:
        """The record of the copy: its format, the manifest's hash, those of input and output, and what was inserted.

        ``characters`` is how long all its texts are.
        """
        return Sidecar(
            seed=self.seed,
            format=kind.name,
            input=self.source.name,
            input_sha256=hashes[0],
            input_rows=layout.rows,
            manifest=self.manifest.name,
            manifest_sha256=manifest,
            output=self.output.name,
            output_sha256=hashes[1],
            output_rows=layout.rows + sum(copies.values()),
            text_column=layout.text,
            label_column=layout.label,
            source_column=self.wanted.source,
            split=self.wanted.split if (self.source / "dataset_dict.json").is_file() else None,
            copies=copies,
            part=self.part,
            before="chat turn" if layout.chat else "line break" if kind.running else "start of a row",
            characters=characters,
        )


def jobs_of(
    manifest: Path,
    wanted: Columns,
    seed: int,
    training: tuple[Path, Path],
    validation: tuple[Path | None, Path | None],
) -> list[PlantJob]:
    """One for each copy to make. Raises OptionError for validation data without an output, or the reverse."""
    held, held_output = validation
    whole = PlantJob(manifest, named(Path(training[0])), named(Path(training[1])), seed, wanted)
    if held is None and held_output is None:
        return [whole]
    if held is None or held_output is None:
        raise OptionError("--validation and --validation-output go together: name the data and where its copy goes")
    other = PlantJob(manifest, named(Path(held)), named(Path(held_output)), seed, wanted, "validation")
    return [replace(whole, part="training"), other]
