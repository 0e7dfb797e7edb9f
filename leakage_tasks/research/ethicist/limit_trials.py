"""Trials of what Ethicist leaves open: prefixes chosen at random, and prompts carried over to another model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.experiment import Victim, fingerprint, ground_at
from leakage_tasks.research.ethicist.trials import SCALES, SEEDS, of_size
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, registrar

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

_KEPT = ("victim", "size", "data", "test", "validation", "tuning", "scheme", "samples", "seed")
BENCHMARK, RANDOM = "benchmark", "random"
RANDOM_PAIRS = "random_pairs"
"""The folder of ``LEAKAGE_DATA`` with prefixes and suffixes drawn at random from a public model's training data."""
NONE, OWN, AS_IS, LINEAR, NEAREST = "no prompt", "its own prompt", "as it is", "linear map", "nearest tokens"
CARRIED = (AS_IS, LINEAR, NEAREST)
"""Ways of carrying a prompt over to another model."""


def prefix_trials(plan: StudyPlan) -> list[Config]:
    """The main model, with and without a prompt, after the benchmark's prefixes and after random ones."""
    size = ground_at(plan.scale).main
    return [
        {**_config(plan, seed, size, prompt), "prefixes": prefixes}
        for prefixes in (BENCHMARK, RANDOM)
        for prompt in (False, True)
        for seed in plan.seeds(SEEDS[plan.scale])
    ]


def transfer_trials(plan: StudyPlan) -> list[Config]:
    """Every larger model, and one of the smallest one's width: no prompt, its own, and the smallest one's."""
    victims = family(plan)
    source, *targets = victims
    return [
        {
            **_config(plan, seed, "", way != NONE),
            "size": target,
            "victim": victims[target],
            "data": fingerprint(victims[target]),
            "source": victims[source] if way in CARRIED else None,
            "way": way,
        }
        for target in targets
        for way in ways(victims[source], victims[target])
        for seed in plan.seeds(SEEDS[plan.scale])
    ]


def family(plan: StudyPlan) -> dict[str, Victim]:
    """The smallest model, whose prompts are carried over, one of its width and another depth, and the main one.

    At the paper's scale there is none of its width, and all larger ones.
    """
    from leakage_tasks.research.victims.pair_lm import PairRecipe

    ground = ground_at(plan.scale)
    (name, smallest), *larger = ground.sizes.items()
    if isinstance(smallest, str):
        return {name: smallest, **dict(larger)}
    recipe = PairRecipe(**smallest["recipe"])
    other = replace(recipe, layers=recipe.layers - 1 if recipe.layers > 1 else 2)
    twin = {**smallest, "recipe": asdict(other)}
    return {name: smallest, f"{other.layers} × {other.hidden}": twin, ground.main: ground.sizes[ground.main]}


def ways(source: Victim, target: Victim) -> tuple[str, ...]:
    """What a model is attacked with; a prompt goes over as it is between models of one width alone."""
    same = not isinstance(source, str) and not isinstance(target, str)
    wide = same and source["recipe"]["hidden"] == target["recipe"]["hidden"]  # type: ignore[index]
    return (NONE, OWN, *(way for way in CARRIED if wide or way != AS_IS))


def _config(plan: StudyPlan, seed: int, size: str, with_prompt: bool) -> Config:
    config = of_size(plan, seed, size, with_prompt)
    return {name: config[name] for name in _KEPT}


def run(config: Config, shared: Path) -> Result:
    """Attack pairs. ``views`` is as in :func:`leakage_tasks.research.ethicist.trials.run`, of calibrated confidence."""
    from leakage_tasks.attacks.suffix.attack import attack_pairs
    from leakage_tasks.attacks.suffix.request import SuffixRequest
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    pairs = pairs_of(config, shared)
    if config.get("source") is not None:
        target = carried(config, shared)
    else:
        prompt = None if config["tuning"] is None else tuned_prompt(config, pairs, shared)
        target = suffixes_of(config["victim"], config["data"], shared, prompt)
    attacked = random_pairs(config) if config.get("prefixes") == RANDOM else pairs.test
    scheme = DecodingConfig(**config["scheme"])
    order = SuffixRequest(scheme=scheme, samples=config["samples"], seed=config["seed"], lowercase=False)
    findings = attack_pairs(target, attacked, order)
    views = [each.views[HEADLINE] for each in findings]
    choices = [view.choices["calibrated"] for view in views]
    fields = ("confidence", "of_headline", "place", "count", "bits")
    columns: dict[str, list[Any]] = {name: [getattr(each, name) for each in choices] for name in fields}
    right = [int(each.wrong == 0) for each in choices]
    return {
        "views": {HEADLINE: {"calibrated": {"right": right, **columns}}},
        "p_z_bits": [view.p_z_bits for view in views],
        "bits": [view.own_bits for view in views],
    }


def random_pairs(config: Config) -> Sequence[Pair]:
    """As many pairs as are tested, cut from training text that nobody chose; the same for all seeds.

    A model of the lab has read that text once or twice after its pairs. Raises LeakageError where that of a public
    model is not there.
    """
    from leakage_tasks.core.errors import LeakageError
    from leakage_tasks.pairs import Pair
    from leakage_tasks.pairs.source import Source, read_pairs
    from leakage_tasks.research.framework.shared import data_folder
    from leakage_tasks.research.victims.pair_lm import PairRecipe

    victim = config["victim"]
    if isinstance(victim, str):
        folder = data_folder() / RANDOM_PAIRS
        if not folder.is_dir():
            raise LeakageError(
                f"{folder}: no such folder: put prefixes and suffixes from random places of the model's training data "
                "there, as train_prefix.npy and train_suffix.npy, or take --scale small"
            )
        return read_pairs(Source(str(folder), split="all"))[:1000]
    fields: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in victim["recipe"].items()
    }
    recipe = PairRecipe(**fields)
    corpus = recipe.corpus(0)
    rows = corpus.filler[rows_read(len(corpus.filler), victim["reading"])][: config["test"]].tolist()
    length = recipe.prefix_length, recipe.prefix_length + recipe.suffix_length
    return [Pair(place, tuple(row[: length[0]]), tuple(row[length[0] : length[1]])) for place, row in enumerate(rows)]


def rows_read(count: int, steps: int, seed: int = 0) -> Any:
    """Which of ``count`` rows :func:`~leakage_tasks.research.ethicist.victims.read_on` reads, each once, in order."""
    import numpy as np

    from leakage_tasks.research.ethicist.victims import BATCH

    stream = np.random.default_rng([seed, steps])
    drawn = np.concatenate([stream.integers(count, size=BATCH) for _ in range(steps)])
    return drawn[np.sort(np.unique(drawn, return_index=True)[1])]


def carried(config: Config, shared: Path) -> CausalSuffixes:
    """The attacked model behind the prompt that was tuned on the ``source``, carried over in a ``way``."""
    from safetensors.torch import load_file

    from leakage_tasks.research.ethicist.prompt_transfer import behind, carry
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.training.prompt.files import WEIGHTS

    own = {**config, "victim": config["source"]}
    folder = tuned_prompt(own, pairs_of(own, shared), shared)
    prompt = load_file(folder / WEIGHTS)["prompt_embeddings"]
    source, target = (suffixes_of(each, config["data"], shared) for each in (config["source"], config["victim"]))
    first, second = (each.sampler.target.model.get_input_embeddings().weight.detach() for each in (source, target))
    return behind(target, carry(prompt, first, second, config["way"]))


register_limit_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""Registers studies of limitations."""
