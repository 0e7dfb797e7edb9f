"""The defences of Carlini et al., "The Secret Sharer" (2019): Table 7, quantization and sanitization."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, falls, higher, unknown
from leakage_tasks.research.secret_sharer.defence_trials import not_private, private, run, sanitized, undefended
from leakage_tasks.research.secret_sharer.experiment import SCALES, SOURCE, WHOLE, differences

RMSPROP = {
    0.65: (1.69, 1.1), 1.21: (1.59, 2.3), 5.26: (1.41, 1.8), 89.0: (1.34, 2.1), 2e8: (1.32, 3.2), 1e9: (1.26, 2.8),
}  # fmt: skip
"""Table 7 with DP: ε to test loss and estimated exposure."""
CLIPPED, SGD, PLAIN = (2.11, 3.6), (1.86, 9.5), (1.17, 31.0)
"""SGD with clipping alone; SGD and RMSProp without DP."""
FEWER = (0.65, 89.0, 2e8)
"""The ε of the scales below the paper's."""


def table_7_trials(plan: StudyPlan) -> list[Config]:
    """RMSProp at each ε, SGD with clipping alone, and both without DP."""
    epsilons = {"smoke": FEWER[1:2], "small": FEWER, "paper": tuple(RMSPROP)}[plan.scale]
    made = [config for epsilon in epsilons for config in private(plan, "rmsprop", epsilon)]
    return [*made, *private(plan, "sgd", None), *not_private(plan, "sgd"), *not_private(plan, "rmsprop")]


