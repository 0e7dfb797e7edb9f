"""Defences in Carlini et al., "The Secret Sharer" (2019): Table 7, quantization and sanitization."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.papers import NO_TEST, PaperClaim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, falls, higher, unknown
from leakage_tasks.research.secret_sharer.defence_trials import not_private, private, run, sanitized, undefended
from leakage_tasks.research.secret_sharer.experiment import SCALES, SOURCE, WHOLE, differences

RMSPROP = {
    0.65: (1.69, 1.1), 1.21: (1.59, 2.3), 5.26: (1.41, 1.8), 89.0: (1.34, 2.1), 2e8: (1.32, 3.2), 1e9: (1.26, 2.8),
}  # fmt: skip
"""Test loss and estimated exposure by ε, from Table 7 with DP-SGD."""
CLIPPED, SGD, PLAIN = (2.11, 3.6), (1.86, 9.5), (1.17, 31.0)
"""Test loss and exposure of SGD with clipping only, and of SGD and RMSProp without DP-SGD."""
PRIVATE = PaperClaim(
    "with DP-SGD no model knows the secret, at any ε",
    "exposure 1.1 to 3.6",
    caveat="five copies in 40,000 characters, the paper has one in 5 MB",
)
NOT_PRIVATE = PaperClaim("without DP-SGD the secret is far more exposed", "31.0 vs 1.1 to 3.2")
LARGER_EPSILON = PaperClaim("a larger ε means a lower loss", "1.69 to 1.26")
QUANTIZED = PaperClaim("exposure does not change with 256 values per weight")
QUANTIZED_LOSS = PaperClaim("the loss does not change either")
DROPPED = PaperClaim("the secret is among the dropped samples")
SANITIZED = PaperClaim("the model then does not know it")
SANITIZED_LOSS = PaperClaim("the loss rises slightly", caveat=NO_TEST)
FEWER = (0.65, 89.0, 2e8)
"""The ε of the scales below ``paper``."""


def table_7_trials(plan: StudyPlan) -> list[Config]:
    """List trials of RMSProp at each ε, of SGD with clipping only, and of both without DP-SGD."""
    epsilons = {"smoke": FEWER[1:2], "small": FEWER, "paper": tuple(RMSPROP)}[plan.scale]
    with_noise = [config for epsilon in epsilons for config in private(plan, "rmsprop", epsilon)]
    return [*with_noise, *private(plan, "sgd", None), *not_private(plan, "sgd"), *not_private(plan, "rmsprop")]


def table_7(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report test loss and exposure with and without DP-SGD."""
    rows, exposures, groups = [], dict[str, list[float]](), grouped(trials, _training)
    for (defence, optimizer, epsilon), group in groups.items():
        dp = defence == "dp-sgd"
        published = (RMSPROP[epsilon] if epsilon else CLIPPED) if dp else SGD if optimizer == "sgd" else PLAIN
        name = f"{optimizer}, {'clipped alone' if not epsilon else f'ε = {epsilon:g}'}" if dp else f"{optimizer}, no DP"
        exposures[name] = _of(group, "exposure")
        rows.append({"training": name, **_figures(group, *published)} | (_for_copies(group) if dp else {}))
    with_dp = [value for name, group in exposures.items() if "no DP" not in name for value in group]
    points = [(epsilon, loss) for (_, _, epsilon), group in groups.items() if epsilon for loss in _of(group, "loss")]
    claims = [
        unknown(PRIVATE.words, with_dp),
        higher(NOT_PRIVATE.test("RMSProp"), exposures["rmsprop, no DP"], with_dp),
        falls(LARGER_EPSILON.words, points),
    ]
    return Report(list(rows[0]), rows, claims, _private_ground(trials[0], plan))


def _training(config: Config) -> tuple[str, str, float | None]:
    """Return defence, optimizer and ε of a config."""
    return config["defence"], config.get("optimizer") or config["recipe"]["optimizer"], config.get("epsilon")


def _for_copies(trials: Sequence[StudyTrial]) -> TableRow:
    """Return the guarantee's ε for all rows that contain the secret, by group privacy."""
    epsilons = trials[0].result["promise"]["epsilon_by_copies"]
    (epsilon,) = (value for copies, value in epsilons.items() if copies != "1")
    return {"ε for all copies": "∞" if epsilon is None else f"{epsilon:.3g}"}


