"""A trial of Ethicist: one model, with or without a tuned prompt, one way of decoding, one seed; studies of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.research.ethicist.experiment import differences, fingerprint, ground_at
from leakage_tasks.research.ethicist.guesses import intervals
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan, StudyTrial, registrar

if TYPE_CHECKING:
    from leakage_tasks.attacks.suffix.finding import SuffixFinding, SuffixView

SCALES: dict[Scale, str] = {
    "smoke": "seconds",
    "small": "20 to 60 minutes on 2 cores, less for what another study of the paper has run; the public pairs in "
    "$LEAKAGE_DATA",
    "paper": "a GPU for hours (figure-3: days), GPT-Neo and GPT-J from the hub, the public pairs in $LEAKAGE_DATA",
}
SEEDS = {"smoke": 1, "small": 3, "paper": 3}
DECODINGS: dict[str, dict[str, Any]] = {
    "greedy": {"decoding": "greedy"},
    "beam": {"decoding": "beam", "beams": 10},
    "top-k": {"decoding": "sample", "top_k": 10, "top_p": 1.0, "temperature": 0.8},
    "top-p": {"decoding": "sample", "top_p": 0.7, "temperature": 0.8},
}
"""The paper's, Appendix A."""
WITHOUT_SMOOTHING = {"hardest": 0}
UNTUNED, SMOOTH, PLAIN = "untuned", "smooth", "plain"
"""No prompt, Ethicist's, and one tuned without the smoothing loss."""


def each_seed(plan: StudyPlan, makers: Iterable[Callable[[StudyPlan, int], Config]]) -> list[Config]:
    """What each of ``makers`` makes of each seed."""
    return [make(plan, seed) for make in makers for seed in plan.seeds(SEEDS[plan.scale])]


def untuned(plan: StudyPlan, seed: int) -> Config:
    """The main model as it is, with all confidences but the trained one."""
    return _config(plan, seed, None, sweeps=_read_off(plan), lowercase=True)


def tuned(plan: StudyPlan, seed: int) -> Config:
    """The main model behind Ethicist's prompt, with a trained confidence beside the rest."""
    return _config(plan, seed, {}, sweeps=_read_off(plan), trained=True)


def unsmoothed(plan: StudyPlan, seed: int) -> Config:
    """The main model behind a prompt tuned without the smoothing loss."""
    return _config(plan, seed, WITHOUT_SMOOTHING)


def decoded(plan: StudyPlan, seed: int, decoding: str) -> Config:
    """The main model behind Ethicist's prompt, decoded in another way."""
    if decoding == "top-p":
        return tuned(plan, seed)
    return _config(plan, seed, {}, decoding=decoding, scheme=DECODINGS[decoding], compared=None)


def of_size(plan: StudyPlan, seed: int, size: str, with_prompt: bool) -> Config:
    """A model of some size, as it is or behind Ethicist's prompt."""
    return _config(plan, seed, {} if with_prompt else None, size, samples=ground_at(plan.scale).few_samples)


def shortened(plan: StudyPlan, seed: int, with_prompt: bool) -> Config:
    """The main model, as it is or behind Ethicist's prompt, after prefixes of several lengths."""
    ground = ground_at(plan.scale)
    sweeps = {"prefix_lengths": list(ground.prefix_lengths)}
    return _config(plan, seed, {} if with_prompt else None, sweeps=sweeps, samples=ground.few_samples)


def _read_off(plan: StudyPlan) -> Config:
    """What is read off the draws of a run; other prefix lengths are drawn anew."""
    return {name: list(getattr(ground_at(plan.scale), name)) for name in ("suffix_lengths", "sample_counts")}


def _config(plan: StudyPlan, seed: int, tuning: Mapping[str, Any] | None, size: str = "", **changes: Any) -> Config:
    """A trial on the main model, or that of another size, by top-p; ``changes`` are fields that differ."""
    ground = ground_at(plan.scale)
    size = size or ground.main
    return {
        "victim": ground.sizes[size],
        "size": size,
        "data": fingerprint(ground.sizes[size]),
        "test": ground.test,
        "validation": ground.validation,
        "compared": ground.compared,
        "tuning": None if tuning is None else {**ground.tuning, **tuning},
        "decoding": "top-p",
        "scheme": DECODINGS["top-p"],
        "samples": ground.samples,
        "sweeps": {},
        "lowercase": False,
        "trained": False,
        "seed": seed,
        **changes,
    }


def run(config: Config, shared: Path) -> Result:
    """Attack the test pairs.

    ``views`` has for each view of the findings, by confidence, columns of :class:`Choice`'s fields with an entry a
    pair, ``right`` among them; ``p_z_bits`` (None: cannot be drawn) likewise. ``suffix`` is the suffixes' length.
    """
    from leakage_tasks.attacks.suffix.attack import attack_pairs, fit_confidence
    from leakage_tasks.attacks.suffix.request import SuffixRequest
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt, tuning_record
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    pairs = pairs_of(config, shared)
    prompt = None if config["tuning"] is None else tuned_prompt(config, pairs, shared)
    target = suffixes_of(config["victim"], config["data"], shared, prompt)
    second = config["compared"]
    sweeps: dict[str, Any] = {name: tuple(numbers) for name, numbers in config["sweeps"].items()}
    order = SuffixRequest(
        scheme=DecodingConfig(**config["scheme"]),
        samples=config["samples"],
        seed=config["seed"],
        # A search's guesses differ in nothing but their perplexity.
        confidence="calibrated" if config["scheme"]["decoding"] == "sample" else "perplexity",
        lowercase=config["lowercase"],
        **sweeps,
    )
    trained = fit_confidence(target, pairs.validation, order) if config["trained"] else None
    compared = None if second is None else suffixes_of(second, config["data"], shared)
    findings = attack_pairs(target, pairs.test, order, compared_with=compared, trained=trained)
    return {
        "views": {name: _columns([each.views[name] for each in findings]) for name in findings[0].views},
        "p_z_bits": [each.views["none"].p_z_bits for each in findings],
        "suffix": len(pairs.test[0].suffix),
        "nodes": _node_share(findings),
        "tuning": None if prompt is None else tuning_record(prompt),
    }


def _columns(views: Sequence[SuffixView]) -> dict[str, dict[str, list[Any]]]:
    """Columns by confidence."""
    found: dict[str, dict[str, list[Any]]] = {}
    for name in views[0].choices:
        choices = [view.choices[name] for view in views]
        columns = {field: [getattr(each, field) for each in choices] for field in vars(choices[0]) if field != "wrong"}
        found[name] = {"right": [int(each.wrong == 0) for each in choices], **columns}
    return found


def _node_share(findings: Sequence[SuffixFinding]) -> float:
    """Token positions computed, as a share of those of as many separate draws."""
    return sum(each.nodes / (each.samples * each.views["none"].suffix_length) for each in findings) / len(findings)


def by_setting(trials: Sequence[StudyTrial]) -> dict[str, list[StudyTrial]]:
    """Trials of the main model that draw by top-p, by setting, in the order of their seeds."""
    found: dict[str, list[StudyTrial]] = {UNTUNED: [], SMOOTH: [], PLAIN: []}
    for trial in sorted(trials, key=lambda each: each.config["seed"]):
        tuning = trial.config["tuning"]
        plain = tuning is not None and WITHOUT_SMOOTHING.items() <= tuning.items()
        found[UNTUNED if tuning is None else PLAIN if plain else SMOOTH].append(trial)
    return found


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """Differences from the paper, and what intervals mean."""
    return [*differences(plan.scale), intervals(trials)]


register_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""Registers studies of this paper."""