def table_7(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Test loss and exposure with DP-SGD and without."""
    rows, exposures, groups = [], dict[str, list[float]](), grouped(trials, _training)
    for (defence, optimizer, epsilon), own in groups.items():
        dp = defence == "dp-sgd"
        told = (RMSPROP[epsilon] if epsilon else CLIPPED) if dp else SGD if optimizer == "sgd" else PLAIN
        name = f"{optimizer}, {'clipped alone' if not epsilon else f'ε = {epsilon:g}'}" if dp else f"{optimizer}, no DP"
        exposures[name] = _of(own, "exposure")
        rows.append({"training": name, **_figures(own, *told)} | (_for_copies(own) if dp else {}))
    with_dp = [value for name, own in exposures.items() if "no DP" not in name for value in own]
    points = [(epsilon, loss) for (_, _, epsilon), own in groups.items() if epsilon for loss in _of(own, "loss")]
    claims = [
        unknown("no model trained with DP-SGD knows the secret, at whatever ε", with_dp),
        higher("RMSProp without DP exposes it more than those with", exposures["rmsprop, no DP"], with_dp),
        falls("a larger ε means a lower loss", points),
    ]
    return Report(list(rows[0]), rows, claims, _private_ground(trials[0], plan))


def _training(config: Config) -> tuple[str, str, float | None]:
    """Defence, optimizer and ε."""
    return config["defence"], config.get("optimizer") or config["recipe"]["optimizer"], config.get("epsilon")


def _for_copies(own: Sequence[StudyTrial]) -> TableRow:
    """ε of the promise for the rows that all copies of the secret change, by group privacy."""
    promised = own[0].result["promise"]["epsilon_by_copies"]
    (epsilon,) = (value for copies, value in promised.items() if copies != "1")
    return {"ε for all copies": "∞" if epsilon is None else f"{epsilon:.3g}"}


def _private_ground(trial: StudyTrial, plan: StudyPlan) -> list[str]:
    own, rows = trial.config["private"], trial.result["rows"]
    unit = "The unit of the published losses is not in the source; ours are bits a character."
    if plan.scale == "paper":
        return ["δ and batch size are not in the source: 1e-5 and 256 rows are taken.", unit, *differences(plan)]
    text, *rest = differences(plan, own["characters"])
    return [
        text,
        f"An LSTM of {own['layers']}×{own['hidden_size']} units; with DP-SGD {own['epochs']} epochs on {rows:,} rows "
        f"of whole lines, {own['batch_size']} a batch, δ = {own['delta']:g}; three of the six ε. ε is for one row; "
        "each copy of the secret taken out of its row counts as two rows.",
        unit,
        *rest,
    ]


def quantization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Loss and exposure by values a weight may have (Appendix D.3)."""
    rows: list[TableRow] = []
    sizes = trials[0].result["sizes"]
    for place, name in enumerate(("float32", *sizes)):
        own = sizes.get(name, {"packed": sizes["256"]["stored"]})
        rows.append(
            {
                "values a weight": name,
                **_figures(trials, place=place),
                "kilobytes": round(own["packed"] / 1000),
                "by zlib": round(own["zlib"] / 1000) if place else None,
            }
        )
    before, after = ([trial.result["models"][place] for trial in trials] for place in (0, 1))
    pairs = list(zip(before, after, strict=True))
    moved = [abs(one["exposure"] - two["exposure"]) for one, two in pairs]
    losses = [abs(two["loss"] / one["loss"] - 1) for one, two in pairs]
    claims = [
        all_of(
            "with 256 values a weight the secret is as exposed as before, to half a bit",
            [change <= 0.5 for change in moved],
            f"largest change {max(moved):.2f} bits",
        ),
        all_of("and the loss the same, to 1 %", [change <= 0.01 for change in losses], f"most {max(losses):.2%}"),
    ]
    note = "Fewer than 256 values are ours. Sizes are of the weights at the fewest bits that tell the values apart."
    return Report(list(rows[0]), rows, claims, [*differences(plan), note])


def sanitization_trials(plan: StudyPlan) -> list[Config]:
    """Models trained on what is left, and on everything."""
    return [*sanitized(plan), *undefended(plan)]


def sanitization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Where the secret's place is among all samples, and what a model knows without those that were dropped."""
    by_defence = grouped(trials, lambda config: str(config["defence"]))
    done, plain = by_defence["sanitization"], by_defence["none"]
    rows = [
        {"training text": "everything", **_figures(plain)},
        {
            "training text": f"without {done[0].result['drop']} of {done[0].result['samples']:,} samples",
            **_figures(done),
            "place, by character": Measured.mean([trial.result["places"]["character"] for trial in done]),
            "place, by sample": Measured.mean([trial.result["places"]["sample"] for trial in done]),
        },
    ]
    found = [trial.result["places"]["character"] <= trial.result["drop"] for trial in done]
    clean, usual = (Measured.mean(_of(own, "loss")).value for own in (done, plain))
    rise = clean / usual - 1
    claims = [
        all_of("the secret is among the samples that are dropped", found, "ranked by character"),
        unknown("a model trained on the others does not know it", _of(done, "exposure")),
        Claim("the loss rises slightly: by less than 5 %", rise < 0.05, f"by {rise:+.1%}"),
    ]
    note = (
        "All copies of the secret are one sample, which the paper's algorithm would miss. How many samples are dropped "
        "is ours."
    )
    return Report(list(rows[1]), rows, claims, [*differences(plan), note])


def _figures(
    own: Sequence[StudyTrial], loss: float | None = None, exposure: float | None = None, *, place: int = 0
) -> TableRow:
    """Loss and exposure of each trial's model at ``place``, beside the published ones."""
    return {
        "loss, published": Published(loss),
        "loss (bits/character)": Measured.mean(_of(own, "loss", place)),
        "exposure, published": Published(exposure),
        "exposure": Measured.mean(_of(own, "exposure", place), WHOLE),
        "controls": Measured.mean(
            [value for trial in own for value in trial.result["models"][place]["controls"]], WHOLE
        ),
    }


def _of(own: Sequence[StudyTrial], what: str, place: int = 0) -> list[float]:
    return [trial.result["models"][place][what] for trial in own]


_register = registrar("secret-sharer", SOURCE, SCALES, run)
_register("table-7", "DP-SGD by ε, and no DP", "Table 7", table_7_trials, table_7)
_register("quantization", "weights of few values", "Appendix D.3", undefended, quantization)
_register("sanitization", "samples dropped before training", "Appendix F", sanitization_trials, sanitization)
