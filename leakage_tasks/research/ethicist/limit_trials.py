"""Trials of limitations of Ethicist: random prefixes, and prompts transferred to another model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.experiment import Victim, fingerprint, ground_at
from leakage_tasks.research.ethicist.trials import SCALES, SEEDS, common_fields, of_size
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, registrar

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

BENCHMARK, RANDOM = "benchmark", "random"
RANDOM_PAIRS = "random_pairs"
"""The folder of ``LEAKAGE_DATA`` with prefixes and suffixes from random positions of a public model's training data."""
NONE, OWN, AS_IS, LINEAR, NEAREST = "no prompt", "its own prompt", "as it is", "linear map", "nearest tokens"
TRANSFERRED = (AS_IS, LINEAR, NEAREST)
"""Methods of transferring a prompt to another model."""


def prefix_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the main model, with and without a prompt, after the benchmark's prefixes and after random
    ones."""
    size = ground_at(plan.scale).main
    return [
        {**_config(plan, seed, size, prompt), "prefixes": prefixes}
        for prefixes in (BENCHMARK, RANDOM)
        for prompt in (False, True)
        for seed in plan.seeds(SEEDS[plan.scale])
    ]


def transfer_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the larger models, and of a model of the smallest model's width, without a prompt and with each
    kind of prompt."""
    victims = family(plan)
    source, *targets = victims
    return [
        {
            **_config(plan, seed, "", way != NONE),
            "size": target,
            "victim": victims[target],
            "data": fingerprint(victims[target]),
            "source": victims[source] if way in TRANSFERRED else None,
            "way": way,
        }
        for target in targets
        for way in ways(victims[source], victims[target])
        for seed in plan.seeds(SEEDS[plan.scale])
    ]


def family(plan: StudyPlan) -> dict[str, Victim]:
    """Return the smallest model, whose prompts are transferred, one of its width, and the main model.

    The model of its width has another depth. At ``paper`` there is no such model, and all larger models are returned.
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
    """Return the prompts that a model is attacked with. Only models of equal width can use a prompt unchanged."""
    both_trained = not isinstance(source, str) and not isinstance(target, str)
    equal_widths = both_trained and source["recipe"]["hidden"] == target["recipe"]["hidden"]  # type: ignore[index]
    return (NONE, OWN, *(way for way in TRANSFERRED if equal_widths or way != AS_IS))


def _config(plan: StudyPlan, seed: int, size: str, with_prompt: bool) -> Config:
    return common_fields(of_size(plan, seed, size, with_prompt))


def run(config: Config, shared: Path) -> Result:
    """Attack pairs.

    ``views`` is as in :func:`leakage_tasks.research.ethicist.trials.run`, for calibrated confidence.
    """
    from leakage_tasks.attacks.suffix.attack import attack_pairs
    from leakage_tasks.attacks.suffix.request import SuffixRequest
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    pairs = pairs_of(config, shared)
    if config.get("source") is not None:
        target = with_transferred_prompt(config, shared)
    else:
        prompt = None if config["tuning"] is None else tuned_prompt(config, pairs, shared)
        target = suffixes_of(config["victim"], config["data"], shared, prompt)
    attacked = random_pairs(config) if config.get("prefixes") == RANDOM else pairs.test
    scheme = DecodingConfig(**config["scheme"])
    request = SuffixRequest(scheme=scheme, samples=config["samples"], seed=config["seed"], lowercase=False)
    findings = attack_pairs(target, attacked, request)
    views = [finding.views[HEADLINE] for finding in findings]
    choices = [view.choices["calibrated"] for view in views]
    fields = ("confidence", "of_headline", "place", "count", "bits")
    columns: dict[str, list[Any]] = {name: [getattr(finding, name) for finding in choices] for name in fields}
    right = [int(finding.wrong == 0) for finding in choices]
    return {
        "views": {HEADLINE: {"calibrated": {"right": right, **columns}}},
        "p_z_bits": [view.p_z_bits for view in views],
        "bits": [view.own_bits for view in views],
    }


def random_pairs(config: Config) -> Sequence[Pair]:
    """Return pairs cut from random training text, as many as there are test pairs; identical for all seeds.

    A model that the study trained has read this text once or twice after its pairs. Raises LeakageError if the text of
    a public model is missing.
    """
    from leakage_tasks.core.errors import LeakageError
    from leakage_tasks.pairs import Pair
    from leakage_tasks.pairs.source import Source, read_pairs
    from leakage_tasks.research.framework.shared import data_folder
    from leakage_tasks.research.victims.pair_lm import PairRecipe
    from leakage_tasks.research.victims.pair_training import rows_read

    victim = config["victim"]
    if isinstance(victim, str):
        folder = data_folder() / RANDOM_PAIRS
        if not folder.is_dir():
            raise LeakageError(
                f"{folder}: no such folder: save prefixes and suffixes from random positions of the model's training "
                "data there, as train_prefix.npy and train_suffix.npy, or use --scale small"
            )
        return read_pairs(Source(str(folder), split="all"))[:1000]
    recipe = PairRecipe.from_json(victim["recipe"])
    corpus = recipe.corpus(0)
    read = dict.fromkeys(rows_read(len(corpus.filler), victim["reading"]).ravel().tolist())
    rows = corpus.filler[list(read)[: config["test"]]].tolist()
    length = recipe.prefix_length, recipe.prefix_length + recipe.suffix_length
    return [Pair(index, tuple(row[: length[0]]), tuple(row[length[0] : length[1]])) for index, row in enumerate(rows)]


def with_transferred_prompt(config: Config, shared: Path) -> CausalSuffixes:
    """Return the attacked model with the prompt that was tuned on the ``source`` model and transferred by the method
    ``way``."""
    from safetensors.torch import load_file

    from leakage_tasks.research.ethicist.prompt_transfer import transfer_prompt, with_prompt
    from leakage_tasks.research.ethicist.victims import pairs_of, suffixes_of, tuned_prompt
    from leakage_tasks.training.prompt.files import WEIGHTS

    source_config = {**config, "victim": config["source"]}
    folder = tuned_prompt(source_config, pairs_of(source_config, shared), shared)
    prompt = load_file(folder / WEIGHTS)["prompt_embeddings"]
    source, target = (suffixes_of(item, config["data"], shared) for item in (config["source"], config["victim"]))
    first, second = (item.sampler.target.model.get_input_embeddings().weight.detach() for item in (source, target))
    return with_prompt(target, transfer_prompt(prompt, first, second, config["way"]))


register_limit_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""A function that registers a study of limitations."""
