"""The attack by gradient, on a made-up model whose lowest loss is known, and its descent written a second way."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import Finding, finding_from_json, run_attack
from leakage_tasks.attacks.access import GRADIENTS
from leakage_tasks.attacks.inversion.search import FORMS, InversionSettings, Logits, relaxed_search
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.errors import OptionError, TargetError
from tests.attacks.relaxed import Mixtures, Relaxed, places_of
from tests.targets.causal.models import limit_rows

CANARIES = [
    dataclasses.replace(each, id=f"c{length}")
    for length in (3, 4, 2)
    for each in make_canaries(f"pin {{digits:{length}}}", 1, seed=length)
]
PLAN = InversionSettings(
    relaxation="softmax",
    characters="adaptive",
    steps=250,
    spread=0.1,
    learning_rate=6.5e-3,
    start_temperature=0.1,
    cooling=0.997,
)


def attacked(
    target: Any = None, canaries: list[Canary] = CANARIES, budget: int | None = None, **given
) -> list[Finding]:
    target = target or Mixtures()
    return run_attack("inversion", target, canaries, goal="extraction", budget=budget, values=given)


@cache
def usual(**given) -> list[Finding]:
    """The findings of the made-up model without character features, computed once."""
    return attacked(**given)


def relaxed(double: bool = True, canaries: list[Canary] = CANARIES, **given) -> Relaxed:
    return Mixtures(**given).relaxed(canaries, double)


def filled(canary: Canary, filling: tuple[str, ...]) -> float:
    """The made-up model's loss of one filling."""
    places = places_of(dataclasses.replace(canary, secret=filling))[None]
    one = relaxed(canaries=[canary])
    return float(one.costs(torch.tensor([0]), one.chosen(torch.tensor([0]), places)))


def kept(found: Finding) -> dict[str, Any]:
    """What of a finding must not depend on anything but the canary; losses apart."""
    losses = ("best_loss", "unfinished_loss", "secret_loss")
    extra = {name: value for name, value in found.extra.items() if name not in losses}
    return {"guesses": [each.filling for each in found.guesses], "calls": found.model_calls, **extra}


# -- what it finds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("characters", [False, True])
def test_every_variant_finds_the_filling_of_lowest_loss(form, characters):
    for found in attacked(Mixtures(characters=characters), relaxation=form):
        assert (found.correct, found.place) == ((True,) * len(found.correct), 1)


@pytest.mark.parametrize("form", ["softmax", "gumbel", "straight-through"])
def test_relaxed_tokens_find_it_without_a_finish(form):
    assert all(all(found.correct) for found in attacked(relaxation=form, finish=False, restarts=10))


def test_characters_as_published_are_those_of_the_likeliest_value():
    found = attacked(Mixtures(characters=True), characters="published")
    assert all(all(each.correct) for each in found)


@pytest.mark.parametrize("finish", [False, True])
def test_guesses_are_distinct_fillings_by_their_loss(finish):
    for canary, found in zip(CANARIES, attacked(finish=finish, steps=3, spread=1.0), strict=True):
        fillings, scores = zip(*((each.filling, each.score) for each in found.guesses), strict=True)
        assert len(set(fillings)) == len(fillings) > 1
        assert list(scores) == sorted(scores)
        assert scores == pytest.approx([filled(canary, filling) for filling in fillings])


def test_the_best_restart_is_that_of_the_lowest_discrete_loss():
    several = [attacked(finish=False, steps=3, spread=1.0, restarts=number) for number in (1, 2, 3, 4)]
    for place, canary in enumerate(CANARIES):
        # A restart is the same whatever their number, so each run tries one filling more.
        seen = {guess.filling for found in several for guess in found[place].guesses}
        best = min(seen, key=lambda filling: filled(canary, filling))
        assert several[-1][place].guesses[0].filling == best
        assert len({found[place].guesses[0].filling for found in several}) > 1 or len(seen) == 1


def test_the_finish_never_worsens_and_ends_where_no_digit_helps():
    target = Mixtures(coupling=2.0)
    for canary, found in zip(CANARIES, attacked(target, steps=3), strict=True):
        assert found.extra["best_loss"] <= found.extra["unfinished_loss"]
        assert found.extra["settled"]
        one = target.relaxed([canary], True)
        best = places_of(dataclasses.replace(canary, secret=found.guesses[0].filling))
        others = torch.stack([best.clone().index_fill_(0, torch.tensor([slot]), value)
                              for slot, value in itertools.product(range(len(best)), range(10))])  # fmt: skip
        which = torch.zeros(len(others), dtype=torch.long)
        assert float(one.costs(which, one.chosen(which, others)).min()) >= found.extra["best_loss"] * (1 - 1e-8)


