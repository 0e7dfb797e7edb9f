"""The limits of each attack against what the attack takes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM

from adapters.classifier_scorer import ClassifierScorerLM
from adapters.masked_lm import MaskedLM
from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.registry import ATTACKS as ATTACK_REGISTRY
from leakage_tasks.attacks.registry import register
from leakage_tasks.attacks.selection import AttackSettings, chosen_attacks
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.planning.limits import limits_of, longest_filling
from leakage_tasks.planning.meter import metered, modules_of
from leakage_tasks.stats import skew_normal
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.causal.first_passes import CHECKED
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import ScoresSequences
from leakage_tasks.targets.rounding import PERTURBED
from tests.encoders import save_base, save_classifier
from tests.oracles import letters, tiny_gpt2
from tests.targets.seq2seq.test_target import ending, tiny

ATTACKS = {
    "exposure": "exposure",
    "rank-sample": "exposure",
    "skew-normal": "exposure",
    "shortest-path": "extraction",
    "beam": "extraction",
    "greedy": "extraction",
    "sample-tokens": "extraction",
}


LONG = "the pin of anna, which she told to nobody but bob, is "


def small_lstm() -> CharLSTMForCausalLM:
    torch.manual_seed(0)
    return CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(letters()), hidden_size=16, num_layers=1)).eval()


def planted(template: str, number: int = 1, **more: Any) -> list[Canary]:
    return make_canaries(template, number, controls=0, seed=1, id_prefix="p", **more)


def kept_limits(
    modules: Any, target: Any, canary: Canary, attack: str, goal: str, budget: int, *others: Canary, **values: Any
) -> tuple[Any, Any]:
    """What the attack on a canary and ``others`` like it costs, and the limits of one; it keeps to them."""
    canaries = [canary, *others]
    ((chosen, request),) = chosen_attacks(AttackSettings(attack, goal, budget, values=values), target, [canary])
    limits = limits_of(chosen, request)
    with metered(modules) as count:
        run_attack(attack, target, canaries, budget=budget, goal=goal, values=values)
    for name in ("rows", "passes", "tokens"):
        assert 0 < getattr(count, name) <= len(canaries) * getattr(limits, name), (name, limits, count)
    return count, limits


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "template", ["pin {digits:5}.", "pin {digits:2}.", "of anna {number_words:2}.", "so and so {digits:2} is the code"]
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tiny_gpt2(letters()), id="gpt2"),
        pytest.param(small_lstm, id="lstm", marks=pytest.mark.slow),
    ],
)
def test_every_canary_stays_within_the_limits(
    attack: str, template: str, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skew_normal, "RESAMPLES", 9)
    model, settings = make(), {"draws": 200} if attack in ("skew-normal", "sample-tokens") else {}
    target = CausalTarget(model, letters())
    canaries = make_canaries(template, 1, controls=1, seed=1, id_prefix="p")
    # The first pass of a model is made in two ways, to prove that they agree.
    run_attack("beam", target, canaries[:1], budget=60)
    for canary in canaries:
        modules = modules_of(SimpleNamespace(model=model))
        kept_limits(modules, target, canary, attack, ATTACKS[attack], 400, **settings)


def test_a_proof_of_a_pass_in_16_bits_may_measure_its_rounding() -> None:
    def rows(model: Any) -> float:
        target = CausalTarget(model, letters())
        ((chosen, request),) = chosen_attacks(AttackSettings("beam", "extraction"), target, planted("pin {digits:2}."))
        return limits_of(chosen, request).rows

    full = tiny_gpt2(letters())
    assert rows(copy.deepcopy(full).bfloat16()) == rows(full) + CHECKED * PERTURBED


@pytest.mark.parametrize(
    ("template", "budget"), [("pin {digits:2}.", 200), ("pin {digits:2}.", 400), ("pin {digits:3}.", 1500)]
)
@pytest.mark.parametrize("values", [{"draws": 2000}, {"draws": 100_000, "until": "found"}])
def test_draws_that_the_budget_does_not_pay_for_at_once_stay_within_the_limits(
    template: str, budget: int, values: dict[str, Any]
) -> None:
    """They are made in several groups, each of which reads the tree again."""
    model = tiny_gpt2(letters())
    target, (canary,) = CausalTarget(model, letters()), planted(template)
    run_attack("beam", target, [canary], budget=60)
    kept_limits(
        modules_of(SimpleNamespace(model=model)), target, canary, "sample-tokens", "extraction", budget, **values
    )


@pytest.mark.parametrize(
    ("attack", "values", "most"),
    [("shortest-path", {}, 100), ("sample-tokens", {"draws": 100_000, "until": "found"}, 300)],
)
def test_a_small_space_is_not_planned_with_the_whole_budget(attack: str, values: dict[str, Any], most: int) -> None:
    """A tree of ten nodes below the root; each of twenty groups of draws may read all of them again."""
    model = tiny_gpt2(letters())
    target, (canary,) = CausalTarget(model, letters()), planted("pin {digits:1}.")
    run_attack("beam", target, [canary], budget=60)
    _, limits = kept_limits(
        modules_of(SimpleNamespace(model=model)), target, canary, attack, "extraction", 100_000, **values
    )
    assert limits.rows < most


@pytest.mark.parametrize(
    ("template", "attack", "budget", "values"),
    [
        ("the pin of anna, told to bob, is {digits:2} is the code now", "rank-sample", 400, {}),
        ("{digits:5} is the pin of bob.", "rank-sample", 400, {}),
        (LONG + "{digits:1}", "rank-sample", 400, {}),
        ("pin {digits:1}.", "exposure", 400, {"method": "estimated"}),
        ("ab {digits:3} x", "exposure", 1115, {}),
        (LONG + "{digits:4}.", "exposure", 12, {"histogram": 50}),
        ("pin {digits:3}.", "sample-tokens", 1060, {"draws": 3, "until": "found"}),
    ],
)
@pytest.mark.parametrize("make", [lambda: tiny_gpt2(letters()), small_lstm], ids=["gpt2", "lstm"])
def test_what_an_attack_reads_in_addition_is_within_the_limits(
    make: Callable[[], Any], template: str, attack: str, budget: int, values: dict[str, Any]
) -> None:
    """Texts that are too few to share a beginning, a tree as large as the budget, draws that are read again."""
    model = make()
    target, (canary,) = CausalTarget(model, letters()), planted(template)
    # Methods that a model must prove first.
    run_attack("rank-sample", target, make_canaries(LONG + "{digits:2}", 1, seed=2), budget=100)
    modules = modules_of(SimpleNamespace(model=model))
    count, limits = kept_limits(modules, target, canary, attack, ATTACKS[attack], budget, **values)
    if attack == "rank-sample":
        assert limits.rows <= 2 * max(count.rows, budget)


@pytest.mark.parametrize("attack", ["mix-and-match", "class-loss"])
@pytest.mark.parametrize("template", ["ab{words}c", "a{words}b{words}c", "the pin of my card, as I say, is{words}x"])
@pytest.mark.parametrize(("generator", "more"), [("text", {"texts": 12}), ("text", {"texts": 2000}), ("causal", {})])
def test_texts_that_a_generator_reads_count(
    tmp_path: Path, attack: str, template: str, generator: str, more: dict[str, Any]
) -> None:
    save_base(tmp_path / "base")
    save_classifier(tmp_path / "classifier", tmp_path / "base")
    tiny_gpt2(letters()).save_pretrained(tmp_path / "causal")
    letters().save_pretrained(tmp_path / "causal")
    lm = ClassifierScorerLM(
        pretrained=str(tmp_path / "classifier"),
        device="cpu",
        generator=f"{generator}:{tmp_path / 'causal'}",
        **more,
    )
    goal = "exposure" if attack == "class-loss" else "extraction"
    words = {
        "words": word_list("words", (*"abcdefghijklmnopqrstuvwxyz", *(["abcdef", "bcdefg"] * (generator == "causal"))))
    }
    (canary,) = planted(template, label="LABEL_1", alphabets=words)
    with metered([lm.target.model]) as classifier:
        count, _ = kept_limits(modules_of(lm), as_target(lm), canary, attack, goal, 1000)
    assert count.rows > classifier.rows


SEARCHES = [
    ("label-search", {"beam": 3}),
    ("label-search", {"beam": 16, "shortlist": 20, "audit": True}),
    ("inversion", {"restarts": 2, "steps": 20}),
]


@pytest.mark.parametrize(("attack", "values"), SEARCHES)
@pytest.mark.parametrize("template", ["the {words} c", "the {words} b {words} c"])
def test_searches_on_a_classifier_stay_within_the_limits(
    tmp_path: Path, attack: str, values: dict[str, Any], template: str
) -> None:
    save_classifier(tmp_path / "classifier", save_base(tmp_path / "base"))
    lm = ClassifierScorerLM(pretrained=str(tmp_path / "classifier"), device="cpu")
    words = {"words": word_list("words", tuple("abcdefghijklmnopqrstuvwxyz"))}
    (canary,) = planted(template, label="LABEL_1", alphabets=words)
    kept_limits(modules_of(lm), as_target(lm), canary, attack, "extraction", 300, **values)


WORDS = {"words": word_list("words", ("x", *(letter + "abcdefgh" for letter in "cdefghijk")))}


def masked_lm(folder: Path) -> MaskedLM:
    return MaskedLM(str(save_base(folder)), device="cpu")


def bart(folder: Path) -> HFLM:
    return HFLM(pretrained=copy.deepcopy(tiny("bart")), tokenizer=ending(), backend="seq2seq", batch_size=2)


def t5(folder: Path) -> HFLM:
    return HFLM(pretrained=tiny("t5"), tokenizer=ending(), backend="seq2seq", batch_size=16)


@pytest.mark.parametrize(
    ("make", "attack", "template", "source", "budget"),
    [
        (masked_lm, "rank-sample", "the pin is {words} of {words}", None, 60),
        (bart, "rank-sample", "{words} {words}.", "so {words} {words}", 60),
        (t5, "brute-force", "the pin of anna is {digits:2} b {digits:1}", "x", 1000),
        (bart, "beam", "the pin of anna is {digits:2}.", "x", 10),
    ],
)
def test_masked_models_and_translators_stay_within_the_limits(
    tmp_path: Path, make: Callable[[Path], Any], attack: str, template: str, source: str | None, budget: int
) -> None:
    """Values longer than the secret's, whole texts in smaller passes, the proof of passes that canaries share."""
    lm, goal = make(tmp_path / "model"), "exposure" if attack == "rank-sample" else "extraction"
    (made,) = planted(template, alphabets=WORDS, source=source)
    short = dataclasses.replace(made, secret=tuple(min(slot.values, key=len) for slot in made.space.slots))
    target, values = as_target(lm), {"width": 5} if attack == "beam" else {}
    for others in ([], [dataclasses.replace(short, id=name) for name in "abc"]):
        kept_limits(modules_of(lm), target, short, attack, goal, budget, *others, **values)


