"""Bitwise comparison of the trainers of two commits: weights and metrics.

Run ``python -m benchmarks.same_training OTHER`` with a checkout of the other commit. Each trains every kind of small
model on one thread in its own process. Prints one line per case. Exits with 1 if any case differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

TEXT = "".join(f"line {number} of {number * 7 % 13} says {'abcde'[number % 5] * 3}\n" for number in range(120))
CHECK = "".join(f"line {number} of {number * 5 % 11} says bbb\n" for number in range(30))
WORDS = ("red", "green", "blue", "sad", "glad", "old", "new")
ROWS = [(f"{WORDS[n % 7]} {WORDS[n * 3 % 7]} {WORDS[n * n % 5]}" * (1 + n % 3), "ab"[n % 7 > 2]) for n in range(90)]
WRONG = [(text, "ab"[label == "a"]) for text, label in ROWS[:30]]
PAIRS = [(f"uno {word} {word}", f"one {word}.") for word in "abcdefghijklmnop"]

Made = tuple[Any, Any]
"""A model (or a tensor), and its metrics."""


def language_models() -> Iterator[tuple[str, Callable[[], Made]]]:
    from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
    from leakage_tasks.research.victims.private_lm import train_private_char_lm
    from leakage_tasks.training.char_lstm import train_char_lm
    from leakage_tasks.training.dp.private import DpConfig

    small = LanguageModelRecipe("lstm-1x320", units=16, batch_size=8, length=12, epochs=3, dropout=0.2)
    recipes = {
        "shuffled": small,
        "patience": replace(small, epochs=20, patience=2, learning_rate=0.05),
        "streams": replace(small, batches="streams", decay_from=0.3, optimizer="adam"),
        "bagged": replace(small, architecture="transformer", units=32, batches="bagged", weight_decay=1e-3),
        "bfloat16": replace(small, dtype="bfloat16", clip=float("inf"), optimizer="momentum"),
    }
    for name, recipe in recipes.items():
        yield f"train_lm {name}", lambda recipe=recipe: _lm(train_lm(TEXT, recipe, validation=CHECK, seed=3))
    sizes: dict[str, Any] = {"hidden_size": 12, "layers": 2, "epochs": 3, "seed": 5}
    yield "train_char_lm", lambda: _lm(train_char_lm(TEXT, validation=CHECK, decay_from=0.5, **sizes))
    noisy = {"none": DpConfig(noise_multiplier=0.0, delta=1e-4), "some": DpConfig(epsilon=8.0, delta=1e-4)}
    for name, private in noisy.items():
        yield (
            f"train_private_char_lm, noise {name}",
            lambda private=private: _lm(
                train_private_char_lm(TEXT, private, validation=CHECK, batch_size=15, length=40, **sizes)
            ),
        )


def _lm(trained: Any) -> Made:
    return trained.model, (trained.losses, trained.best)


def encoders() -> Iterator[tuple[str, Callable[[], Made]]]:
    from leakage_tasks.research.victims.classifier import fine_tune
    from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
    from leakage_tasks.research.victims.wordpiece import train_wordpiece
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.masked_lm import MaskedRecipe, train_masked_lm

    texts = [text for text, _ in ROWS]
    tokenizer = train_wordpiece(texts, vocabulary=60)
    how = MaskedRecipe(epochs=3, batch_size=7, max_length=16)

    def base() -> Any:
        return pretrain_masked_lm(texts, tokenizer, how, layers=1, hidden=16)

    def frozen() -> Made:
        model = base().model
        model.zero_grad()
        model.base_model.requires_grad_(False)
        made = train_masked_lm(model, tokenizer, texts, MaskedRecipe(epochs=3, seed=2))
        return made.model, made.losses

    yield "pretrain_masked_lm", lambda: ((made := base()).model, made.losses)
    yield "train_masked_lm, frozen encoder", frozen
    options: dict[str, dict[str, Any]] = {
        "accuracy": {"keep": "accuracy", "patience": 2, "epochs": 8},
        "loss": {"keep": "loss", "patience": 1, "epochs": 8},
        "last": {"keep": "last", "epochs": 2},
        "private": {"private": DpConfig(noise_multiplier=0.5, delta=1e-4), "batch_size": 9, "epochs": 2},
    }
    for name, more in options.items():
        yield f"fine_tune {name}", lambda more=more: _classifier(fine_tune, base().model, tokenizer, more)


def _classifier(fine_tune: Any, base: Any, tokenizer: Any, more: dict[str, Any]) -> Made:
    wanted = {"tokenizer": tokenizer, "max_length": 16, "learning_rate": 5e-3, "batch_size": 8, "seed": 1, **more}
    trained = fine_tune(base, ROWS[30:], WRONG, **wanted)
    return trained.model, (trained.history, trained.best_epoch)


def sequences() -> Iterator[tuple[str, Callable[[], Made]]]:
    from leakage_tasks.research.victims.pair_corpus import own_pairs
    from leakage_tasks.research.victims.pair_training import PairTraining, train_pair_lm
    from leakage_tasks.research.victims.translation import TranslationRecipe, train_translator

    recipe = TranslationRecipe(layers=1, hidden=32, heads=2, positions=16, epochs=4, batch_size=5)
    translated = lambda: train_translator(PAIRS, recipe, validation=PAIRS[:5], seed=4)  # noqa: E731
    yield "train_translator", lambda: ((made := translated()).model, made.losses)
    corpus = own_pairs(40, 8, 6, 300, 0)
    sizes: dict[str, Any] = {"layers": 1, "hidden": 32, "heads": 2, "filler": (0, 6), "learning_rate": 1e-2}
    for bf16, until, epochs in ((False, None, 4), (True, None, 3), (False, 0.2, 40)):

        def learnt(bf16: bool = bf16, until: float | None = until, epochs: int = epochs) -> Made:
            made = train_pair_lm(corpus, PairTraining(until=until, epochs=epochs, **sizes), bf16=bf16)
            return made.model, (made.losses, made.recalls)

        yield f"train_pair_lm bf16={bf16} until={until}", learnt


def taggers() -> Iterator[tuple[str, Callable[[], Made]]]:
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.tagger.recipe import NLURecipe
    from leakage_tasks.training.tagger.trainer import train_tagger
    from tests.training.tagger.utterances import made

    rows, checks = made(60), made(30, seed=1)
    wrong = [replace(row, intent=other.intent) for row, other in zip(checks, checks[1:] + checks[:1], strict=True)]
    small = NLURecipe(embedding_size=8, hidden_size=6, epochs=3, batch_size=8, learning_rate=2e-2)
    private = DpConfig(noise_multiplier=0.7, delta=1e-4)
    runs: dict[str, dict[str, Any]] = {
        "plain": {},
        "characters": {"recipe": replace(small, characters=True), "validation": ()},
        "patience": {"recipe": replace(small, epochs=20, patience=2), "validation": wrong},
        "private": {"recipe": replace(small, batch_size=4), "private": private},
        "private with patience": {"recipe": replace(small, epochs=12, patience=2), "private": private},
    }
    for name, more in runs.items():

        def tagged(more: dict[str, Any] = more) -> Made:
            made = train_tagger(rows, **({"validation": checks, "recipe": small, "seed": 6, "device": "cpu"} | more))
            return made.model, (made.history, made.best_epoch, made.guarantee)

        yield f"train_tagger {name}", tagged


def prompts() -> Iterator[tuple[str, Callable[[], Made]]]:
    from leakage_tasks.training.prompt.settings import PromptSettings
    from leakage_tasks.training.prompt.tuning import tune_prompt
    from tests.training.prompt.prompt_oracle import make_model, make_pairs

    training, validation = make_pairs(13, 1, None, None), make_pairs(5, 2, None, None)
    small = PromptSettings(length=4, epochs=3, batch_size=4, learning_rate=0.05, hardest=2, patience=3)
    runs = {
        "whole": small,
        "parts": replace(small, accumulation=3, warmup=2, bf16=True),
        "patience": replace(small, epochs=12, patience=2, learning_rate=0.2, warmup=0),
    }
    for name, settings in runs.items():
        for broken in (False, True):

            def tuned(settings: Any = settings, broken: bool = broken) -> Made:
                made = _tuned(tune_prompt, make_model(), training, validation, settings, broken)
                return made.prompt, (made.losses, made.best_epoch)

            yield f"tune_prompt {name}{', broken off and resumed' * broken}", tuned


def _tuned(tune_prompt: Any, model: Any, training: Any, validation: Any, settings: Any, broken: bool) -> Any:
    def stop(epoch: int, *_: Any) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    if not broken:
        return tune_prompt(model, training, validation, settings, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        with contextlib.suppress(KeyboardInterrupt):
            tune_prompt(model, training, validation, settings, checkpoint=path, on_epoch=stop, progress=False)
        return tune_prompt(model, training, validation, settings, checkpoint=path, resume=True, progress=False)


def train_all(into: Path) -> None:
    """Train all models and write their weights and metrics to ``into``."""
    import leakage_tasks

    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases: dict[str, Any] = {"": str(Path(leakage_tasks.__file__).parent)}
    for kind in (language_models, encoders, sequences, taggers, prompts):
        for name, make in kind():
            model, figures = make()
            weights = model.state_dict() if isinstance(model, torch.nn.Module) else {"": model}
            state = int(torch.random.get_rng_state().sum())
            training = getattr(model, "training", None)
            cases[name] = ({key: value.clone() for key, value in weights.items()}, f"{figures!r} {state} {training}")
    torch.save(cases, into)


def trained_in(folder: Path, into: Path) -> dict[str, Any]:
    """Train with the code of the checkout ``folder`` and return weights and metrics."""
    environment = os.environ | {"PYTHONPATH": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, __file__, "--into", str(into)],
        cwd=folder,
        env=environment,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return torch.load(into, weights_only=True)


def main() -> int:
    """Print one line per case; return 1 if any case differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument(
        "--into", type=Path, help="train with this checkout and write this file (used by the script itself)"
    )
    options = parser.parse_args()
    if options.into is not None:
        train_all(options.into)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        here = Path(__file__).resolve().parent.parent
        one, other = (
            trained_in(checkout.resolve(), Path(folder) / name)
            for name, checkout in (("a", here), ("b", options.other))
        )
    print(f"here {one.pop('')}, there {other.pop('')}")
    different = 0
    for name, (ours, figures) in one.items():
        theirs, others = other[name]
        weights = ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)
        words = {True: "equal", False: "DIFFERENT"}
        print(f"weights {words[weights]} ({len(ours)}), figures {words[figures == others]}: {name}")
        different += not (weights and figures == others)
    print(f"{len(one)} cases, {different} different")
    return int(bool(different) or one.keys() != other.keys())


if __name__ == "__main__":
    sys.exit(main())
