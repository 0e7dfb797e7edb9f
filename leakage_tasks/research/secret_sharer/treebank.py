"""Table 1, Figures 2 and 4 of The Secret Sharer on the Penn Treebank's small parts, with models of the paper's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leakage_tasks.research.framework.registry import Config, MakeReport, Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Report
from leakage_tasks.research.secret_sharer import figures, plots, tables
from leakage_tasks.research.secret_sharer.experiment import BOTH, SOURCE, Watch, differences
from leakage_tasks.research.secret_sharer.treebank_trials import SPLIT, TRAINED_ON, TREEBANK, run, treebank_configs

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds; in Python's help text",
    "small": f"6 to 34 minutes per model on one core; $LEAKAGE_DATA/ptb/{TRAINED_ON} and {SPLIT}",
}


def table_1_trials(plan: StudyPlan) -> list[Config]:
    """List trials of Table 1's architectures and a transformer; at ``smoke`` only two."""
    names = ["gru-1x370", "cnn-4x122"] if plan.scale == "smoke" else [*tables.TABLE_1, tables.OURS]
    windows = {"length": tables.LENGTH, "batch_size": TREEBANK.batch_size * TREEBANK.length // tables.LENGTH}
    variants = [{"recipe": {"architecture": name, **(windows if name == tables.OURS else {})}} for name in names]
    return treebank_configs(plan, Watch(BOTH), variants)


def long_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the paper's LSTM trained past its best epoch, measured after every epoch."""
    return treebank_configs(plan, Watch((*BOTH, "costs"), BOTH, (0,)))


def _in_treebank(report: MakeReport) -> MakeReport:
    """Return the report with the Penn Treebank instead of the help text in its differences."""

    def treebank_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
        table = report(trials, plan)
        return replace(table, differences=[*_differences(trials), *table.differences[len(differences(plan)) :]])

    return treebank_report


def _differences(trials: Sequence[StudyTrial]) -> list[str]:
    return [
        f"{trials[0].result['characters']:,} characters, the Penn Treebank's test part and most of its validation part "
        "as words between single spaces, replace its training part (5 MB); "
        f"{TREEBANK.held_out:,} characters are held out.",
        f"Batches have {TREEBANK.batch_size} sequences, not 128, so that the best epoch comes after about as many "
        "steps; the learning rate is constant (the paper's decays on plateaus). Model, windows and the "
        "secret's single copy are the paper's.",
    ]


_register = registrar("secret-sharer", SOURCE, SCALES, run)
_register(
    "table-1-treebank",
    "architectures of equal size, on the Penn Treebank's small parts",
    "Table 1",
    table_1_trials,
    _in_treebank(tables.table_1),
)
for _name, _title, _where, _report, _plot in (
    (
        "figure-2-treebank",
        "distribution of log-perplexities",
        "Figure 2",
        figures.figure_2,
        plots.plot_histogram_with_fit,
    ),
    ("figure-4-treebank", "losses and exposure by epoch", "Figure 4", figures.figure_4, plots.plot_losses_and_exposure),
):
    _register(_name, f"{_title}, on the Penn Treebank's small parts", _where, long_trials, _in_treebank(_report), _plot)