def test_texts_of_several_canaries_that_share_a_beginning_stay_within_the_limits() -> None:
    """Each canary has too few of them; a recurrent model then reads their tokens one at a time."""
    model = small_lstm()
    target, settings = CausalTarget(model, letters()), {"histogram": 50}
    run_attack("rank-sample", target, make_canaries(LONG + "{digits:2}", 1, seed=2), budget=100)
    canaries = planted(LONG + "{number_words:4} x ", 3)
    pairs = chosen_attacks(AttackSettings("exposure", "exposure", 12, values=settings), target, canaries)
    limits = [limits_of(chosen, request, len(canaries)) for chosen, request in pairs]
    with metered(modules_of(SimpleNamespace(model=model))) as count:
        run_attack("exposure", target, canaries, budget=12, goal="exposure", values=settings)
    assert 0 < count.rows <= sum(limit.rows for limit in limits)
    assert 0 < count.tokens <= sum(limit.tokens for limit in limits)


@pytest.mark.parametrize("template", ["the pin is {w:2}", "the pin is {w:1} and {w:1}"])
def test_the_values_of_the_most_tokens_need_not_be_the_longest(tmp_path: Path, template: str) -> None:
    words = {"w": word_list("w", (*(f"the{letter * 4}" for letter in "abc"), *("xqz" + letter for letter in "defg")))}
    target = as_target(masked_lm(tmp_path / "model"))
    (canary,) = planted(template, alphabets=words)
    longest = max(target.length(text) for text in canary.space.texts())
    assert longest_filling(target, canary.space, canary.secret) >= longest


