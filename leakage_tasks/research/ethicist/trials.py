"""Trials of Ethicist: one model, with or without a tuned prompt, one decoding and one seed."""

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
    "small": "20 to 60 minutes on 2 cores, less if another study of the paper has run before; the public pairs in "
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
"""The paper's decodings, from Appendix A."""
WITHOUT_SMOOTHING = {"hardest": 0}
UNTUNED, SMOOTH, PLAIN = "untuned", "smooth", "plain"
"""No prompt, Ethicist's prompt, and a prompt tuned without the smoothing loss."""


def each_seed(plan: StudyPlan, makers: Iterable[Callable[[StudyPlan, int], Config]]) -> list[Config]:
    """List the config of each of ``makers`` and each seed."""
    return [make(plan, seed) for make in makers for seed in plan.seeds(SEEDS[plan.scale])]


def untuned(plan: StudyPlan, seed: int) -> Config:
    """Return the main model without a prompt, with all confidences except the trained one."""
    return _config(plan, seed, None, sweeps=_read_off(plan), lowercase=True)


def tuned(plan: StudyPlan, seed: int) -> Config:
    """Return the main model with Ethicist's prompt, with a trained confidence as well."""
    return _config(plan, seed, {}, sweeps=_read_off(plan), trained=True)


def unsmoothed(plan: StudyPlan, seed: int) -> Config:
    """Return the main model with a prompt tuned without the smoothing loss."""
    return _config(plan, seed, WITHOUT_SMOOTHING)


def decoded(plan: StudyPlan, seed: int, decoding: str) -> Config:
    """Return the main model with Ethicist's prompt and another decoding."""
    if decoding == "top-p":
        return tuned(plan, seed)
    return _config(plan, seed, {}, decoding=decoding, scheme=DECODINGS[decoding], compared=None)


def of_size(plan: StudyPlan, seed: int, size: str, with_prompt: bool) -> Config:
    """Return a model of some size, with or without Ethicist's prompt."""
    return _config(plan, seed, {} if with_prompt else None, size, samples=ground_at(plan.scale).few_samples)


def shortened(plan: StudyPlan, seed: int, with_prompt: bool) -> Config:
    """Return the main model, with or without Ethicist's prompt, after prefixes of several lengths."""
    ground = ground_at(plan.scale)
    sweeps = {"prefix_lengths": list(ground.prefix_lengths)}
    return _config(plan, seed, {} if with_prompt else None, sweeps=sweeps, samples=ground.few_samples)


def _read_off(plan: StudyPlan) -> Config:
    """Return the lengths and counts that are computed from the draws of a run; other prefix lengths need new draws."""
    return {name: list(getattr(ground_at(plan.scale), name)) for name in ("suffix_lengths", "sample_counts")}


def _config(plan: StudyPlan, seed: int, tuning: Mapping[str, Any] | None, size: str = "", **changes: Any) -> Config:
    """Return a trial on the main model, or a model of another size, by top-p; ``changes`` are other fields."""
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


def common_fields(config: Config) -> Config:
    """Return the fields of a config that every attack on pairs needs."""
    fields = ("victim", "size", "data", "test", "validation", "tuning", "scheme", "samples", "seed")
    return {name: config[name] for name in fields}


def run(config: Config, shared: Path) -> Result:
    """Attack the test pairs.

    ``views`` has, for each view of the findings and each confidence, columns of :class:`Choice`'s fields with an entry
    per pair, including ``right``. ``p_z_bits`` has an entry per pair, None if the suffix cannot be drawn. ``suffix`` is
    the suffixes' length.
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
    request = SuffixRequest(
        scheme=DecodingConfig(**config["scheme"]),
        samples=config["samples"],
        seed=config["seed"],
        # Guesses of a search differ only in perplexity.
        confidence="calibrated" if config["scheme"]["decoding"] == "sample" else "perplexity",
        lowercase=config["lowercase"],
        **sweeps,
    )
    trained = fit_confidence(target, pairs.validation, request) if config["trained"] else None
    compared = None if second is None else suffixes_of(second, config["data"], shared)
    findings = attack_pairs(target, pairs.test, request, compared_with=compared, trained=trained)
    return {
        "views": {name: _columns([finding.views[name] for finding in findings]) for name in findings[0].views},
        "p_z_bits": [finding.views["none"].p_z_bits for finding in findings],
        "suffix": len(pairs.test[0].suffix),
        "nodes": _node_share(findings),
        "tuning": None if prompt is None else tuning_record(prompt),
    }


def _columns(views: Sequence[SuffixView]) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of each confidence."""
    by_confidence: dict[str, dict[str, list[Any]]] = {}
    for name in views[0].choices:
        choices = [view.choices[name] for view in views]
        columns = {
            field: [getattr(choice, field) for choice in choices] for field in vars(choices[0]) if field != "wrong"
        }
        by_confidence[name] = {"right": [int(choice.wrong == 0) for choice in choices], **columns}
    return by_confidence


def _node_share(findings: Sequence[SuffixFinding]) -> float:
    """Return the token positions computed, as a share of the positions of as many separate draws."""
    return sum(finding.nodes / (finding.samples * finding.views["none"].suffix_length) for finding in findings) / len(
        findings
    )


def by_setting(trials: Sequence[StudyTrial]) -> dict[str, list[StudyTrial]]:
    """Return trials of the main model that sample by top-p, by setting, in the order of their seeds."""
    groups: dict[str, list[StudyTrial]] = {UNTUNED: [], SMOOTH: [], PLAIN: []}
    for trial in sorted(trials, key=lambda item: item.config["seed"]):
        tuning = trial.config["tuning"]
        plain = tuning is not None and WITHOUT_SMOOTHING.items() <= tuning.items()
        groups[UNTUNED if tuning is None else PLAIN if plain else SMOOTH].append(trial)
    return groups


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """List the differences from the paper, and a description of intervals."""
    return [*differences(plan.scale), intervals(trials)]


register_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""A function that registers a study of this paper."""
