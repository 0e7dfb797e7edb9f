"""Samples at a high temperature: as drawn from the model's own distribution, seeded, and long enough."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from leakage_tasks.canaries.families import FamilyRequest, family_canaries
from leakage_tasks.canaries.families.samples import NEW_TOKENS, sampled_sentences
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.data import Columns

WORDS = [first + last for first in "bdfgklmnprst" for last in ("a", "e", "i", "o", "u", "an")]
PROMPTS = [f"{first} {second} {third} ba" for first in WORDS[:5] for second in WORDS[:4] for third in WORDS[:3]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of whole words, never trained."""
    folder = str(tmp_path_factory.mktemp("writer"))
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(["<pad>", *WORDS])}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<pad>").save_pretrained(folder)
    set_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(**sizes, vocab_size=len(WORDS) + 1, initializer_range=1.0, eos_token_id=None, pad_token_id=0)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def first_words(model: str, temperature: float) -> Counter[str]:
    found = [sampled_sentences(model, PROMPTS, temperature, 1, seed) for seed in range(8)]
    return Counter(each.context.split()[0] for sentences in found for each in sentences)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.8, 3.0])
def test_words_come_as_often_as_the_model_s_probabilities_at_the_temperature(model: str, temperature: float) -> None:
    read, tokenizer = LlamaForCausalLM.from_pretrained(model), PreTrainedTokenizerFast.from_pretrained(model)
    with torch.no_grad():
        logits = [
            read(**tokenizer(" ".join(each.split()[:3]), return_tensors="pt", return_token_type_ids=False)).logits[
                0, -1
            ]
            for each in PROMPTS
        ]
    expected = torch.stack([(each / temperature).softmax(0) for each in logits]).mean(0)[1:]
    counts = first_words(model, temperature)
    number = sum(counts.values())
    # The rare ones in one cell: the test takes five of each.
    common = [place for place, share in enumerate(expected) if share * number >= 5]
    seen = [counts[WORDS[place]] for place in common]
    told = [float(expected[place] / expected.sum()) * number for place in common]
    rest_seen, rest_told = number - sum(seen), number - sum(told)
    assert stats.chisquare([*seen, rest_seen], [*told, rest_told]).pvalue > 1e-3


def test_the_same_seed_writes_the_same(model: str) -> None:
    one, same, other = (sampled_sentences(model, PROMPTS[:20], 1.0, 2, seed) for seed in (1, 1, 2))
    assert one == same != other


def test_the_run_s_own_random_stream_is_left_as_it_was(model: str) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    sampled_sentences(model, PROMPTS[:5], 1.0, 2, 1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_samples_are_what_was_written_without_the_prompt(model: str) -> None:
    for each in sampled_sentences(model, PROMPTS[:20], 1.0, 2, 1):
        assert len(each.words) == 2
        assert len(each.context.split()) <= NEW_TOKENS - 2


def test_canaries_end_in_words_that_were_written(model: str, tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    path.write_text("".join(f"{each} {last}.\n" for each in PROMPTS for last in ("na", "so")))
    request = FamilyRequest(path, Columns(), 4, (1,), 6, model=model, unknown=1, seed=1)
    found = family_canaries(["high-temperature"], request)
    assert len({each.space.size for each in found}) == 1
    assert found == family_canaries(["high-temperature"], request)
    assert {value for each in found for value in each.space.slots[0].values} <= set(WORDS)
    assert found != family_canaries(["high-temperature"], replace(request, temperature=5.0))


def test_a_model_that_writes_too_little_is_one_line(model: str) -> None:
    with pytest.raises(OptionError, match=r"--model .*: of 3 prompts 3 were not followed by 103 words"):
        sampled_sentences(model, PROMPTS[:3], 1.0, 100, 1)


def test_a_model_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="cannot be loaded"):
        sampled_sentences(str(tmp_path / "none"), PROMPTS[:3], 1.0, 1, 1)
