"""Steps after different source sentences in one pass, each against plain `transformers` on the whole pair."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.log import log
from leakage_tasks.planning.meter import metered
from leakage_tasks.research.victims.translation import TranslationRecipe, train_translator
from leakage_tasks.targets import Seq2SeqTarget
from leakage_tasks.targets.causal.requests import Start, Step, Texts, extend_all, score_all, start_all
from leakage_tasks.targets.tokens.trie import TriePaths
from tests.targets.seq2seq.test_languages import told
from tests.targets.seq2seq.test_target import FAMILIES, ending, tiny
from tests.translators import opening_of, tokenizer_of

SOURCES = ("my pin is x", "a", "so my very long pin is here", "my pin is x", "pin of b")
BEFORE = ("the pin is ", "the pin is ", "a", "x pin ", "a")
ROWS = (11, 3, 1, 9, 2)
UNEVEN = (1, 4, 2, 3, 3)
KINDS = (*FAMILIES, "nllb")


@cache
def translator(kind: str) -> tuple[Any, Any, list[int]]:
    """A model, its tokenizer and what its decoder begins with."""
    if kind in FAMILIES:
        return tiny(kind), ending(), [1]
    return told(kind), tokenizer_of(kind), list(opening_of(kind))


def target_of(kind: str, **settings: Any) -> Seq2SeqTarget:
    """A target that pads however much, as on a GPU."""
    model, tokenizer, _ = translator(kind)
    target = Seq2SeqTarget(model, tokenizer, **settings)
    target.most_padding = math.inf
    return target


def stepped(family: Seq2SeqTarget, depths: Sequence[int]) -> tuple[list[Any], list[list[list[int]]]]:
    """Costs of what may follow random texts, and the texts: after source i ``depths[i]`` tokens longer than BEFORE."""
    random, columns = np.random.default_rng(0), np.arange(family.model.config.vocab_size)
    views = [family.after(source) for source in SOURCES]
    begun = [family.encode([text])[0] for text in BEFORE]
    states, costs = [], []
    texts = [[row] * count for row, count in zip(begun, ROWS, strict=True)]
    read = start_all(
        [Start(view, view._with_prefix_token(row), columns) for view, row in zip(views, begun, strict=True)]
    )
    for place in range(len(SOURCES)):
        states.append(read[place][0])
        costs.append(np.repeat(read[place][2], ROWS[place], axis=0))
    for depth in range(max(depths)):
        going = [place for place, most in enumerate(depths) if depth < most]
        steps = []
        for place in going:
            tokens = random.integers(5, 12, ROWS[place])
            zero = np.zeros(ROWS[place], dtype=np.int64)
            texts[place] = [[*text, int(token)] for text, token in zip(texts[place], tokens, strict=True)]
            rows = zero if depth == 0 else np.arange(ROWS[place])
            steps.append(Step.of_one(views[place], states[place][rows], tokens, columns))
        for place, (state, found) in zip(going, extend_all(steps), strict=True):
            states[place], costs[place] = state, found[:, 0]
    return costs, texts


def direct(kind: str, source: str, texts: Sequence[list[int]]) -> Any:
    """Bits of each next token by plain forward passes, one pair at a time, nothing padded and nothing kept."""
    return torch.cat([direct_costs(kind, source, tuple(text)) for text in texts]).numpy()


@cache
def direct_costs(kind: str, source: str, text: tuple[int, ...]) -> torch.Tensor:
    model, tokenizer, opening = translator(kind)
    read = torch.tensor([tokenizer(source)["input_ids"]])
    with torch.no_grad():
        logits = model(input_ids=read, decoder_input_ids=torch.tensor([[*opening, *text]])).logits[:, -1]
    return logits.double().log_softmax(-1) / -np.log(2)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("depths", [(0,) * 5, UNEVEN])
@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_pass_is_each_pair_by_itself(kind: str, depths: Sequence[int], cached: bool) -> None:
    costs, texts = stepped(target_of(kind, cached=cached), depths)
    for found, source, own in zip(costs, SOURCES, texts, strict=True):
        assert np.abs(found - direct(kind, source, own)).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_different_sources_and_lengths_are_one_pass(kind: str) -> None:
    family = target_of(kind)
    stepped(family, UNEVEN)  # what is found out once
    with metered([family.model]) as count:
        stepped(family, UNEVEN)
    assert count.passes == 1 + max(UNEVEN)
    assert count.rows == len(SOURCES) + sum(rows * depth for rows, depth in zip(ROWS, UNEVEN, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_whole_texts_asked_about_together_keep_the_costs_after_their_own_sources(kind: str) -> None:
    family = target_of(kind)
    views = [family.after(source) for source in SOURCES]
    rows = [view.token_rows([before, f"{before}b"]) for view, before in zip(views, BEFORE, strict=True)]
    found = score_all([Texts(view, own) for view, own in zip(views, rows, strict=True)])
    alone = [view.row_costs(own) for view, own in zip(views, rows, strict=True)]
    assert np.abs(np.subtract(found, alone)).max() < 1e-4
    assert len(np.unique(np.round(alone, 3))) > len(SOURCES)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_what_a_source_came_to_goes_with_the_searches_after_it(kind: str) -> None:
    family = target_of(kind)
    stepped(family, UNEVEN)
    assert not family.decoder._sources


def _wrong_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.targets.seq2seq.decoder.mask_of", lambda sources, device: None)


def _wrong_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.targets.seq2seq.positions.NAME", "no such table")


@pytest.mark.parametrize("wrong", [_wrong_masks, _wrong_positions])
def test_a_model_that_reads_padding_is_asked_about_each_source_alone(
    wrong: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong(monkeypatch)
    caplog.set_level(logging.DEBUG, logger=log.name)
    costs, texts = stepped(target_of("bart"), UNEVEN)
    assert "pass is off by" in caplog.text
    for found, source, own in zip(costs, SOURCES, texts, strict=True):
        assert np.abs(found - direct("bart", source, own)).max() < 1e-4


def canaries(number: int) -> list[Canary]:
    """Canaries with sources and beginnings of several lengths."""
    return [
        Canary(f"c{n}", f"{'the very'[: 2 * n]} pin {{digits:2}}.", (str(n), "7"), source=f"{'ab ' * n}x")
        for n in range(number)
    ]


@pytest.mark.parametrize("attack", ["exposure", "shortest-path"])
@pytest.mark.parametrize("kind", ["t5", "marian"])
def test_company_changes_no_figure_and_shares_passes(kind: str, attack: str) -> None:
    goal: Any = "extraction" if attack == "shortest-path" else "exposure"
    several = canaries(4)

    def attacked(family: Seq2SeqTarget, group: Sequence[Canary]) -> tuple[list[Any], int]:
        with metered([family.model]) as count:
            return run_attack(attack, family, group, goal=goal), count.passes

    family = target_of(kind)
    attacked(family, several)
    met, passes = attacked(family, several)
    alone = [attacked(family, [each]) for each in several]
    assert passes <= max(own for _, own in alone) + len({len(each.template) for each in several})
    for one, ((other,), _) in zip(met, alone, strict=True):
        assert dataclasses.replace(one, seconds=0, guesses=()) == dataclasses.replace(
            other, seconds=0, guesses=(), log_perplexity=one.log_perplexity
        )
        assert one.log_perplexity == pytest.approx(other.log_perplexity, abs=1e-4)
        assert [guess.filling for guess in one.guesses] == [guess.filling for guess in other.guesses]


@pytest.mark.slow
def test_the_studies_translator_is_searched_after_several_sources_at_once() -> None:
    several = canaries(3)
    pairs = [(each.source or "", each.text) for each in several] * 2
    recipe = TranslationRecipe(layers=1, hidden=16, heads=2, positions=32, dropout=0.0, epochs=30, batch_size=2)
    trained = train_translator(pairs, recipe)
    family = Seq2SeqTarget(trained.model, trained.tokenizer)
    for found, canary in zip(run_attack("exposure", family, several), several, strict=True):
        read = trained.tokenizer(canary.source, return_tensors="pt")["input_ids"]
        costs = []
        for filling in canary.space.enumerate():
            labels = trained.tokenizer(
                text_target=canary.space.fill(filling), add_special_tokens=False, return_tensors="pt"
            )["input_ids"]
            with torch.no_grad():
                logits = trained.model(input_ids=read, labels=labels).logits.double().log_softmax(-1)
            costs.append(-float(logits.gather(-1, labels[..., None]).sum()) / np.log(2))
        own = costs[canary.space.index(canary.secret)]
        assert found.log_perplexity == pytest.approx(own, abs=1e-4)
        assert found.rank == sum(cost <= own + 1e-4 for cost in costs)


def test_a_space_is_enumerated_once_for_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    family, space = target_of("t5"), make_canaries("pin {letters:2}.", 1, controls=0)[0].attack_space
    enumerated, build = [], TriePaths._build
    monkeypatch.setattr(TriePaths, "_build", lambda trie, *rows: enumerated.append(rows) or build(trie, *rows))
    first, *others = [family.after(source).paths(space) for source in SOURCES]
    assert len(enumerated) == 1
    assert all(paths.graph is first.graph for paths in others)
