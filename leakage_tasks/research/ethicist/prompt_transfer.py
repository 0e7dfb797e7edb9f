"""A soft prompt tuned for one model put before another one of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.targets.suffix.target import CausalSuffixes


def carry(prompt: Tensor, source: Tensor, target: Tensor, way: str) -> Tensor:
    """A prompt ``[length, source width]`` as vectors of another model, ``[length, target width]``.

    ``source`` and ``target`` are the models' embedding tables, a row a token, of one tokenizer. ``as it is`` takes
    equal widths. ``linear map`` is the least-squares map from the source's embeddings to the target's. ``nearest
    tokens`` takes for each vector the target's embedding of the token whose embedding in the source has the highest
    cosine with it. Raises ValueError for another way.
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
    raise ValueError(f"{way!r} is no way of carrying a prompt over")


def behind(target: CausalSuffixes, prompt: Tensor) -> CausalSuffixes:
    """The model of ``target`` behind ``prompt`` ``[length, width]``."""
    import torch
    from peft import PromptTuningConfig, TaskType, get_peft_model

    from leakage_tasks.targets.causal.target import CausalTarget
    from leakage_tasks.targets.suffix.target import CausalSuffixes

    own = target.sampler.target
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
    model: Any = get_peft_model(own.model, settings)
    with torch.no_grad():
        model.prompt_encoder["default"].embedding.weight.copy_(prompt)
    return CausalSuffixes(CausalTarget(model.eval(), own.tokenizer))
