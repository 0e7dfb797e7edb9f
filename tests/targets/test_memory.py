"""Every engine with less memory than it would like, against itself with enough."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from transformers import AutoModelForMaskedLM, BertConfig

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import CausalTarget, ClassifierTarget, Seq2SeqTarget, TaggerTarget
from leakage_tasks.targets.classifier.generators import MaskedGenerator
from leakage_tasks.targets.masked.target import MaskedTarget
from leakage_tasks.targets.memory import ACTIVATIONS, activation_bytes, out_of_memory
from leakage_tasks.targets.pass_rows import RowLimit
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.scores import costs_after, score_suffixes
from leakage_tasks.targets.suffix.search import beam_search
from leakage_tasks.training.callback.target import live_target
from tests.encoders import SHAPE
from tests.encoders import WORDS as WHOLE_WORDS
from tests.encoders import wordpiece as mask_tokenizer
from tests.oracles import WORDS, direct_costs, letters, tiny_bert, tiny_gpt2, wordpiece
from tests.taggers import pin, tiny_tagger, words_tokenizer
from tests.targets.causal.models import limit_rows
from tests.targets.seq2seq.test_target import FILLED, FIXED, ending, tiny
from tests.targets.suffix_oracle import model_of, prefixes_of, sampler_of

CPU = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate"
KINDS: dict[str, Callable[[], BaseException]] = {
    "cuda": lambda: torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 79 GiB"
    ),
    "cpu": lambda: RuntimeError(f"{CPU} 20 bytes. Error code 12 (Cannot allocate memory)"),
    "windows": lambda: RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 20 bytes."),
    "mps": lambda: RuntimeError("MPS backend out of memory (MPS allocated: 9 GB, max allowed: 9 GB)"),
    "cuda call": lambda: RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
    "cublas": lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "numpy": MemoryError,
}
TEXTS = ["the pin is 1234.", "x", "code ab7-z and more words", "19", "the pin", "a b c d e f g", "z"]
PAIRS = [FILLED.space.fill(filling) for filling in FILLED.space.sample(5, 0)]
PIN = Canary("c", "the pin is {digits:2}.", tuple("07"))
WORD = Canary(
    "c", "the cat sat on {words} {words}", ("red", "mat"), alphabets={"words": word_list("words", WORDS)}, label="high"
)


@lru_cache
def masked() -> Any:
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(BertConfig(**SHAPE)).eval()


def scores(attack: str, target: Any, canary: Canary, **settings: Any) -> ArrayLike:
    (found,) = run_attack(attack, target, [canary], budget=200, values=settings)
    return [float(found.rank or 0), *(guess.score for guess in found.guesses)]


def scored_suffixes() -> ArrayLike:
    found = score_suffixes(sampler_of(), prefixes_of(9, 6), prefixes_of(9, 7, seed=1), DecodingConfig())
    return [one.own for one in found]


def proposed() -> ArrayLike:
    values = {"words": word_list("words", WHOLE_WORDS)}
    space = parse_template("the {words} is {words}", values)
    heads = [(word,) for word in WHOLE_WORDS]
    return [made.costs for made in MaskedGenerator(MaskedTarget(masked(), mask_tokenizer())).propose(space, heads, 1)]


def pseudo() -> ArrayLike:
    model = MaskedTarget(masked(), mask_tokenizer())
    queries = [query for text in ("the river is green.", "stone") for query in model.pieces(text)]
    return [value for value, _ in model.pseudo_log_likelihoods(queries)]


def classified() -> ArrayLike:
    target = ClassifierTarget(tiny_bert(), wordpiece())
    return target.label_costs(target.encode(["the cat sat on mat", "red", "dog", "tree", "the cat is red"]))


def searched(cached: bool = True) -> ArrayLike:
    return scores("shortest-path", CausalTarget(tiny_gpt2(letters()), letters(), cached=cached), PIN, stopping="proven")


def watched() -> ArrayLike:
    return scores("exposure", live_target(tiny_gpt2(letters()), letters()), PIN)


def drawn() -> ArrayLike:
    uniforms = np.random.default_rng(0).random((3, 6, 3))
    return [
        found.own.sum(1)[found.of_draw]
        for found in draw_suffixes(sampler_of(), prefixes_of(3, 6), uniforms, DecodingConfig())
    ]


def translations() -> Seq2SeqTarget:
    return Seq2SeqTarget(tiny("bart"), ending())


def labelled(attack: str, **settings: Any) -> ArrayLike:
    return scores(attack, ClassifierTarget(tiny_bert(), wordpiece()), WORD, **settings)


ENGINES: dict[str, tuple[Callable[[], Any], Callable[[], ArrayLike]]] = {
    "whole texts": (
        lambda: tiny_gpt2(letters()),
        lambda: CausalTarget(tiny_gpt2(letters()), letters()).log_perplexity(TEXTS),
    ),
    "search": (lambda: tiny_gpt2(letters()), searched),
    "search without a cache": (lambda: tiny_gpt2(letters()), lambda: searched(cached=False)),
    "training callback": (lambda: tiny_gpt2(letters()), watched),
    "translations": (lambda: tiny("bart"), lambda: translations().given(FIXED).log_perplexity(TEXTS)),
    "search of translations": (
        lambda: tiny("bart"),
        lambda: scores("shortest-path", translations(), FIXED, stopping="proven"),
    ),
    "pairs": (lambda: tiny("bart"), lambda: translations().given(FILLED).log_perplexity(PAIRS)),
    "masked": (masked, proposed),
    "pseudo-log-likelihood": (masked, pseudo),
    "classifier": (tiny_bert, classified),
    "shortlist": (tiny_bert, lambda: labelled("label-search", shortlist=5, beam=5)),
    "inversion": (tiny_bert, lambda: labelled("inversion", steps=2, restarts=5)),
    "draws": (lambda: model_of("gpt2"), drawn),
    "beams": (lambda: model_of("gpt2"), lambda: [d.own for d in beam_search(sampler_of(), prefixes_of(5, 6), 4, 2)]),
    "suffixes": (lambda: model_of("gpt2"), scored_suffixes),
    "continuations": (
        lambda: model_of("gpt2"),
        lambda: np.concatenate(costs_after(sampler_of(), [[5, 6, 7]] * 9, prefixes_of(9, 4))),
    ),
}


@contextmanager
def scarce(model: Any, most: int, error: Callable[[], BaseException]) -> Iterator[list[int]]:
    """Let ``model`` fail over more than ``most`` rows; yields how many rows it failed over."""
    refused: list[int] = []

    def check(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = [
            named[name] for name in ("decoder_input_ids", "input_ids", "inputs_embeds") if named.get(name) is not None
        ]
        rows = len((given or list(inputs))[0])
        if rows > most:
            refused.append(rows)
            raise error()

    hook = model.register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield refused
    finally:
        hook.remove()


@pytest.mark.parametrize(("engine", "kind"), zip(ENGINES, itertools.cycle(["cuda", "cpu"])))
def test_fewer_rows_at_once_come_to_the_same(engine: str, kind: str) -> None:
    make, figures = ENGINES[engine]
    expected = np.asarray(figures())
    with scarce(make(), 2, KINDS[kind]) as refused:
        found = np.asarray(figures())
    assert refused
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_where_one_text_is_too_much_one_line_says_what_to_do(engine: str) -> None:
    make, figures = ENGINES[engine]
    with scarce(make(), 0, KINDS["cpu"]), pytest.raises(TargetError) as caught:
        figures()
    words = str(caught.value)
    assert "out of memory for a single text ([enforce fail" in words or "pass fewer beams=" in words
    assert "dtype=bfloat16" in words
    assert "\n" not in words


def test_a_tagger_survives_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TaggerTarget(tiny_tagger(False), words_tokenizer())
    view, rows = target.tagged(pin("1", "2")), target.encode(["my pin code is 1 2", "call", "green 7", "call 0"])
    expected, whole = target.label_costs(rows), view.label_costs(target.encode([pin("1", "2").text] * 3))
    refused = limit_rows(monkeypatch, target.model, "read", 1, place=0)
    assert target.label_costs(rows) == pytest.approx(expected, abs=1e-6)
    assert refused
    target.limit.most = 100
    assert view.label_costs(target.encode([pin("1", "2").text] * 3)) == pytest.approx(whole, abs=1e-6)


def test_the_figures_are_those_of_plain_transformers() -> None:
    model = tiny_gpt2(letters())
    with scarce(model, 2, KINDS["cpu"]):
        found = CausalTarget(model, letters()).log_perplexity(TEXTS)
    assert found == pytest.approx(direct_costs(model, letters(), TEXTS), abs=1e-4)


def test_the_size_that_fits_is_remembered() -> None:
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with scarce(tiny_gpt2(letters()), 2, KINDS["cpu"]) as refused:
        target.log_perplexity(TEXTS)
        once = list(refused)
        target.log_perplexity(TEXTS)
    assert once == refused == [7, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_what_says_that_memory_ran_out(kind: str) -> None:
    assert out_of_memory(KINDS[kind]())


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), RuntimeError(), ValueError("out of memory")])
def test_what_says_something_else(error: Exception) -> None:
    assert not out_of_memory(error)
    with pytest.raises(type(error)), RowLimit().halving(4):
        raise error


def test_torch_really_says_so_on_a_cpu() -> None:
    limit = RowLimit()
    sizes = limit.parts(9, lambda part: torch.empty((10**14 if part.stop - part.start > 3 else 1,)).numel())
    assert sizes == [1, 1, 1]
    assert limit.most == 3


def test_what_the_failed_call_held_is_given_back() -> None:
    held: list[Any] = []

    class Large:
        """Something a call works with."""

    def ask(part: slice) -> int:
        import weakref

        large = Large()
        held.append(weakref.ref(large))
        alive = [each() for each in held[:-1]]
        assert alive == [None] * len(alive)
        if part.stop - part.start > 1:
            raise MemoryError
        return part.start

    assert RowLimit().parts(4, ask) == [0, 1, 2, 3]


def test_a_model_whose_layers_differ_in_width_takes_what_the_widest_does() -> None:
    same, other = (SimpleNamespace(num_attention_heads=2, intermediate_size=size) for size in (64, [32, 64]))
    assert activation_bytes(other, 10) == activation_bytes(same, 10) == ACTIVATIONS * (2 * 10 + 64)
