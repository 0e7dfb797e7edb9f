"""``--model masked-lm --model_args pretrained=MODEL``: a masked language model as a harness model.

A text costs its pseudo-log-perplexity: each token masked in turn, all others known (Salazar et al. 2020). It is no
probability of the text, so what needs one, or text written, is declined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from tqdm import tqdm

from adapters.base import Answer, LocalLM
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import texts_at_once
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.masked.loading import load_masked
from leakage_tasks.targets.masked.model import MaskedModel
from leakage_tasks.targets.masked.rows import Query
from leakage_tasks.targets.masked.target import MaskedTarget

TOGETHER = 4096
"""Masked copies of texts put together before the model reads them, so that short texts share batches."""


class MaskedLM(LocalLM):
    """Any masked language model of `transformers`; ``masked`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.masked.loading.load_masked`, ``batch_size`` and ``device`` as
    :class:`~adapters.base.LocalLM` does. Raises OptionError and TargetError.
    """

    def __init__(
        self,
        pretrained: Any,
        tokenizer: Any = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        dtype: str | torch.dtype = "auto",
        max_length: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(pretrained, revision, batch_size, device)
        self.masked = load_masked(
            pretrained,
            tokenizer=tokenizer,
            revision=revision,
            trust_remote_code=trust_remote_code,
            dtype=dtype,
            max_length=max_length,
            device=self._device,
            batch_size=texts_at_once(batch_size),
            max_batch_size=max_batch_size,
        )

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """For each ``(context, continuation)`` the continuation's pseudo-log-likelihood in nats, and if it is greedy.

        See :func:`pseudo_log_likelihoods`. Raises TargetError for texts that together are longer than the model reads.
        """
        queries = [self.masked.continuation(*request.args) for request in requests]
        answers = pseudo_log_likelihoods(self.masked, queries, disable_tqdm or self.rank != 0)
        return self._remembered("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """Raises TargetError: bits per byte and perplexities are of probabilities, which a text does not have here."""
        raise TargetError(
            f"{type(self).__name__} gives running text no probability, and pseudo-likelihoods would stand in the table "
            "as if they were: leave out heldout_bits_per_byte and other perplexities, and take multiple-choice tasks"
        )

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Raises TargetError: a masked language model writes no text."""
        raise TargetError(f"{type(self).__name__} writes no text, it fills masks: leave out tasks that generate")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Raises TargetError: a masked language model has no chat template."""
        raise TargetError(f"{type(self).__name__} has no chat template: run it without --apply_chat_template")

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.masked.tokenizer

    @property
    def max_length(self) -> int | None:
        """Tokens the model can read, special ones included; None where it does not say."""
        return self.masked.max_length

    def get_model_info(self) -> dict[str, Any]:
        """What a results file should say about the model; no network is asked."""
        return self._described(self.masked.model)


def pseudo_log_likelihoods(masked: MaskedModel, queries: Sequence[Query], quiet: bool) -> list[Answer]:
    """For each query the sum of its tokens' log-probabilities in nats, and if each is the likeliest in its place.

    Each token has a mask in its place, all others of both texts are known (Salazar et al. 2020).
    """
    answers: list[Answer] = []
    with tqdm(total=len(queries), desc="Filling masks", disable=quiet) as bar:
        for group in _groups(queries):
            answers += masked.pseudo_log_likelihoods(group)
            bar.update(len(group))
    return answers


def _groups(queries: Sequence[Query]) -> Iterator[Sequence[Query]]:
    """The queries in groups that together ask about enough tokens for a few batches."""
    first, total = 0, 0
    for number, (_, places) in enumerate(queries, 1):
        total += len(places)
        if total >= TOGETHER or number == len(queries):
            yield queries[first:number]
            first, total = number, 0


@as_target.register
def _(lm: MaskedLM, texts: Sequence[str] = (), private: bool = False) -> MaskedTarget:
    return lm.masked
