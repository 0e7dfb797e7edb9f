"""A model during its training as a target for attacks, with its state restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel

from leakage_tasks.canaries import Canary, manifest_hash, read_manifest
from leakage_tasks.canaries.chat import Chat, template_of
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.sidecar import planted_prompt, planted_role
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import USER_TURN
from leakage_tasks.targets import CausalTarget
from leakage_tasks.training.rows import evaluating
from leakage_tasks.training.sharding import check_whole

_ONE_ROLE = "pass chat=False to ExposureCallback to watch them as plain text, or move the records of other roles away"


def live_target(model: Any, processing: Any) -> CausalTarget:
    """Return the model that a ``Trainer`` trains as a target. ``processing`` is its tokenizer or processor.

    Wrappers of data parallelism and compilation are removed; PEFT adapters and mixed precision stay. Raises TargetError
    if the model is sharded or not a causal language model, or if the tokenizer is missing or belongs to another model.
    """
    check_whole(model)
    bare = extract_model_from_parallel(model, keep_torch_compile=False)
    _check_causal(bare)
    tokenizer = getattr(processing, "tokenizer", processing)
    if tokenizer is None:
        raise TargetError(
            "ExposureCallback: the trainer has no tokenizer: pass Trainer(processing_class=…), or tokenizer=… to the "
            "callback"
        )
    if not callable(tokenizer):
        raise TargetError(f"ExposureCallback: tokenizer is {tokenizer!r}: pass a tokenizer, not its name")
    vocabulary = int(bare.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > vocabulary:
        raise TargetError(
            f"ExposureCallback: the tokenizer has {len(tokenizer)} tokens, the model {vocabulary}: pass the tokenizer "
            "of the training text as tokenizer=…"
        )
    return CausalTarget(bare, tokenizer)


def in_chat(
    manifest: str | Path, canaries: Sequence[Canary], tokenizer: Any, context: Context, wanted: bool | None
) -> tuple[Context, list[Canary]]:
    """Return the context of the canaries, and the canaries, as turns of a chat or as plain text.

    Args:
        manifest: The path of the manifest; records of planting are next to it.
        canaries: The canaries to watch.
        tokenizer: The tokenizer of the training.
        context: The configured context. For plain text, ``auto`` is the prompt in the record of planting.
        wanted: True for turns of a chat, False for plain text. With None canaries are turns of a chat if the record of
            planting says so and the tokenizer has a chat template.

    Returns:
        The context and the canaries, whose text may have changed for the chat template.

    Raises:
        TargetError: ``wanted`` is true and the tokenizer has no template, or its template changes the canaries.
    """
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if wanted and not has_template:
        raise TargetError(
            "ExposureCallback: chat=True, but the tokenizer has no chat template: leave out chat, or pass the "
            "tokenizer of the training text as tokenizer=…"
        )
    planted = (Path(manifest), manifest_hash(read_manifest(manifest)))
    # Look up the role only if it is used, since records with several roles are an error.
    role = planted_role(*planted, remedy=_ONE_ROLE) if has_template and wanted is not False else None
    if wanted is False or not has_template or (role is None and not wanted):
        prompt = planted_prompt(*planted, in_chats=False)
        return Context(before=prompt) if prompt and context.is_auto else context, list(canaries)
    try:
        chat = Chat(role or "assistant", prompt=planted_prompt(*planted, in_chats=True) or USER_TURN)
        return chat.around(template_of(tokenizer), canaries, context)
    except TargetError as error:
        raise TargetError(f"ExposureCallback: {error}; chat=False watches them as plain text") from None


def _check_causal(model: Any) -> None:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    seq2seq = getattr(getattr(base, "config", None), "is_encoder_decoder", False)
    writes = getattr(base, "can_generate", None)
    if seq2seq or writes is None or not writes():
        kind = "an encoder-decoder model" if seq2seq else "not a causal language model of transformers"
        raise TargetError(
            f"ExposureCallback: {type(base).__name__} is {kind}; only causal language models are supported: remove the "
            "callback, and run lm_eval on the trained model"
        )


@contextmanager
def preserved_training_state(model: Any) -> Iterator[None]:
    """Put the model into evaluation mode inside the block. Restore modes, random states and GPU memory afterwards."""
    devices = sorted({weight.device.index for weight in model.parameters() if weight.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), evaluating(model):
        try:
            yield
        finally:
            if devices:
                # The allocator would keep blocks in the sizes of the search, which would fragment training's memory.
                torch.cuda.empty_cache()