def test_brute_force_takes_all_fillings() -> None:
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = planted("pin {digits:2}.")
    ((attack, request),) = chosen_attacks(AttackSettings("brute-force", "extraction", 400), target, canaries)
    (found,) = run_attack("brute-force", target, canaries, budget=400, goal="extraction")
    assert found.model_calls == 100 <= limits_of(attack, request).rows <= 102 + CHECKED


def test_a_shared_beginning_is_not_counted_for_each_text() -> None:
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = planted(LONG + "{digits:3}.")
    ((attack, request),) = chosen_attacks(AttackSettings("rank-sample", "exposure", 400), target, canaries)
    limits = limits_of(attack, request)
    assert limits.tokens < 10 * limits.rows < 400 * len(LONG)


def test_an_attack_of_another_package_keeps_to_its_budget(request: pytest.FixtureRequest) -> None:
    register("theirs", "extraction", ScoresSequences, remedy="none")(lambda request: {})
    request.addfinalizer(lambda: ATTACK_REGISTRY._items.pop("theirs"))
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = planted("pin {digits:2}.")
    ((attack, asked),) = chosen_attacks(AttackSettings("theirs", "extraction", 400), target, canaries)
    assert attack.most_calls(asked) == Calls(texts=400)
    assert 400 <= limits_of(attack, asked).rows <= 410
