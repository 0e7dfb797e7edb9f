"""Trials of Figures 6 and 7: the two suffixes with the highest confidence after each prefix, if one is right and one is
wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.trials import SCALES, SEEDS, common_fields, tuned
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, registrar

if TYPE_CHECKING:
    from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

_PREFIXES_PER_BATCH = 64
"""Prefixes per batch of draws."""
RIGHT, WRONG = "1", "0"
"""Characters for a right and a wrong token in ``marks``."""


def case_trials(plan: StudyPlan) -> list[Config]:
    """List one trial per seed, of the main model with Ethicist's prompt.

    Texts are included only if the plan reveals them.
    """
    shown = {"reveal": True} if plan.reveal else {}
    return [common_fields(tuned(plan, seed)) | shown for seed in plan.seeds(SEEDS[plan.scale])]


def run(config: Config, shared: Path) -> Result:
    """Draw suffixes after the prefixes of the test pairs.

    ``views`` says for each pair whether the guess by calibrated confidence, and by perplexity, is right. ``p_z_bits``
    is the cost of drawing the true suffix in bits, None if it cannot be drawn. ``cases`` has the pairs whose two most
    confident suffixes are one right and one wrong: ``pair``, its ``number`` among the test pairs, and for ``right`` and
    ``wrong`` the ``place`` (rank), ``count`` of draws, ``nats`` per token, ``confidence``, ``marks`` (a character per
    token) and ``chances``, the probability of drawing each token. ``text`` is included if no person wrote it, or if the
    plan reveals it.
    """
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    pairs = pairs_of(config, shared)
    prompt = tuned_prompt(config, pairs, shared)
    target = suffixes_of(config["victim"], config["data"], shared, prompt)
    show_texts = config.get("reveal", False) or not natural(config)
    right: dict[str, dict[str, list[int]]] = {name: {"right": []} for name in ("calibrated", "perplexity")}
    cases = []
    for number, (pair, drawn) in enumerate(_drawn(target, pairs.test, config)):
        suffixes = _ranked(drawn, pair)
        right["calibrated"]["right"].append(int(suffixes[0]["right"]))
        right["perplexity"]["right"].append(int(min(suffixes, key=lambda suffix: suffix["nats"])["right"]))
        if case := _case(suffixes[:2]):
            prefix_text = {"prefix": target.decode([pair.prefix])[0]} if show_texts else {}
            described = {name: _storable(suffix, target, show_texts) for name, suffix in case.items()}
            cases.append({"pair": pair.id, "number": number, **described, **prefix_text})
    scheme = DecodingConfig(**config["scheme"])
    costs = target.score([pair.prefix for pair in pairs.test], [pair.suffix for pair in pairs.test], scheme)
    bits = [None if suffix.drawn is None else float(suffix.drawn.sum()) for suffix in costs]
    p_z = [suffix if suffix is not None and math.isfinite(suffix) else None for suffix in bits]
    return {"views": {HEADLINE: right}, "cases": cases, "p_z_bits": p_z}


def natural(config: Config) -> bool:
    """Return True if people wrote the pairs' text, so that this package must not show it."""
    victim = config["victim"]
    return isinstance(victim, str) or bool(victim["recipe"]["public"])


def _drawn(target: CausalSuffixes, pairs: Sequence[Pair], config: Config) -> Iterator[tuple[Pair, PrefixSamples]]:
    """Yield each pair with the draws after its prefix, which are the attack's own draws."""
    import numpy as np

    from leakage_tasks.attacks.suffix.attack import uniforms
    from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    scheme = DecodingConfig(**config["scheme"])
    for first in range(0, len(pairs), _PREFIXES_PER_BATCH):
        batch = pairs[first : first + _PREFIXES_PER_BATCH]
        numbers = np.stack([uniforms(config["seed"], pair, config["samples"]) for pair in batch])
        for pair, draws in zip(batch, target.draw([pair.prefix for pair in batch], numbers, scheme), strict=True):
            yield pair, PrefixSamples(target, pair.prefix, draws)


def _ranked(drawn: PrefixSamples, pair: Pair) -> list[dict[str, Any]]:
    """Return the distinct suffixes in order of decreasing calibrated confidence."""
    import numpy as np

    from leakage_tasks.attacks.suffix.candidates import ranked
    from leakage_tasks.attacks.suffix.confidences import confidence_of

    draws, length = drawn.draws, len(pair.suffix)
    candidates = drawn.candidates(len(draws.of_draw), length)
    rows, _ = draws.first(len(draws.of_draw), length)
    confidence = confidence_of(candidates, "calibrated")
    assert candidates.bits is not None
    assert draws.drawn is not None
    suffixes = []
    for index in ranked(candidates, confidence).tolist():
        token_matches = candidates.tokens[index] == np.array(pair.suffix)
        suffixes.append(
            {
                "right": bool(token_matches.all()),
                "count": int(candidates.counts[index]),
                "nats": float(candidates.bits[index]) * math.log(2) / length,
                "confidence": float(confidence[index]),
                "marks": "".join(RIGHT if item else WRONG for item in token_matches),
                "chances": [round(item, 6) for item in np.exp2(-draws.drawn[rows[index]]).tolist()],
                "tokens": candidates.tokens[index].tolist(),
            }
        )
    return suffixes


def _case(two: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the two suffixes as right and wrong; empty unless there is one of each."""
    if [suffix["right"] for suffix in two].count(True) != 1 or len(two) != 2:
        return {}
    return {"right" if suffix["right"] else "wrong": {**suffix, "place": rank} for rank, suffix in enumerate(two, 1)}


def _storable(suffix: dict[str, Any], target: CausalSuffixes, texts: bool) -> dict[str, Any]:
    """Return the fields of a suffix that may be stored. Its tokens are text and are not."""
    fields = {name: value for name, value in suffix.items() if name not in ("tokens", "right")}
    return fields | ({"text": target.decode([suffix["tokens"]])[0]} if texts else {})


register_case_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""A function that registers a study of cases."""