def test_what_was_found_before_the_finish_stands_beside():
    before, after = usual(finish=False, steps=3), usual(steps=3)
    for early, late in zip(before, after, strict=True):
        assert late.extra["unfinished"] == list(early.correct) == early.extra["unfinished"]
        assert late.extra["unfinished_loss"] == pytest.approx(early.guesses[0].score)
        assert "settled" not in early.extra


def test_the_secrets_own_loss_stands_beside():
    for canary, found in zip(CANARIES, usual(), strict=True):
        assert found.extra["secret_loss"] == pytest.approx(filled(canary, canary.secret), abs=1e-12)


def test_few_alternatives_are_those_the_relaxation_prefers():
    one = attacked(steps=3, alternatives=1)
    assert [each.extra["unfinished"] for each in one] == [list(each.correct) for each in one]
    assert all(each.model_calls == 5 * (2 * 3 + 1) for each in one)


# -- the descent, written a second way ----------------------------------------------------------------------


def by_hand(one: Relaxed, start: np.ndarray, steps: int) -> np.ndarray:
    """Logits of the first canary after Adam as its paper has it, at the attack paper's temperatures and rates."""
    z, mean, square = torch.from_numpy(start.copy()), torch.zeros(start.shape), torch.zeros(start.shape)
    for t in range(steps):
        z = z.detach().requires_grad_(True)
        exponents = torch.exp(z / (0.997**t * 10**-1))
        nats = one.costs(torch.tensor([0]), one.mixed(torch.tensor([0]), exponents / exponents.sum(-1, keepdim=True)))
        (nats.sum() * math.log(2)).backward()
        mean, square = 0.9 * mean + 0.1 * z.grad, 0.999 * square + 0.001 * z.grad**2
        rate = 6.5e-3 * 0.995**t
        z = z - rate * (mean / (1 - 0.9 ** (t + 1))) / ((square / (1 - 0.999 ** (t + 1))).sqrt() + 1e-8)
    return z.detach().numpy()


@pytest.mark.parametrize("steps", [1, 40])
def test_the_descent_is_the_papers(steps):
    one = relaxed(canaries=CANARIES[:1])
    plan = dataclasses.replace(PLAN, steps=steps)
    which = torch.tensor([0])
    start = Logits(one, which, ["seed"], plan).parameter.detach().numpy()
    found = relaxed_search(one, which, ["seed"], plan).numpy()
    assert np.allclose(found, by_hand(one, start, steps), rtol=1e-9, atol=1e-12)
    assert not np.allclose(found, start, atol=1e-3)


def test_the_temperature_falls_as_in_the_paper():
    assert [PLAN.temperature(t) for t in (0, 1, 249)] == pytest.approx([0.1, 0.0997, 0.1 * 0.997**249])


def test_starts_are_normal_of_the_spread_asked_for():
    which = torch.zeros(400, dtype=torch.long)
    start = Logits(relaxed(), which, [str(n) for n in range(400)], dataclasses.replace(PLAN, spread=0.3)).parameter
    drawn = start.detach()[:, :3]
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)
    assert float(drawn.std()) == pytest.approx(0.3, abs=0.01)


# -- the other variants -------------------------------------------------------------------------------------


def form(name: str, rows: int = 200, *, spelt: bool = False, **changes: Any) -> Any:
    """A variant before its first step, on so many rows of the first canary, with character features if ``spelt``."""
    plan = dataclasses.replace(PLAN, relaxation=name, **changes)
    which = torch.zeros(rows, dtype=torch.long)
    return FORMS[name](relaxed(characters=spelt), which, [str(n) for n in range(rows)], plan)


def test_straight_through_reads_single_values_with_the_softmaxs_gradient():
    hard, soft = form("straight-through"), form("softmax")
    places = hard.parameter.argmax(-1)
    assert torch.equal(hard.read(0.1)[:, :3], hard.relaxation.chosen(hard.which, places)[:, :3])
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=hard.closed.shape))
    slopes = [torch.autograd.grad((each.weights(0.1) * weights).sum(), each.parameter)[0] for each in (hard, soft)]
    assert torch.allclose(*slopes)


def test_gumbel_noise_makes_each_value_likeliest_as_often_as_its_softmax_says():
    noisy = form("gumbel", rows=1)
    expected = form("softmax", rows=1).weights(0.1)[0, 0].detach().numpy()
    drawn = [int(noisy.weights(0.1)[0, 0].argmax()) for _ in range(4000)]
    assert np.bincount(drawn, minlength=10) / 4000 == pytest.approx(expected, abs=0.03)


