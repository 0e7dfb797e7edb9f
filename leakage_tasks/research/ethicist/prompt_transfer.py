"""Transfer of a soft prompt from one model to another of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.targets.suffix.target import CausalSuffixes


def transfer_prompt(prompt: Tensor, source: Tensor, target: Tensor, way: str) -> Tensor:
    """Convert a prompt ``[length, source width]`` to vectors of another model, ``[length, target width]``.

    Args:
        prompt: the vectors.
        source: embeddings of the model that the prompt was tuned on, a row per token.
        target: embeddings of the other model, with the same tokenizer.
        way: ``as it is`` (equal widths only), ``linear map`` (least-squares map from source to target
            embeddings), or ``nearest tokens`` (the target's embedding of the token whose source embedding has
            the highest cosine with the vector).

    Raises:
        ValueError: ``way`` is unknown.
    """
    import torch

    known = min(len(source), len(target))
    source, target = source[:known].float(), target[:known].float()
    if way == "as it is":
        return prompt.float()
    if way == "linear map":
        return prompt.float() @ torch.linalg.lstsq(source, target).solution
    if way == "nearest tokens":
        unit = torch.nn.functional.normalize
        return target[(unit(prompt.float(), dim=1) @ unit(source, dim=1).T).argmax(dim=1)]
    raise ValueError(f"{way!r} is not a way to transfer a prompt")


def with_prompt(target: CausalSuffixes, prompt: Tensor) -> CausalSuffixes:
    """Return the model of ``target`` with ``prompt`` ``[length, width]`` in front of its input."""
    import torch
    from peft import PromptTuningConfig, TaskType, get_peft_model

    from leakage_tasks.targets.causal.target import CausalTarget
    from leakage_tasks.targets.suffix.target import CausalSuffixes

    original = target.sampler.target
    length, width = prompt.shape
    settings = PromptTuningConfig(
        task_type=TaskType.CAUSAL_LM,
        inference_mode=True,
        num_virtual_tokens=length,
        token_dim=width,
        num_transformer_submodules=1,
        num_layers=1,
        num_attention_heads=1,
    )
    model: Any = get_peft_model(original.model, settings)
    with torch.no_grad():
        model.prompt_encoder["default"].embedding.weight.copy_(prompt)
    return CausalSuffixes(CausalTarget(model.eval(), original.tokenizer))