def _private_ground(trial: StudyTrial, plan: StudyPlan) -> list[str]:
    experiment, rows = trial.config["private"], trial.result["rows"]
    unit = "The unit of the published losses is not in the source; ours are bits per character."
    if plan.scale == "paper":
        return ["δ and batch size are not in the source: we use 1e-5 and 256 rows.", unit, *differences(plan)]
    text, *rest = differences(plan, experiment["characters"])
    return [
        text,
        f"An LSTM of {experiment['layers']}×{experiment['hidden_size']} units; with DP-SGD {experiment['epochs']} "
        f"epochs on {rows:,} rows of whole lines, {experiment['batch_size']} per batch, δ = {experiment['delta']:g}; "
        "three of the six ε. ε is for one row; removing a copy of the secret from its row counts as two changed rows.",
        unit,
        *rest,
    ]


def quantization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report loss and exposure by the number of values a weight may have (Appendix D.3)."""
    rows: list[TableRow] = []
    sizes = trials[0].result["sizes"]
    for index, name in enumerate(("float32", *sizes)):
        size = sizes.get(name, {"packed": sizes["256"]["stored"]})
        rows.append(
            {
                "values a weight": name,
                **_figures(trials, index=index),
                "kilobytes": round(size["packed"] / 1000),
                "by zlib": round(size["zlib"] / 1000) if index else None,
            }
        )
    before, after = ([trial.result["models"][index] for trial in trials] for index in (0, 1))
    pairs = list(zip(before, after, strict=True))
    changes = [abs(one["exposure"] - two["exposure"]) for one, two in pairs]
    losses = [abs(two["loss"] / one["loss"] - 1) for one, two in pairs]
    claims = [
        all_of(
            QUANTIZED.test("by at most half a bit"),
            [change <= 0.5 for change in changes],
            f"largest change {max(changes):.2f} bits",
        ),
        all_of(QUANTIZED_LOSS.test("by at most 1 %"), [change <= 0.01 for change in losses], f"most {max(losses):.2%}"),
    ]
    note = "Fewer than 256 values are our addition. Sizes are of weights stored with the fewest bits per value."
    return Report(list(rows[0]), rows, claims, [*differences(plan), note])


def sanitization_trials(plan: StudyPlan) -> list[Config]:
    """List trials of models trained on the remaining samples, and on all samples."""
    return [*sanitized(plan), *undefended(plan)]


def sanitization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the secret's rank among all samples, and the exposure of models trained without the dropped samples."""
    by_defence = grouped(trials, lambda config: str(config["defence"]))
    defended, plain = by_defence["sanitization"], by_defence["none"]
    rows = [
        {"training text": "everything", **_figures(plain)},
        {
            "training text": f"without {defended[0].result['drop']} of {defended[0].result['samples']:,} samples",
            **_figures(defended),
            "place, by character": Measured.mean([trial.result["places"]["character"] for trial in defended]),
            "place, by sample": Measured.mean([trial.result["places"]["sample"] for trial in defended]),
        },
    ]
    dropped = [trial.result["places"]["character"] <= trial.result["drop"] for trial in defended]
    clean, usual = (Measured.mean(_of(group, "loss")).value for group in (defended, plain))
    rise = clean / usual - 1
    claims = [
        all_of(DROPPED.words, dropped, "ranked by character"),
        unknown(SANITIZED.words, _of(defended, "exposure")),
        Claim(SANITIZED_LOSS.test("by less than 5 %"), rise < 0.05, f"by {rise:+.1%}"),
    ]
    note = (
        "All copies of the secret are one sample, which the paper's algorithm would miss. The number of dropped "
        "samples is our choice."
    )
    return Report(list(rows[1]), rows, claims, [*differences(plan), note])


def _figures(
    trials: Sequence[StudyTrial], loss: float | None = None, exposure: float | None = None, *, index: int = 0
) -> TableRow:
    """Return loss and exposure of each trial's model at ``index``, with the published ones."""
    return {
        "loss, published": Published(loss),
        "loss (bits/character)": Measured.mean(_of(trials, "loss", index)),
        "exposure, published": Published(exposure),
        "exposure": Measured.mean(_of(trials, "exposure", index), WHOLE),
        "controls": Measured.mean(
            [value for trial in trials for value in trial.result["models"][index]["controls"]], WHOLE
        ),
    }


def _of(trials: Sequence[StudyTrial], key: str, index: int = 0) -> list[float]:
    return [trial.result["models"][index][key] for trial in trials]


_register = registrar("secret-sharer", SOURCE, SCALES, run)
_register("table-7", "DP-SGD by ε, and no DP", "Table 7", table_7_trials, table_7)
_register("quantization", "weights of few values", "Appendix D.3", undefended, quantization)
_register("sanitization", "samples dropped before training", "Appendix F", sanitization_trials, sanitization)