def test_embeddings_start_with_the_alphabets_mean_and_covariance():
    one = form("embedding", rows=4000)
    start, values = one.parameter.detach()[:, 0].numpy(), one.relaxation.table[:, : one.relaxation.soft].numpy()
    assert start.mean(axis=0) == pytest.approx(values.mean(axis=0), abs=0.08)
    assert np.cov(start.T) == pytest.approx(np.cov(values.T, bias=True), abs=0.15)


def test_embeddings_are_answered_by_their_nearest_values():
    one = form("embedding", spelt=True)
    nearest = one.relaxation.nearest(one.which, one.parameter)[:, :3]
    assert torch.equal(one.preferences()[:, :3].argmax(-1), nearest)
    read = one.read(0.1)[:, :3]
    assert torch.equal(read[..., :6], one.parameter[:, :3])
    assert torch.equal(read[..., 6:], one.relaxation.table[nearest][..., 6:])


def test_distances_to_many_values_are_taken_in_parts(monkeypatch):
    one = form("embedding")
    whole = one.preferences()
    monkeypatch.setattr("leakage_tasks.attacks.inversion.search.CHUNK", 3)
    assert torch.allclose(one.preferences(), whole)


@pytest.mark.parametrize("name", ["softmax", "straight-through"])
def test_published_characters_are_those_of_the_likeliest_value_and_constant(name):
    one = form(name, rows=3, spelt=True, characters="published")
    read, mixed = one.read(0.1)[:, :3], form(name, rows=3, spelt=True).read(0.1)[:, :3]
    assert torch.equal(read[..., 6:], one.relaxation.table[one.parameter[:, :3].argmax(-1)][..., 6:])
    assert torch.equal(read[..., :6], mixed[..., :6])
    (slope,) = torch.autograd.grad(read[..., 6:].sum(), one.parameter, retain_graph=True)
    assert float(slope.abs().max()) == 0


def test_without_character_features_it_does_not_matter_whose_are_read():
    assert attacked(characters="published")[0].guesses == usual()[0].guesses


# -- what must change nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_batch_size_order_and_company_change_nothing(form):
    given = {"relaxation": form, "steps": 8}
    expected = {found.canary: kept(found) for found in attacked(Mixtures(characters=True), **given)}
    for batch in (1, 7):
        for found in attacked(Mixtures(batch, characters=True), CANARIES[::-1], **given):
            assert kept(found) == expected[found.canary]
    for canary in CANARIES:
        assert kept(attacked(Mixtures(characters=True), [canary], **given)[0]) == expected[canary.id]


@pytest.mark.parametrize("most", [1, 7])
def test_rows_that_memory_does_not_hold_are_halved_and_come_to_the_same(monkeypatch, most):
    expected, refused = usual(steps=3), limit_rows(monkeypatch, Relaxed, "costs", most)
    assert [kept(found) for found in attacked(steps=3)] == [kept(found) for found in expected]
    # The search and the losses each learn once how much is too much.
    assert 2 <= len(refused) <= 2 * math.log2(15 * 32)


@pytest.mark.parametrize("graded", [True, False])
def test_one_row_that_memory_does_not_hold_is_an_error(monkeypatch, graded):
    """In the search, whose passes have gradients, and in the losses."""
    asked, costs = [], Relaxed.costs

    def none(self, which, read):
        if read.requires_grad is not graded:
            return costs(self, which, read)
        asked.append(len(which))
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Relaxed, "costs", none)
    with pytest.raises(TargetError, match="^out of memory for a single text"):
        attacked(steps=1)
    assert asked == [15, 8, 4, 2, 1]


@pytest.mark.parametrize(("cells", "rows"), [(1, 1), (4 * 10 * 6, 6), (1 << 24, 15)])
def test_a_pass_of_the_search_holds_no_more_numbers_than_cells(monkeypatch, cells, rows):
    expected, asked, costs = usual(steps=3), [], Relaxed.costs

    def noted(self, which, read):
        if read.requires_grad:
            asked.append(len(which))
        return costs(self, which, read)

    monkeypatch.setattr(Relaxed, "costs", noted)
    monkeypatch.setattr("leakage_tasks.attacks.inversion.attack.CELLS", cells)
    assert [kept(found) for found in attacked(steps=3)] == [kept(found) for found in expected]
    assert max(asked) <= rows
    assert sum(asked) == 3 * 5 * len(CANARIES)


def test_it_says_once_how_much_is_done_before_the_first_canary_is(caplog):
    with caplog.at_level(logging.INFO, logger="lm_eval.leakage"):
        attacked(Mixtures(10), steps=3)
    (said,) = [record.getMessage() for record in caplog.records if "inversion" in record.getMessage()]
    assert "3 canaries × 5 restarts of 3 steps; the first 2 canaries (10 rows) run together" in said


