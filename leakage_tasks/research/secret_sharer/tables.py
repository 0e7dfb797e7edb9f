"""Tables 1 and 2 of Carlini et al., "The Secret Sharer" (2019)."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import grows, higher
from leakage_tasks.research.secret_sharer.experiment import Watch, ground_at, seeds, setting
from leakage_tasks.research.secret_sharer.trials import (
    BOTH,
    best_loss,
    bits,
    chosen,
    entries,
    mean_bits,
    register_study,
    set_up,
)

TABLE_1 = {
    "gru-1x370": (1.18, 36), "gru-2x235": (1.18, 37), "lstm-1x320": (1.17, 38), "lstm-2x200": (1.16, 35),
    "cnn-1x436": (1.29, 24), "cnn-2x188": (1.28, 19), "cnn-4x122": (1.25, 22),
    "wavenet-2x188": (1.24, 18), "wavenet-4x122": (1.25, 20),
}  # fmt: skip
"""Test loss (its unit is not in the source) and extrapolated exposure."""
OURS = "transformer"
LENGTH = 64
"""Windows of the transformer."""
RECURRENT, CONVOLUTIONAL = ("gru", "lstm"), ("cnn", "wavenet")
TABLE_2 = {
    16: (1.7, 4.3, 6.9, 9.0, 6.4),
    32: (4.0, 6.2, 14.4, 14.1, 14.6),
    64: (4.8, 11.7, 19.2, 18.9, 21.3),
    128: (9.9, 14.0, 25.9, 32.5, 35.4),
    256: (12.3, 21.0, 26.4, 28.8, 31.2),
    512: (14.2, 21.8, 30.8, 26.0, 26.0),
    1024: (15.7, 23.2, 26.7, 27.0, 24.4),
}
UNITS = (50, 100, 150, 200, 250)
SIZES: dict[Scale, tuple[Sequence[int], Sequence[int]]] = {
    "smoke": ((32, 64), (20, 30)),
    "small": ((4, 8, 16, 32), (50, 100, 200)),
    "paper": (tuple(TABLE_2), UNITS),
}
"""Batch sizes and units."""


def table_1_trials(plan: StudyPlan) -> list[Config]:
    """The nine architectures and a transformer; the smallest of each family at the scale ``smoke``."""
    names = [*TABLE_1, OURS] if plan.scale != "smoke" else ["gru-1x370", "cnn-4x122"]
    watch = Watch(BOTH)
    return [
        setting(plan, recipe={"architecture": name, **_windows(name, plan)}, watch=watch).config(seed)
        for name in names
        for seed in seeds(plan)
    ]


def _windows(name: str, plan: StudyPlan) -> Config:
    """Longer windows for the transformer, which knows no place beyond those it was trained on; as many characters."""
    ground = ground_at(plan.scale)
    return {} if name != OURS else {"length": LENGTH, "batch_size": ground.batch_size * ground.length // LENGTH}


def table_1(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Loss and exposure by architecture."""
    rows, by_kind = [], dict[str, list[float]]()
    for name in dict.fromkeys(trial.config["recipe"]["architecture"] for trial in trials):
        own = chosen(trials, architecture=name)
        loss, exposure = TABLE_1.get(name, (None, None))
        by_kind.setdefault(name.partition("-")[0], []).extend(bits(entries(own), "extrapolated"))
        rows.append(
            {
                "architecture": name,
                "parameters": own[0].result["parameters"],
                "loss, published": Published(loss) if name != OURS else None,
                "bits/character": Measured.mean(best_loss(own)),
                "exposure, published": Published(exposure) if name != OURS else None,
                **{measure: mean_bits(entries(own), measure) for measure in BOTH},
                "controls": mean_bits(entries(own, planted=False)),
            }
        )
    groups = [[value for kind in kinds for value in by_kind.get(kind, [])] for kinds in (RECURRENT, CONVOLUTIONAL)]
    claims = [higher("recurrent networks memorize more than convolutional ones of equal size", *groups)]
    notes = [
        "Kernel widths and dilations are ours, such that the sizes come out; the paper gives layers and units alone.",
        f"The transformer is ours; it reads windows of {LENGTH} characters, and as many characters a batch.",
        "In what unit the paper's losses are is not in the source.",
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def table_2_trials(plan: StudyPlan) -> list[Config]:
    """An LSTM of two layers by batch size and units."""
    sizes, units = SIZES[plan.scale]
    watch = Watch(BOTH)
    return [
        setting(plan, recipe={"batch_size": size, "units": width}, watch=watch).config(seed)
        for size in sizes
        for width in units
        for seed in seeds(plan)
    ]


def table_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Extrapolated exposure by batch size and units."""
    sizes, units = SIZES[plan.scale]
    cells = {(size, width): chosen(trials, batch_size=size, units=width) for size in sizes for width in units}
    rows: list[TableRow] = []
    for size in sizes:
        row: TableRow = {"batch": size}
        for width in units:
            if size in TABLE_2 and width in UNITS:
                row[f"{width} units, published"] = Published(TABLE_2[size][UNITS.index(width)])
            row[f"{width} units"] = mean_bits(entries(cells[size, width]), "extrapolated")
            row[f"{width} units, loss"] = Measured.mean(best_loss(cells[size, width]))
        rows.append(row)
    measured = {cell: bits(entries(own), "extrapolated") for cell, own in cells.items()}
    by_size = {size: [value for width in units for value in measured[size, width]] for size in sizes}
    by_units = {width: [value for size in sizes for value in measured[size, width]] for width in units}
    claims = [grows("exposure grows with the batch size", by_size), grows("exposure grows with the units", by_units)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Report(
        columns, rows, claims, [*set_up(trials, plan), "Losses are validation bits a character at the best epoch."]
    )


register_study("table-1", "architectures of equal size", "Table 1", table_1_trials, table_1)
register_study("table-2", "batch size and units", "Table 2", table_2_trials, table_2)
