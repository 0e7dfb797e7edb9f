"""Tables 1 to 4 of Carlini et al., "The Secret Sharer" (2019): models, attackers' knowledge, several secrets."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import grows, higher
from leakage_tasks.research.secret_sharer.experiment import BOTH, EXPERIMENTS, Watch, configs
from leakage_tasks.research.secret_sharer.trials import (
    best_loss,
    bits,
    chosen,
    entries,
    exposure_columns,
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
RECURRENT_MORE = PaperClaim("recurrent networks memorize more than convolutional ones", "35 to 38 vs 18 to 24")
LARGER_BATCHES = PaperClaim("larger batches memorize more", "4.3 to 23.2")
LARGER_MODELS = PaperClaim("larger models memorize more")
CONTEXT = PaperClaim("context before the secret raises exposure", "7.1 and 7.5 vs 6.1 and 6.8")
INNER_CONTEXT = PaperClaim("inner context raises it further", "9.5 and 11.1")
TRAINING = PaperClaim("exposure grows with training")
INSERTIONS = PaperClaim("secrets inserted more often are memorized far more often")
OURS = "transformer"
LENGTH = 64
"""Characters in a window of the transformer."""
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
START, END = "quoth the raven", "nevermore again"
FORMATS = {
    "none": (f"{START} {{digits:9}} {END}", "{digits:9}", (5.0, 6.1)),
    "prefix": (f"{START} {{digits:9}} {END}", f"{START} {{digits:9}}", (6.3, 7.1)),
    "suffix": (f"{START} {{digits:9}} {END}", f"{{digits:9}} {END}", (5.0, 6.8)),
    "both": (f"{START} {{digits:9}} {END}", None, (6.1, 7.5)),
    "both, two hyphens": (f"{START} {{digits:3}}-{{digits:2}}-{{digits:4}} {END}", None, (5.1, 9.5)),
    "both, eight hyphens": (f"{START} {'-'.join(['{digits}'] * 9)} {END}", None, (5.2, 11.1)),
}
"""Template, its known part, and published exposure at epochs 5 and 10, by the attacker's knowledge."""
EPOCHS: dict[Scale, tuple[int, int]] = {"smoke": (1, 2), "small": (5, 10), "paper": (5, 10)}
MANY = "The number of {unique}: {digits:3}-{digits:2}-{digits:4}"
COUNTS: dict[Scale, tuple[Sequence[int], Sequence[int]]] = {
    "smoke": ((1, 2), (1,)),
    "small": ((1, 5, 20), (1, 3, 10)),
    "paper": ((1, 10, 50, 100, 500), (1, 2, 4, 10)),
}
"""Numbers of secrets, and copies of each."""


