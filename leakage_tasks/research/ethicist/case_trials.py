"""A trial of Figures 6 and 7: of the two likeliest suffixes after each prefix, what a right and a wrong one cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.trials import SCALES, SEEDS, tuned
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, registrar

if TYPE_CHECKING:
    from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

_KEPT = ("victim", "size", "data", "test", "validation", "tuning", "scheme", "samples", "seed")
_TOGETHER = 64
"""Prefixes drawn after at once."""
RIGHT, WRONG = "1", "0"
"""Of a token, in ``marks``."""


def case_trials(plan: StudyPlan) -> list[Config]:
    """The main model behind Ethicist's prompt, a config a seed; texts are asked for where the plan reveals them."""
    configs = [tuned(plan, seed) for seed in plan.seeds(SEEDS[plan.scale])]
    shown = {"reveal": True} if plan.reveal else {}
    return [{name: config[name] for name in _KEPT} | shown for config in configs]


def run(config: Config, shared: Path) -> Result:
    """Draw suffixes after the prefixes of the test pairs.

    ``views`` tells for each pair whether the guess by calibrated confidence is right, and by perplexity; ``p_z_bits``
    what the true suffix costs to draw, None where it cannot be. ``cases`` has the pairs of whose two surest suffixes
    one is right: ``pair``, its ``number`` among those tested, and of ``right`` and ``wrong`` the ``place``, ``count``
    of draws, ``nats`` a token, ``confidence``, ``marks`` (a character a token) and ``chances``, the probability of
    drawing each token. A ``text`` is there where it is nobody's, or asked for.
    """
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    pairs = pairs_of(config, shared)
    prompt = tuned_prompt(config, pairs, shared)
    target = suffixes_of(config["victim"], config["data"], shared, prompt)
    texts = config.get("reveal", False) or not natural(config)
    right: dict[str, dict[str, list[int]]] = {name: {"right": []} for name in ("calibrated", "perplexity")}
    cases = []
    for number, (pair, drawn) in enumerate(_drawn(target, pairs.test, config)):
        suffixes = _ranked(drawn, pair)
        right["calibrated"]["right"].append(int(suffixes[0]["right"]))
        right["perplexity"]["right"].append(int(min(suffixes, key=lambda each: each["nats"])["right"]))
        if case := _case(suffixes[:2]):
            shown = {"prefix": target.decode([pair.prefix])[0]} if texts else {}
            told = {name: _told(each, target, texts) for name, each in case.items()}
            cases.append({"pair": pair.id, "number": number, **told, **shown})
    scheme = DecodingConfig(**config["scheme"])
    costs = target.score([pair.prefix for pair in pairs.test], [pair.suffix for pair in pairs.test], scheme)
    bits = [None if each.drawn is None else float(each.drawn.sum()) for each in costs]
    p_z = [each if each is not None and math.isfinite(each) else None for each in bits]
    return {"views": {HEADLINE: right}, "cases": cases, "p_z_bits": p_z}


def natural(config: Config) -> bool:
    """Whether pairs are text that people wrote and that is not this package's to show."""
    victim = config["victim"]
    return isinstance(victim, str) or bool(victim["recipe"]["public"])


def _drawn(target: CausalSuffixes, pairs: Sequence[Pair], config: Config) -> Iterator[tuple[Pair, PrefixSamples]]:
    """Each pair with what was drawn after its prefix, the draws of the attack itself."""
    import numpy as np

    from leakage_tasks.attacks.suffix.attack import uniforms
    from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    scheme = DecodingConfig(**config["scheme"])
    for first in range(0, len(pairs), _TOGETHER):
        some = pairs[first : first + _TOGETHER]
        numbers = np.stack([uniforms(config["seed"], pair, config["samples"]) for pair in some])
        for pair, draws in zip(some, target.draw([pair.prefix for pair in some], numbers, scheme), strict=True):
            yield pair, PrefixSamples(target, pair.prefix, draws)


def _ranked(drawn: PrefixSamples, pair: Pair) -> list[dict[str, Any]]:
    """The distinct suffixes, surest by calibrated confidence first."""
    import numpy as np

    from leakage_tasks.attacks.suffix.candidates import ranked
    from leakage_tasks.attacks.suffix.confidences import confidence_of

    draws, length = drawn.draws, len(pair.suffix)
    candidates = drawn.candidates(len(draws.of_draw), length)
    rows, _ = draws.first(len(draws.of_draw), length)
    sure = confidence_of(candidates, "calibrated")
    assert candidates.bits is not None
    assert draws.drawn is not None
    found = []
    for place in ranked(candidates, sure).tolist():
        same = candidates.tokens[place] == np.array(pair.suffix)
        found.append(
            {
                "right": bool(same.all()),
                "count": int(candidates.counts[place]),
                "nats": float(candidates.bits[place]) * math.log(2) / length,
                "confidence": float(sure[place]),
                "marks": "".join(RIGHT if each else WRONG for each in same),
                "chances": [round(each, 6) for each in np.exp2(-draws.drawn[rows[place]]).tolist()],
                "tokens": candidates.tokens[place].tolist(),
            }
        )
    return found


def _case(two: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The two as the right and the wrong one; empty where it is not one of each."""
    if [each["right"] for each in two].count(True) != 1 or len(two) != 2:
        return {}
    return {"right" if each["right"] else "wrong": {**each, "place": place} for place, each in enumerate(two, 1)}


def _told(suffix: dict[str, Any], target: CausalSuffixes, texts: bool) -> dict[str, Any]:
    """Of a suffix what may be kept: its tokens are text."""
    kept = {name: value for name, value in suffix.items() if name not in ("tokens", "right")}
    return kept | ({"text": target.decode([suffix["tokens"]])[0]} if texts else {})


register_case_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""Registers studies of cases."""
