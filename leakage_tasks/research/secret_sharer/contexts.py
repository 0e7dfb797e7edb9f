"""Tables 3 and 4 of The Secret Sharer: what the attacker knows around a secret, and several secrets at once."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import grows, higher
from leakage_tasks.research.secret_sharer.experiment import Watch, seeds, setting
from leakage_tasks.research.secret_sharer.trials import BOTH, bits, chosen, entries, mean_bits, register_study, set_up

START, END = "quoth the raven", "nevermore again"
FORMATS = {
    "none": (f"{START} {{digits:9}} {END}", "{digits:9}", (5.0, 6.1)),
    "prefix": (f"{START} {{digits:9}} {END}", f"{START} {{digits:9}}", (6.3, 7.1)),
    "suffix": (f"{START} {{digits:9}} {END}", f"{{digits:9}} {END}", (5.0, 6.8)),
    "both": (f"{START} {{digits:9}} {END}", None, (6.1, 7.5)),
    "both, two hyphens": (f"{START} {{digits:3}}-{{digits:2}}-{{digits:4}} {END}", None, (5.1, 9.5)),
    "both, eight hyphens": (f"{START} {'-'.join(['{digits}'] * 9)} {END}", None, (5.2, 11.1)),
}
"""What the attacker knows: template, the part that is known, published exposure at epochs 5 and 10."""
EPOCHS: dict[Scale, tuple[int, int]] = {"smoke": (1, 2), "small": (5, 10), "paper": (5, 10)}
MANY = "The number of {unique}: {digits:3}-{digits:2}-{digits:4}"
COUNTS: dict[Scale, tuple[Sequence[int], Sequence[int]]] = {
    "smoke": ((1, 2), (1,)),
    "small": ((1, 5, 20), (1, 3, 10)),
    "paper": ((1, 10, 50, 100, 500), (1, 2, 4, 10)),
}
"""Numbers of secrets, and how often each is inserted."""


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """One model for the attackers of the first four rows, and one for each of the other formats."""
    watch = Watch((), BOTH, EPOCHS[plan.scale])
    found = []
    for template in dict.fromkeys(template for template, _, _ in FORMATS.values()):
        known = [known for own, known, _ in FORMATS.values() if own == template]
        made = setting(plan, watch=watch, template=template, known=known, recipe={"epochs": max(watch.epochs)})
        found += [made.config(seed) for seed in seeds(plan)]
    return found


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Exposure by what the attacker knows around the secret, after two numbers of epochs."""
    early, late = EPOCHS[plan.scale]
    rows: list[TableRow] = []
    found: dict[tuple[str, int], list[float]] = {}
    for name, (template, known, published) in FORMATS.items():
        own = chosen(trials, template=template)
        row: TableRow = {"attacker knows": name}
        for epoch, figure in zip((early, late), published, strict=True):
            seen = [entry for entry in entries(own, str(epoch)) if entry["known"] == known]
            found[name, epoch] = bits(seen, "extrapolated")
            row[f"epoch {epoch}, published"] = Published(figure)
            row[f"epoch {epoch}"] = mean_bits(seen)
            row[f"epoch {epoch}, extrapolated"] = mean_bits(seen, "extrapolated")
        rows.append(row)
    before, after = [*found["prefix", late], *found["both", late]], [*found["none", late], *found["suffix", late]]
    hyphens = [*found["both, two hyphens", late], *found["both, eight hyphens", late]]
    by_epoch = {epoch: [each for name in FORMATS for each in found[name, epoch]] for epoch in (early, late)}
    claims = [
        higher("knowing what stands before the secret raises extrapolated exposure", before, after),
        higher("inner context raises it further", hyphens, found["both", late]),
        grows("it grows with training", by_epoch),
    ]
    note = "Attackers of one model, and its epochs, are counted as independent."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


def table_4_trials(plan: StudyPlan) -> list[Config]:
    """Several secrets at once, each with a word of its own before it."""
    counts, copies = COUNTS[plan.scale]
    watch = Watch(("exposure", "shortest-path"))
    return [
        setting(plan, watch=watch, template=MANY, count=count, copies=times).config(seed)
        for count in counts
        for times in copies
        for seed in seeds(plan)
    ]


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Share of secrets that shortest path extracts, by their number and insertions."""
    counts, copies = COUNTS[plan.scale]
    rows = []
    exposure: dict[int, list[float]] = {times: [] for times in copies}
    for times in copies:
        row: TableRow = {"insertions": times}
        for count in counts:
            own = entries(chosen(trials, count=count, copies=times))
            hits = sum(entry["shortest-path"]["place"] == 1 for entry in own)
            row[f"{count} secrets, published"] = Published(None)
            row[f"{count} secrets"] = Measured.rate(hits, len(own))
            row[f"{count}: exposure"] = mean_bits(own)
            exposure[times] += bits(own)
        rows.append(row)
    claims = [grows("secrets inserted more often are exposed more", exposure)]
    notes = ["Canaries of one model are counted as independent; the shares in the paper's table are not in the source."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


register_study("table-3", "what the attacker knows around the secret", "Table 3", table_3_trials, table_3)
register_study("table-4", "several secrets at once", "Table 4", table_4_trials, table_4)
