"""Tuning a soft prompt against the same steps in plain PyTorch, and what must hold of every run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.training.prompt.files import TunedPrompt
from leakage_tasks.training.prompt.forward import PromptPass, Rows
from leakage_tasks.training.prompt.settings import PromptSettings
from leakage_tasks.training.prompt.tuning import first_prompt, tune_prompt
from tests.training.prompt.prompt_oracle import CONTEXT, VOCABULARY, make_model, make_pairs, pairs_loss

TRAINING, VALIDATION = make_pairs(13, 1, None, None), make_pairs(5, 2, None, None)
SMALL = PromptSettings(length=4, epochs=3, batch_size=4, learning_rate=0.05, hardest=2, patience=3)


def tune(model: Any = None, settings: PromptSettings = SMALL, **options: Any) -> TunedPrompt:
    pairs = (options.pop("training", TRAINING), options.pop("validation", VALIDATION))
    return tune_prompt(model or make_model(), *pairs, settings, progress=False, **options)


def weights_hash(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def by_hand(model: Any, settings: PromptSettings, pairs: Sequence[Pair], steps: int) -> torch.Tensor:
    """The prompt after so many steps on all ``pairs`` at once, with constant pieces of the rate written out."""
    prompt = torch.nn.Parameter(first_prompt(PromptPass(model), settings))
    optimiser = torch.optim.AdamW([prompt], weight_decay=settings.weight_decay)
    warmup = settings.warmup or 0
    for step in range(1, steps + 1):
        rising, falling = step / max(warmup, 1), (steps - step + 1) / (steps - warmup)
        optimiser.param_groups[0]["lr"] = settings.learning_rate * (rising if step <= warmup else falling)
        optimiser.zero_grad()
        pairs_loss(model, prompt, pairs, settings.alpha, settings.hardest)[2].backward()
        optimiser.step()
    return prompt.detach()


@pytest.mark.parametrize("changes", [{}, {"alpha": 0.0}, {"hardest": 0}, {"hardest": 99}, {"warmup": 3}])
def test_every_step_is_that_of_adamw_on_the_papers_loss(changes: dict[str, Any]) -> None:
    settings = replace(SMALL, epochs=4, batch_size=len(TRAINING), patience=4, **changes)
    model, prompts = make_model(), []
    tune(model, settings, on_epoch=lambda _epoch, prompt, _losses: prompts.append(prompt))
    assert torch.allclose(prompts[-1], by_hand(model, settings, TRAINING, 4), atol=1e-4)


def test_the_losses_are_bits_a_token_of_the_prompt_they_are_said_to_be_of() -> None:
    prompts: list[torch.Tensor] = []
    model = make_model()
    # All pairs in one step: the training loss is that of the prompt before it.
    settings = replace(SMALL, batch_size=len(TRAINING), accumulation=3)
    tuned = tune(model, settings, on_epoch=lambda _epoch, prompt, _losses: prompts.append(prompt))
    before = [first_prompt(PromptPass(model), settings), *prompts]
    with torch.no_grad():
        for number, losses in enumerate(tuned.losses):
            for pairs, prompt, found in (
                (TRAINING, before[number], losses.training),
                (VALIDATION, prompts[number], losses.validation),
            ):
                expected = [float(each) / math.log(2) for each in pairs_loss(model, prompt, pairs, 0.7, 2)]
                assert [found.mle, found.smoothing, found.total] == pytest.approx(expected, abs=1e-4)


def test_without_smoothing_it_is_plain_likelihood() -> None:
    one, two = tune(settings=replace(SMALL, alpha=0.0)), tune(settings=replace(SMALL, hardest=0))
    assert torch.equal(one.prompt, two.prompt)
    assert one.losses[-1].validation.total == one.losses[-1].validation.mle


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_accumulated_gradients_are_those_of_the_whole_batch(parts: int) -> None:
    whole, divided = tune(), tune(settings=replace(SMALL, accumulation=parts))
    assert torch.allclose(whole.prompt, divided.prompt, atol=1e-5)
    assert divided.losses[-1].training.total == pytest.approx(whole.losses[-1].training.total, abs=1e-5)


def test_tuning_lowers_both_losses_on_what_it_reads() -> None:
    tuned = tune(settings=replace(SMALL, epochs=15, patience=15, learning_rate=0.2), **contrary())
    first, last = tuned.losses[0].training, tuned.losses[-1].training
    assert last.mle < 0.6 * first.mle
    assert last.smoothing < 0.6 * first.smoothing


class Stop(Exception):
    """The run is cut short."""


@pytest.mark.parametrize("cut", [1, 2])
def test_a_run_cut_short_and_resumed_gives_the_same_prompt_to_the_bit(tmp_path: Path, cut: int) -> None:
    whole = tune()

    def stop(epoch: int, *_: Any) -> None:
        if epoch == cut:
            raise Stop

    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        tune(checkpoint=path, on_epoch=stop)
    torch.manual_seed(99)
    resumed = tune(checkpoint=path, resume=True)
    assert torch.equal(resumed.prompt, whole.prompt)
    assert (resumed.losses, resumed.best_epoch) == (whole.losses, whole.best_epoch)


def test_a_run_stopped_within_an_epoch_resumes_from_the_last_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path, left = tune(), tmp_path / "run.safetensors", [9]
    step = torch.optim.AdamW.step

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.AdamW, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(checkpoint=path)
    assert torch.equal(tune(checkpoint=path, resume=True).prompt, whole.prompt)


def contrary() -> dict[str, list[Pair]]:
    """Training towards one suffix, validation on another: the better the worse."""
    prefixes = [pair.prefix for pair in make_pairs(12, 5)]
    train, check = ([Pair(n, prefix, (token,) * 5) for n, prefix in enumerate(prefixes)] for token in (3, 4))
    return {"training": train, "validation": check}


def test_the_best_prompt_is_kept_and_patience_ends_the_run() -> None:
    seen: list[torch.Tensor] = []
    settings = replace(SMALL, epochs=12, patience=2, learning_rate=0.2, warmup=0)
    tuned = tune(settings=settings, on_epoch=lambda _epoch, prompt, _losses: seen.append(prompt), **contrary())
    totals = [epoch.validation.total for epoch in tuned.losses]
    assert totals.index(min(totals)) + 1 == tuned.best_epoch == len(totals) - 2
    assert torch.equal(tuned.prompt, seen[tuned.best_epoch - 1])
    assert not torch.equal(tuned.prompt, seen[-1])
    assert tuned.stopped_early


def test_a_run_that_patience_ended_stays_ended_when_resumed(tmp_path: Path) -> None:
    settings = replace(SMALL, epochs=12, patience=2, learning_rate=0.2, warmup=0)
    first = tune(settings=settings, checkpoint=tmp_path / "c", **contrary())
    again = tune(settings=settings, checkpoint=tmp_path / "c", resume=True, **contrary())
    assert again.losses == first.losses
    assert torch.equal(again.prompt, first.prompt)


def test_the_model_is_left_alone() -> None:
    model = make_model().train()
    before, learning = weights_hash(model), [weight.requires_grad for weight in model.parameters()]
    tune(model)
    assert weights_hash(model) == before
    assert [weight.requires_grad for weight in model.parameters()] == learning
    assert all(weight.grad is None for weight in model.parameters())
    assert model.training


def test_the_seed_decides_and_the_random_state_is_left_alone() -> None:
    state = torch.get_rng_state()
    one = tune(make := make_model())
    torch.set_rng_state(state)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    two, other = tune(make), tune(make, replace(SMALL, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.prompt, two.prompt)
    assert one.losses == two.losses
    assert not torch.allclose(one.prompt, other.prompt)


def test_every_epoch_reads_each_pair_once_in_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(PromptPass, "share", lambda *_: None)
    cut = Rows.batch

    def note(self: Rows, rows: torch.Tensor) -> Any:
        read.extend(rows.tolist() if len(self) == len(TRAINING) else [])
        return cut(self, rows)

    monkeypatch.setattr(Rows, "batch", note)
    tune()
    # The first prompt's check of the pass reads two pairs.
    orders = [tuple(read[2:][place : place + len(TRAINING)]) for place in range(0, 3 * len(TRAINING), len(TRAINING))]
    assert [sorted(order) for order in orders] == [list(range(len(TRAINING)))] * 3
    assert len(set(orders)) == 3


def test_the_first_prompt_is_what_was_asked_for() -> None:
    forward = PromptPass(make_model())
    words = forward.embedding.weight
    assert all(bool((row == words).all(1).any()) for row in first_prompt(forward, SMALL))
    text = first_prompt(forward, replace(SMALL, length=5, init_tokens=(7, 3)))
    assert torch.equal(text, words[[7, 3, 7, 3, 7]])
    drawn = first_prompt(forward, replace(SMALL, length=4000, init="random"))
    assert float(drawn.std()) == pytest.approx(1, abs=0.02)


def test_bf16_computes_nearly_the_same_and_keeps_the_prompt_in_float32() -> None:
    exact, coarse = tune(), tune(settings=replace(SMALL, bf16=True))
    assert coarse.prompt.dtype == torch.float32
    assert coarse.losses[-1].validation.total == pytest.approx(exact.losses[-1].validation.total, rel=0.1)
    assert coarse.losses != exact.losses


def test_a_model_in_bfloat16_is_tuned_with_a_float32_prompt() -> None:
    exact, coarse = tune(), tune(make_model().bfloat16())
    assert coarse.prompt.dtype == torch.float32
    assert coarse.losses[-1].validation.total == pytest.approx(exact.losses[-1].validation.total, rel=0.1)


def test_the_bar_shows_both_losses(capsys: pytest.CaptureFixture[str]) -> None:
    tune_prompt(make_model(), TRAINING, VALIDATION, SMALL)
    shown = capsys.readouterr().err
    assert "epoch 3/3" in shown
    assert "MLE" in shown
    assert "smoothing" in shown


def pair(prefix: Sequence[int] = (1, 2), suffix: Sequence[int] = (3,)) -> list[Pair]:
    return [Pair(17, tuple(prefix), tuple(suffix))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": []}, "the training split is empty: give more pairs"),
        ({"validation": []}, "the validation split is empty"),
        ({"training": pair(suffix=())}, "training pair 17: its suffix is empty"),
        ({"training": pair(prefix=[VOCABULARY])}, f"pair 17: token id {VOCABULARY} is not among the model's"),
        ({"validation": pair(suffix=[-1])}, "validation pair 17: token id -1 is not"),
        (
            {"training": pair(prefix=[1] * CONTEXT)},
            rf"pair 17: .* are {CONTEXT + 5} positions, .* has {CONTEXT}: use a",
        ),
        ({"settings": replace(SMALL, init_tokens=(VOCABULARY,))}, f"init_tokens: token {VOCABULARY} is not"),
        ({"settings": replace(SMALL, warmup=12)}, "warmup=12 is not less than the total of 12 steps"),
        ({"resume": True}, "resume: there is no checkpoint"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tune(**options)


def test_the_longest_pair_that_fits_is_tuned_on() -> None:
    longest = pair(prefix=[1] * (CONTEXT - SMALL.length - 1))
    assert len(tune(training=longest, settings=replace(SMALL, epochs=1)).losses) == 1


def test_a_model_in_float16_is_refused() -> None:
    with pytest.raises(TargetError, match="is in float16.*load it in float32 or bfloat16"):
        tune(make_model().half())


def test_a_loss_that_is_no_number_is_an_error_and_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    def spoil(_epoch: int, *_: Any) -> None:
        with torch.no_grad():
            model.transformer.ln_f.weight.fill_(math.nan)

    model = make_model()
    with pytest.raises(TargetError, match="epoch 2: the loss is nan.*lower learning_rate"):
        tune(model, checkpoint=tmp_path / "c", on_epoch=spoil)
    assert len(tune(checkpoint=tmp_path / "c", resume=True).losses) == 3


def test_errors_leave_the_model_as_it_was() -> None:
    model = make_model()
    with pytest.raises(Stop):
        tune(model, on_epoch=lambda *_: (_ for _ in ()).throw(Stop()))
    assert all(weight.requires_grad for weight in model.parameters())
