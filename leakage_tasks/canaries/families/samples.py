"""Sentences sampled from a causal language model at a high temperature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.canaries.families.corpus import FEWEST_WORDS, MOST_WORDS, Sentence
from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.loading import load_causal

PROMPT_WORDS = 3
"""Number of words at the beginning of a sentence that are the prompt of a sample; they set its topic."""
NEW_TOKENS = 48
BATCH = 16
ROUNDS = 8
"""Maximum number of samples per prompt, if samples are too short."""


def sampled_sentences(model: str, texts: Sequence[str], temperature: float, unknown: int, seed: int) -> list[Sentence]:
    """Return a sampled sentence for each of ``texts``; all contexts are distinct.

    A text's first words are the prompt, which is not part of the sentence. Samples come from the whole distribution (no
    top-k, no nucleus sampling).

    Args:
        model: The folder or hub name of a causal language model.
        texts: The texts whose first words are the prompts.
        temperature: The sampling temperature.
        unknown: The number of last words to separate from each sentence.
        seed: The seed of the draws.

    Raises:
        TargetError: If the model cannot be loaded.
        OptionError: If the model writes too few words.
    """
    prompts = [" ".join(text.split(" ")[:PROMPT_WORDS]) for text in texts]
    sampled: dict[int, Sentence] = {}
    taken: set[str] = set()
    written = _Writer(model, temperature)
    for number in range(ROUNDS):
        left = [index for index in range(len(prompts)) if index not in sampled]
        texts_now = written.after([prompts[index] for index in left], seed + number)
        for index, text in zip(left, texts_now, strict=True):
            sentence = _sentence(text, unknown)
            if sentence is not None and sentence.context not in taken:
                sampled[index] = sentence
                taken.add(sentence.context)
        if len(sampled) == len(prompts):
            return [sampled[index] for index in range(len(prompts))]
    raise OptionError(
        f"--model {model}: of {len(prompts)} prompts {len(prompts) - len(sampled)} were not followed by "
        f"{FEWEST_WORDS + unknown} words, {ROUNDS} times each: give another model, or another --temperature"
    )


def _sentence(text: str, unknown: int) -> Sentence | None:
    """Return the sentence made of the text's first words, or None if the text has too few words."""
    words = [word for word in text.split() if word.isprintable()][: MOST_WORDS + unknown]
    if len(words) < FEWEST_WORDS + unknown:
        return None
    return Sentence(" ".join(words[:-unknown]), tuple(words[-unknown:]), "")


class _Writer:
    """A model that continues prompts in batches."""

    def __init__(self, model: str, temperature: float) -> None:
        self.tokenizer: Any = load_tokenizer(model)
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token or self.tokenizer.convert_ids_to_tokens(0)
        self.model = load_causal(model)
        self.temperature = temperature

    def after(self, prompts: Sequence[str], seed: int) -> Iterator[str]:
        """Yield the model's continuation of each prompt, determined by seed, model and machine."""
        import torch

        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            for first in range(0, len(prompts), BATCH):
                read = self.tokenizer(list(prompts[first : first + BATCH]), return_tensors="pt", padding=True)
                read = {name: read[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
                written = self.model.generate(
                    **read,
                    do_sample=True,
                    temperature=self.temperature,
                    top_k=0,
                    top_p=1.0,
                    max_new_tokens=NEW_TOKENS,
                    pad_token_id=self.tokenizer.pad_token_id,
                )
                yield from self.tokenizer.batch_decode(
                    written[:, read["input_ids"].shape[1] :], skip_special_tokens=True
                )
