"""Bridges between a classifier's encoder and a masked-language head that was trained on an earlier state of it.

Mix and Match, section 6.3, names two kinds: a layer between encoder and head, and a prompt before the text. Both
leave encoder and head unchanged. They are hooks of the encoder, so the model's outputs keep their positions.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import gelu

from leakage_tasks.core.errors import OptionError, TargetError

PART, FILE = "bridge", "bridge.safetensors"
"""Name of the bridge as a submodule, and of its file in a saved model."""
ADAPTER, PROMPT = "adapter", "prompt"
SIZES = {ADAPTER: 64, PROMPT: 20}
"""Default sizes: units of an adapter, and vectors of a prompt."""


class AdapterBridge(nn.Module):
    """An adapter that replaces each hidden state h before the head by h + U·gelu(D·h) (Houlsby et al. 2019).

    ``width`` is the hidden size, ``size`` the number of units. U is initialized with 0, so an untrained adapter changes
    nothing.
    """

    kind: ClassVar[str] = ADAPTER
    tokens = 0
    """Number of the encoder's input positions that the bridge occupies."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def join(self, encoder: nn.Module) -> None:
        """Add the bridge to the outputs of ``encoder``."""
        encoder.register_forward_hook(self._after)

    def _after(self, encoder: nn.Module, inputs: Any, output: Any) -> Any:
        hidden: Tensor = output[0]
        return _with_hidden(output, hidden + self.up(gelu(self.down(hidden))))


class PromptBridge(nn.Module):
    """Trained vectors before the embedded text, as in prompt tuning (Lester et al. 2021); the head sees only the text.

    ``vectors`` has shape [length, width of the input embeddings].
    """

    kind: ClassVar[str] = PROMPT

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)

    @property
    def tokens(self) -> int:
        """Number of the encoder's input positions that the bridge occupies."""
        return len(self.vectors)

    def join(self, encoder: nn.Module) -> None:
        """Add the bridge to the inputs of ``encoder``. Raises TargetError if it accepts token ids only."""
        if "inputs_embeds" not in inspect.signature(encoder.forward).parameters:
            raise TargetError(
                f"{type(encoder).__name__} takes token ids only (its forward method has no inputs_embeds): use "
                f"head={ADAPTER}"
            )
        encoder.register_forward_pre_hook(self._before, with_kwargs=True)
        encoder.register_forward_hook(self._after)

    def _before(self, encoder: Any, inputs: Sequence[Any], named: dict[str, Any]) -> tuple[tuple[()], dict[str, Any]]:
        arguments = dict(zip(inspect.signature(encoder.forward).parameters, inputs, strict=False)) | named
        words = encoder.get_input_embeddings()(arguments.pop("input_ids"))
        vectors = self.vectors.to(words.dtype).expand(len(words), -1, -1)
        mask = arguments["attention_mask"]
        seen = mask.new_ones(len(words), self.tokens)
        arguments |= {"inputs_embeds": torch.cat([vectors, words], 1), "attention_mask": torch.cat([seen, mask], 1)}
        return (), arguments

    def _after(self, encoder: nn.Module, inputs: Any, output: Any) -> Any:
        return _with_hidden(output, output[0][:, self.tokens :])


Bridge = AdapterBridge | PromptBridge


def new_bridge(model: Any, kind: str, size: int, seed: int) -> Bridge:
    """Return an untrained bridge for ``model``.

    Torch's global random state is unchanged.

    Args:
        model: The masked language model that the bridge is for.
        kind: ``adapter``, which changes nothing before training, or ``prompt``.
        size: Number of units of an adapter, or of vectors of a prompt, which start as embeddings of random tokens.
        seed: Random seed.

    Returns:
        The bridge, on the model's device and in its dtype.
    """
    stream = torch.Generator().manual_seed(seed)
    embedding = model.get_input_embeddings().weight.detach()
    if kind == PROMPT:
        bridge: Bridge = PromptBridge(embedding[torch.randint(len(embedding), (size,), generator=stream)].clone())
    else:
        bridge = AdapterBridge(model.config.hidden_size, size)
        for values in (bridge.down.weight, bridge.down.bias):
            reach = model.config.hidden_size**-0.5
            values.data = (2 * torch.rand(values.shape, generator=stream) - 1) * reach
    return bridge.to(model.device, embedding.dtype)


def attach(model: Any, bridge: Bridge) -> None:
    """Add a bridge to ``model``, a masked language model without a bridge.

    Raises TargetError if the encoder does not support the bridge.
    """
    bridge.join(model.base_model)
    model.add_module(PART, bridge)


def bridge_of(model: Any) -> Bridge | None:
    """Return a model's bridge, or None."""
    bridge = dict(model.named_children()).get(PART)
    return bridge if isinstance(bridge, AdapterBridge | PromptBridge) else None


def save_bridged(model: Any, folder: Path) -> None:
    """Save a masked language model to ``folder``, with its bridge, if any, in a separate file."""
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith(f"{PART}.")}
    model.save_pretrained(folder, state_dict=weights)
    if (bridge := bridge_of(model)) is not None:
        tensors = {name: value.detach().cpu().contiguous() for name, value in bridge.state_dict().items()}
        save_file(tensors, folder / FILE, metadata={"kind": bridge.kind})


def attach_saved(model: Any, source: str) -> None:
    """Attach the bridge that was saved with ``source``, a folder or hub name, to ``model``.

    Raises TargetError if there is no bridge or it does not fit.
    """
    from transformers.utils.hub import cached_file

    try:
        with safe_open(str(cached_file(source, FILE)), framework="pt") as file:
            kind = (file.metadata() or {})["kind"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        size = len(tensors["vectors" if kind == PROMPT else "down.weight"])
        bridge = new_bridge(model, kind, size, 0)
        bridge.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise TargetError(
            f"head={source}: its {FILE} is missing, damaged or of another shape ({type(error).__name__}): save it "
            f"again with head={ADAPTER} or head={PROMPT} and save="
        ) from None
    attach(model, bridge)


def check_room(kind: str, size: int, room: int | None) -> None:
    """Raise OptionError if a prompt takes more than half of the ``room`` tokens that the encoder reads."""
    if kind == PROMPT and room is not None and 2 * size > room:
        raise OptionError(
            f"bridge_size={size}: the encoder reads {room} tokens, prompt and text together: give {room // 2} or less"
        )


def _with_hidden(output: Any, hidden: Tensor) -> Any:
    """Return the encoder's ``output`` with its last hidden state replaced by ``hidden``."""
    if isinstance(output, tuple):
        return (hidden, *output[1:])
    output.last_hidden_state = hidden
    return output