def test_another_seed_starts_elsewhere():
    runs = [
        run_attack(
            "inversion",
            Mixtures(),
            CANARIES,
            goal="extraction",
            seed=seed,
            values={"steps": 1, "spread": 1.0, "finish": False},
        )
        for seed in (0, 1, 0)
    ]
    assert kept(runs[0][0]) == kept(runs[2][0]) != kept(runs[1][0])


def test_the_models_own_precision_comes_to_the_same():
    assert [kept(found) for found in attacked(arithmetic="model")] == [kept(found) for found in usual()]


# -- what it takes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [4, 1000])
def test_calls_count_rows_read_forward_and_those_read_back(batch):
    target = Mixtures(batch)
    found = attacked(target, restarts=3, steps=7)
    back, audit = 3 * 7 * len(CANARIES), sum(each.extra["audit_calls"] for each in found)
    assert sum(each.model_calls for each in found) == sum(target.asked) + back - audit


def test_the_budget_bounds_the_finish():
    free = attacked(steps=1, spread=1.0)
    calls = 5 * (2 * 1 + 1)
    bound = attacked(steps=1, spread=1.0, budget=calls + 60)
    assert min(each.model_calls for each in free) > calls + 60
    assert all(calls < each.model_calls <= calls + 60 for each in bound)
    assert not any(each.extra["settled"] for each in bound)


def test_a_budget_that_does_not_pay_for_the_restarts_says_what_would():
    remedies = "lower restarts or steps, raise budget to 2505, or use attack=label-search$"
    with pytest.raises(OptionError, match=f"budget=2504 .* restarts=5 of steps=250, .* 2505 sequences .*: {remedies}"):
        attacked(budget=2504)
    assert attacked(budget=2505, finish=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"restarts": 0}, "restarts=0 must be 1 or more"),
        ({"steps": 0}, "steps=0 must be 1 or more"),
        ({"alternatives": 0}, "alternatives=0 must be 1 or more"),
        ({"spread": -0.1}, "spread=-0.1 must be 0.0 or more"),
        ({"learning_rate": math.nan}, "learning_rate=nan must be a number"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be 1e-09 or more"),
        ({"start_temperature": 0.0}, "start_temperature=0.0 must be"),
        ({"cooling": 1.5}, "cooling=1.5 must be 1 or less"),
        ({"relaxation": "hard"}, "relaxation='hard' is unknown: use softmax, gumbel, straight-through, embedding"),
        ({"characters": "none"}, "characters='none' is unknown: use adaptive, published"),
        ({"arithmetic": "half"}, "arithmetic='half' is unknown: use double, model"),
        ({"beam": 3}, "attack=inversion has no option 'beam'"),
    ],
)
def test_settings_that_cannot_be_used(given, message):
    with pytest.raises(OptionError, match=message):
        attacked(**given)


def test_a_value_the_model_cannot_mix_names_the_canary():
    odd = Canary("odd", "pin {digits:2}", ("9", "9"))
    plain = Canary("plain", "pin {digits:2}", ("1", "2"))
    for canaries in ([plain, odd], [odd]):
        with pytest.raises(TargetError, match=r"^canary 'odd': a slot has a value the model does not know"):
            attacked(Mixtures(unknown="9"), canaries)


def test_numbers_that_are_none_name_the_canary(monkeypatch):
    monkeypatch.setattr(Relaxed, "costs", lambda self, which, read: read.sum((1, 2)) * math.nan)
    with pytest.raises(TargetError, match="^canary 'c3': its loss or gradient became NaN"):
        attacked(steps=1)


@pytest.mark.filterwarnings("error")
def test_starts_too_far_out_for_numbers_are_one_clear_line():
    with pytest.raises(TargetError, match="^canary 'c3': its loss .* became NaN .* spread=…"):
        attacked(steps=1, spread=1e308)


def test_a_loss_that_is_infinite_for_whole_fillings_names_the_canary(monkeypatch):
    monkeypatch.setattr(Relaxed, "costs", lambda self, which, read: read.sum((1, 2)) * 0 + math.inf)
    with pytest.raises(TargetError, match="^canary 'c3': "):
        attacked(steps=1)


def test_a_temperature_that_falls_to_nothing_still_gives_numbers():
    assert all(found.guesses for found in attacked(cooling=0.0, steps=5, arithmetic="model"))


def test_a_finding_says_it_took_gradients_and_survives_json():
    for found in usual():
        assert found.access == GRADIENTS
        assert finding_from_json(found.to_json()) == found


def test_auto_takes_it_where_the_model_is_no_text_classifier():
    assert run_attack("auto", Mixtures(), CANARIES, goal="extraction")[0].attack == "inversion"
