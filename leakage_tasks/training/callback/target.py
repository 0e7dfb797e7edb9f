"""A model in the middle of its training as a target, and leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor

from leakage_tasks.canaries import Canary, manifest_hash, read_manifest
from leakage_tasks.canaries.chat import Chat, template_of
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.sidecar import planted_prompt, planted_role
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import USER_TURN
from leakage_tasks.targets import CausalTarget
from leakage_tasks.training.rows import evaluating

_ONE_ROLE = "give ExposureCallback chat=False to watch them as plain text, or move the records of other roles away"


def live_target(model: Any, processing: Any) -> CausalTarget:
    """The model that a ``Trainer`` trains as a target; ``processing`` is its tokenizer, or a processor that has one.

    Wrappers of data parallelism and compilation are taken off; PEFT adapters and mixed precision stay. Raises
    TargetError for a model that is sharded or no causal language model, and for a tokenizer that is missing or
    of another model.
    """
    _check_whole(model)
    bare = extract_model_from_parallel(model, keep_torch_compile=False)
    _check_causal(bare)
    tokenizer = getattr(processing, "tokenizer", processing)
    if tokenizer is None:
        raise TargetError(
            "ExposureCallback: the trainer has no tokenizer: give it one with Trainer(processing_class=…), or the "
            "callback with tokenizer=…"
        )
    known = int(bare.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > known:
        raise TargetError(
            f"ExposureCallback: the tokenizer has {len(tokenizer)} tokens, the model {known}: give the one that the "
            "training text goes through with tokenizer=…"
        )
    return CausalTarget(bare, tokenizer)


def in_chat(
    manifest: str | Path, canaries: Sequence[Canary], tokenizer: Any, context: Context, wanted: bool | None
) -> tuple[Context, list[Canary]]:
    """What stands around the canaries, and the canaries, as turns of a chat if ``wanted``.

    With None they are where the record of planting says so and the tokenizer has a template. Elsewhere the prompt that
    the record names stands before them, unless ``context`` says what does. Raises TargetError where
    they are wanted to be and the tokenizer has none, or it changes them.
    """
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if wanted and not has_template:
        raise TargetError(
            "ExposureCallback: chat=True, and the tokenizer has no chat template: leave chat out, or give the "
            "tokenizer that the training text goes through with tokenizer=…"
        )
    planted = (Path(manifest), manifest_hash(read_manifest(manifest)))
    # The role is looked up only if it is used, since records of several roles are an error.
    role = planted_role(*planted, remedy=_ONE_ROLE) if has_template and wanted is not False else None
    if wanted is False or not has_template or (role is None and not wanted):
        prompt = planted_prompt(*planted, in_chats=False)
        return Context(before=prompt) if prompt and context.is_auto else context, list(canaries)
    try:
        chat = Chat(role or "assistant", prompt=planted_prompt(*planted, in_chats=True) or USER_TURN)
        return chat.around(template_of(tokenizer), canaries, context)
    except TargetError as error:
        raise TargetError(f"ExposureCallback: {error}; chat=False watches them as plain text") from None


def _check_whole(model: Any) -> None:
    """Raise TargetError if no process holds all of the weights: reading them takes all processes at once."""
    sharded = any(isinstance(module, FullyShardedDataParallel) for module in model.modules()) or any(
        # ds_id is DeepSpeed's mark on the parameters that ZeRO-3 has taken apart.
        isinstance(parameter, DTensor) or hasattr(parameter, "ds_id")
        for parameter in model.parameters()
    )
    if sharded:
        raise TargetError(
            "ExposureCallback: the weights are sharded over processes (FSDP, ZeRO-3 or tensor parallel), which it "
            "cannot read: leave it out and run lm_eval on the checkpoints, then 'leakage plot epochs' on the results"
        )


def _check_causal(model: Any) -> None:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    seq2seq = getattr(getattr(base, "config", None), "is_encoder_decoder", False)
    writes = getattr(base, "can_generate", None)
    if seq2seq or writes is None or not writes():
        what = "an encoder-decoder model" if seq2seq else "no causal language model of transformers"
        raise TargetError(
            f"ExposureCallback: {type(base).__name__} is {what}, and exposure is watched on causal ones alone: leave "
            "it out, and run lm_eval on the trained model"
        )


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Evaluation mode inside; afterwards each module's mode, the random state and the device's memory as before."""
    devices = sorted({each.device.index for each in model.parameters() if each.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), evaluating(model):
        try:
            yield
        finally:
            if devices:
                # Blocks cut to the sizes of the search would stay with the allocator and break up training's memory.
                torch.cuda.empty_cache()