def table_1_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the nine architectures and a transformer; at ``smoke`` only two."""
    names = [*TABLE_1, OURS] if plan.scale != "smoke" else ["gru-1x370", "cnn-4x122"]
    return configs(
        plan, [{"recipe": {"architecture": name, **_windows(name, plan)}} for name in names], watch=Watch(BOTH)
    )


def _windows(name: str, plan: StudyPlan) -> Config:
    """Return longer windows for the transformer, whose context is limited to the window, with the same number of
    characters per batch."""
    ground = EXPERIMENTS[plan.scale]
    return {} if name != OURS else {"length": LENGTH, "batch_size": ground.batch_size * ground.length // LENGTH}


def table_1(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report loss and exposure by architecture."""
    rows, by_kind = [], dict[str, list[float]]()
    for name, group in grouped(trials, lambda config: str(config["recipe"]["architecture"])).items():
        loss, exposure = TABLE_1.get(name, (None, None))
        by_kind.setdefault(name.partition("-")[0], []).extend(bits(entries(group), "extrapolated"))
        rows.append(
            {
                "architecture": name,
                "parameters": group[0].result["parameters"],
                "loss, published": Published(loss) if name != OURS else None,
                "bits/character": Measured.mean(best_loss(group)),
                "exposure, published": Published(exposure) if name != OURS else None,
                **exposure_columns(group),
            }
        )
    groups = [[value for kind in kinds for value in by_kind.get(kind, [])] for kinds in (RECURRENT, CONVOLUTIONAL)]
    claims = [higher(RECURRENT_MORE.words, *groups)]
    notes = [
        "Kernel widths and dilations are ours, chosen for equal sizes; the paper gives only layers and units.",
        f"The transformer is our addition; it reads windows of {LENGTH} characters and as many characters per batch.",
        "The unit of the paper's losses is not in the source.",
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def table_2_trials(plan: StudyPlan) -> list[Config]:
    """List trials of LSTMs with two layers by batch size and units."""
    sizes, units = SIZES[plan.scale]
    recipes = [{"batch_size": size, "units": width} for size in sizes for width in units]
    return configs(plan, [{"recipe": recipe} for recipe in recipes], watch=Watch(BOTH))


def table_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report extrapolated exposure by batch size and units."""
    sizes, units = SIZES[plan.scale]
    cells = grouped(trials, lambda config: (config["recipe"]["batch_size"], config["recipe"]["units"]))
    rows: list[TableRow] = []
    for size in sizes:
        row: TableRow = {"batch": size}
        for width in units:
            if size in TABLE_2 and width in UNITS:
                row[f"{width} units, published"] = Published(TABLE_2[size][UNITS.index(width)])
            row[f"{width} units"] = mean_bits(entries(cells[size, width]), "extrapolated")
            row[f"{width} units, loss"] = Measured.mean(best_loss(cells[size, width]))
        rows.append(row)
    measured = {cell: bits(entries(group), "extrapolated") for cell, group in cells.items()}
    by_size = {size: [value for width in units for value in measured[size, width]] for size in sizes}
    by_units = {width: [value for size in sizes for value in measured[size, width]] for width in units}
    claims = [grows(LARGER_BATCHES.words, by_size), grows(LARGER_MODELS.words, by_units)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    note = "Losses are validation bits per character at the best epoch."
    return Report(columns, rows, claims, [*set_up(trials, plan), note])


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """List one trial for the attackers of the first four rows, and one trial for each of the other formats."""
    early, late = EPOCHS[plan.scale]
    known: dict[str, list[str | None]] = {}
    for template, part, _ in FORMATS.values():
        known.setdefault(template, []).append(part)
    variants = [{"template": template, "known": parts} for template, parts in known.items()]
    return configs(plan, variants, watch=Watch((), BOTH, (early, late)), recipe={"epochs": late})


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report exposure by the attacker's knowledge around the secret, after two numbers of epochs."""
    early, late = EPOCHS[plan.scale]
    rows: list[TableRow] = []
    exposures: dict[tuple[str, int], list[float]] = {}
    for name, (template, known, published) in FORMATS.items():
        group = chosen(trials, template=template)
        row: TableRow = {"attacker knows": name}
        for epoch, figure in zip((early, late), published, strict=True):
            known_entries = [entry for entry in entries(group, str(epoch)) if entry["known"] == known]
            exposures[name, epoch] = bits(known_entries, "extrapolated")
            row[f"epoch {epoch}, published"] = Published(figure)
            row[f"epoch {epoch}"] = mean_bits(known_entries)
            row[f"epoch {epoch}, extrapolated"] = mean_bits(known_entries, "extrapolated")
        rows.append(row)
    before, after = (
        [*exposures["prefix", late], *exposures["both", late]],
        [*exposures["none", late], *exposures["suffix", late]],
    )
    hyphens = [*exposures["both, two hyphens", late], *exposures["both, eight hyphens", late]]
    by_epoch = {epoch: [value for name in FORMATS for value in exposures[name, epoch]] for epoch in (early, late)}
    claims = [
        higher(CONTEXT.words, before, after),
        higher(INNER_CONTEXT.words, hyphens, exposures["both", late]),
        grows(TRAINING.words, by_epoch),
    ]
    note = "Attackers and epochs of one model are treated as independent."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


def table_4_trials(plan: StudyPlan) -> list[Config]:
    """List trials with several secrets at a time, each after its own unique word."""
    counts, copies = COUNTS[plan.scale]
    variants = [{"count": count, "copies": times} for count in counts for times in copies]
    return configs(plan, variants, watch=Watch(("exposure", "shortest-path")), template=MANY)


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the share of secrets that shortest path extracts, by number and copies."""
    counts, copies = COUNTS[plan.scale]
    rows = []
    for times in copies:
        row: TableRow = {"insertions": times}
        for count in counts:
            group_entries = entries(chosen(trials, count=count, copies=times))
            hits = sum(entry["shortest-path"]["place"] == 1 for entry in group_entries)
            row[f"{count} secrets, published"] = Published(None)
            row[f"{count} secrets"] = Measured.rate(hits, len(group_entries))
            row[f"{count}: exposure"] = mean_bits(group_entries)
        rows.append(row)
    exposure = {times: bits(entries(chosen(trials, copies=times))) for times in copies}
    claims = [grows(INSERTIONS.words, exposure)]
    notes = ["Canaries of one model are treated as independent; the shares in the paper's table are not in the source."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


register_study("table-1", "architectures of equal size", "Table 1", table_1_trials, table_1)
register_study("table-2", "batch size and units", "Table 2", table_2_trials, table_2)
register_study("table-3", "attackers' knowledge around the secret", "Table 3", table_3_trials, table_3)
register_study("table-4", "several secrets at once", "Table 4", table_4_trials, table_4)
