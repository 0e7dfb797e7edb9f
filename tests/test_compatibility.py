"""A few cells of the compatibility table, and how their verdicts come about; ``make compat`` runs all of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.compatibility import comparing, table
from benchmarks.compatibility.architectures import CAUSAL
from benchmarks.compatibility.cells import AGREES, DECLINED, FAILS, SLOW, Cell, Outcome, cells, run
from benchmarks.compatibility.models import build
from benchmarks.compatibility.tokenizers import TOKENIZERS, tokenizer
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal import target as causal

THINNED = [
    Cell("causal", "llama", "byte fallback"),
    Cell("causal", "gpt2", "digits merged"),
    Cell("causal", "qwen3", "single digits"),
    Cell("causal", "gemma2", "Gemma"),
    Cell("causal", "mamba", "adds BOS"),
    Cell("causal", "gpt_neox", "ends of words"),
    Cell("encoder", "bert", "WordPiece"),
    Cell("encoder", "roberta", "NFKC, lowercase"),
    Cell("encoder", "modernbert", "no BOS, no EOS"),
    Cell("encoder", "canine", "characters"),
    Cell("encoder-decoder", "t5", "Unigram"),
    Cell("encoder-decoder", "t5gemma", "Gemma"),
    Cell("encoder-decoder", "bart", "adds EOS"),
]
LLAMA = Cell("causal", "llama", "characters")


def unchecked(lm, cached=True):
    return causal.CausalTarget(lm.model, lm.tokenizer, prefix_token=lm.prefix_token_id, cached=cached)


@pytest.mark.parametrize("cell", THINNED, ids=lambda cell: cell.name)
def test_the_attacks_agree_on_the_fast_path(cell):
    assert run(cell).verdict == AGREES


def test_a_causal_model_with_neither_bos_nor_eos_is_declined_with_a_remedy():
    found = run(Cell("causal", "gpt_neo", "no BOS, no EOS"))
    assert found.verdict == DECLINED
    assert "prefix_token_id=" in found.words


def test_every_architecture_meets_three_tokenizers_and_every_tokenizer_five_architectures():
    found = cells()
    assert len(set(found)) == len({cell.name for cell in found}) == len(found)
    each = Counter((cell.family, cell.architecture) for cell in found)
    assert min(each.values()) >= 3
    families = Counter(family for family, _ in each)
    assert families["causal"] >= 30
    assert families["encoder"] >= 12
    assert families["encoder-decoder"] >= 8
    met = Counter(cell.tokenizer for cell in found)
    assert set(met) == set(TOKENIZERS)
    assert min(met.values()) >= 5


def test_a_wrong_cost_fails_the_cell(monkeypatch):
    extend = causal.CausalTarget.extend

    def dearer(self, *arguments):
        state, costs = extend(self, *arguments)
        return state, costs + 0.01

    # The harness' check of the fast path would notice as well.
    monkeypatch.setattr(comparing, "as_target", unchecked)
    monkeypatch.setattr(causal.CausalTarget, "extend", dearer)
    found = run(LLAMA)
    assert found.verdict == FAILS
    assert "costs differ by" in found.words


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("exposure", lambda found: replace(found, rank=found.rank + 1), "rank"),
        ("shortest-path", lambda found: replace(found, guesses=found.guesses[1:]), "9 guesses"),
        ("shortest-path", lambda found: replace(found, guesses=(*found.guesses[1:], found.guesses[-1])), "not the ten"),
    ],
)
def test_a_wrong_rank_or_wrong_guesses_fail_the_cell(name, change, said, monkeypatch):
    ran = comparing.run_attack

    def changed(attack, *arguments, **options):
        return [change(each) if attack == name else each for each in ran(attack, *arguments, **options)]

    monkeypatch.setattr(comparing, "run_attack", changed)
    found = run(LLAMA)
    assert found.verdict == FAILS
    assert said in found.words


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (TargetError("the model reads nothing: use another one"), DECLINED),
        (TargetError("the model reads nothing"), FAILS),
        (ValueError("the model reads nothing: use another one"), FAILS),
        (TypeError("a sequence: expected"), FAILS),
    ],
)
def test_only_an_error_of_ours_in_one_line_with_a_remedy_declines_a_cell(error, verdict, monkeypatch):
    def refuse(lm):
        raise error

    monkeypatch.setattr(comparing, "as_target", refuse)
    assert run(LLAMA).verdict == verdict


def test_a_slower_path_must_be_taken_aloud(monkeypatch):
    def forget(self, out):
        raise TargetError("no cache: do without")

    monkeypatch.setattr(causal.CausalTarget, "_cache_of", forget)
    found = run(LLAMA)
    assert found.verdict == SLOW
    assert "no cache" in found.words
    monkeypatch.setattr(comparing, "as_target", lambda lm: unchecked(lm, cached=False))
    assert run(LLAMA).verdict == FAILS


def outcomes(fast, slow, failing=0):
    verdicts = [AGREES] * fast + [SLOW] * slow + [FAILS] * failing
    return [Outcome("causal", f"model {n}", "characters", verdict) for n, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("fast", "slow", "failing", "good"), [(20, 0, 0, True), (17, 3, 0, True), (16, 4, 0, False), (19, 0, 1, False)]
)
def test_a_failure_or_too_little_on_the_fast_path_is_not_good_enough(fast, slow, failing, good):
    assert table.good_enough(outcomes(fast, slow, failing)) is good


def test_the_page_says_what_was_said_of_cells_once():
    found = [Outcome("causal", name, "Gemma", DECLINED, "too a|b: do that") for name in ("one", "two")]
    page = table.page(found, {"torch": "2"})
    assert "- one, two with Gemma: `too a|b: do that`" in page
    assert "2 cells: 0 agree, 0 agree on a slower path, 2 declined with a remedy, 0 fail; 0.0% on the fast path" in page


def test_the_page_says_what_a_second_engine_found():
    equal = {"canaries": 5, "guesses_equal": True, "ranks_equal": True, "cost_bits_apart": 1.5e-5}
    page = table.page(
        outcomes(1, 0),
        {"torch": "2"},
        {"agree": False, "auto_gguf": equal, "text_gguf": {**equal, "ranks_equal": False}},
    )
    assert "| auto, gguf | 5 | equal | equal | 2e-05 |" in page
    assert "| text, gguf | 5 | equal | DIFFER | 2e-05 |" in page


def test_models_are_the_same_each_time():
    made = tokenizer("characters")
    first, second = (build("causal", CAUSAL[0], made).state_dict() for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
