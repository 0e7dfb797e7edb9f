"""What was planted where, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.canaries.sidecar import VALIDATION_TAKES, Sidecar


@dataclass(frozen=True)
class PlantReport:
    """What was planted where, and what was left out on purpose.

    ``few`` counts canaries of too few repetitions for a copy in a validation part. ``labels_unused``: canaries have
    labels, but no label column was named to write them to. ``label``: the class that ``labelled`` canaries without
    one were given, in the manifest too. ``validation`` is the report of the validation part, if there is one.
    """

    output: Path
    sidecar: Path
    record: Sidecar
    controls: int
    natural: int
    few: int = 0
    labels_unused: bool = False
    label: str | None = None
    labelled: int = 0
    validation: PlantReport | None = None

    def summary(self) -> str:
        """One line for people."""
        record = self.record
        left_out = [f"{self.controls} control(s)"] * bool(self.controls)
        left_out += [f"{self.natural} natural one(s)"] * bool(self.natural)
        left_out += [f"{self.few} with fewer than {VALIDATION_TAKES} repetitions"] * bool(self.few)
        return (
            f"{self.output}: {sum(record.copies.values())} copies of {len(record.copies)} canaries "
            + (f"for {record.part} " if record.part else "")
            + f"among {record.input_rows:,} rows of {record.text_column!r}"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + ("; labels not written, as no label column was named" if self.labels_unused else "")
            + self._about_label()
            + f"; record in {self.sidecar.name}"
        )

    def _about_label(self) -> str:
        if self.label is None:
            return ""
        if not self.labelled:
            return "; all canaries had labels already"
        return f"; {self.labelled} canaries without a label got {self.label!r}, and so did {self.record.manifest}"
