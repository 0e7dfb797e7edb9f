"""What may join a classifier's encoder to a masked-language head that was trained on another state of it.

Mix and Match (001), section 6.3, names two: a layer between encoder and head, and a prompt before the text. Both leave
encoder and head as they are, and hang on the encoder, so that a model with one answers at the same places as before.
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
"""The part of a model that a bridge is, and the file of a saved one."""
ADAPTER, PROMPT = "adapter", "prompt"
SIZES = {ADAPTER: 64, PROMPT: 20}
"""Units of an adapter, and vectors of a prompt, unless said otherwise."""


class AdapterBridge(nn.Module):
    """h + U·gelu(D·h) of each hidden state h before the head: the bottleneck of Houlsby et al. (2019).

    ``width`` is that of hidden states, ``size`` the units between. U starts at 0, so nothing is changed at first.
    """

    kind: ClassVar[str] = ADAPTER
    tokens = 0
    """Tokens of the encoder's room that it takes."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def join(self, encoder: nn.Module) -> None:
        """Change what ``encoder`` gives from now on."""
        encoder.register_forward_hook(self._after)

    def _after(self, encoder: nn.Module, inputs: Any, output: Any) -> Any:
        hidden: Tensor = output[0]
        return _with_hidden(output, hidden + self.up(gelu(self.down(hidden))))


class PromptBridge(nn.Module):
    """Vectors before the embedded text, as in prompt tuning (Lester et al. 2021); the head sees the text alone.

    ``vectors`` is [length, width of the input embeddings].
    """

    kind: ClassVar[str] = PROMPT

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)

    @property
    def tokens(self) -> int:
        """Tokens of the encoder's room that it takes."""
        return len(self.vectors)

    def join(self, encoder: nn.Module) -> None:
        """Change what ``encoder`` reads and gives from now on. Raises TargetError if it takes tokens alone."""
        if "inputs_embeds" not in inspect.signature(encoder.forward).parameters:
            raise TargetError(
                f"{type(encoder).__name__} takes no vectors in place of tokens (its forward lacks inputs_embeds): use "
                f"head={ADAPTER}"
            )
        encoder.register_forward_pre_hook(self._before, with_kwargs=True)
        encoder.register_forward_hook(self._after)

    def _before(self, encoder: Any, inputs: Sequence[Any], named: dict[str, Any]) -> tuple[tuple[()], dict[str, Any]]:
        given = dict(zip(inspect.signature(encoder.forward).parameters, inputs, strict=False)) | named
        words = encoder.get_input_embeddings()(given.pop("input_ids"))
        vectors = self.vectors.to(words.dtype).expand(len(words), -1, -1)
        mask = given["attention_mask"]
        seen = mask.new_ones(len(words), self.tokens)
        given |= {"inputs_embeds": torch.cat([vectors, words], 1), "attention_mask": torch.cat([seen, mask], 1)}
        return (), given

    def _after(self, encoder: nn.Module, inputs: Any, output: Any) -> Any:
        return _with_hidden(output, output[0][:, self.tokens :])


Bridge = AdapterBridge | PromptBridge


def new_bridge(model: Any, kind: str, size: int, seed: int) -> Bridge:
    """An untrained bridge for ``model``: an adapter that changes nothing yet, or a prompt of ``size`` of its tokens.

    The caller's random state is left alone.
    """
    stream = torch.Generator().manual_seed(seed)
    embedding = model.get_input_embeddings().weight.detach()
    if kind == PROMPT:
        made: Bridge = PromptBridge(embedding[torch.randint(len(embedding), (size,), generator=stream)].clone())
    else:
        made = AdapterBridge(model.config.hidden_size, size)
        for values in (made.down.weight, made.down.bias):
            reach = model.config.hidden_size**-0.5
            values.data = (2 * torch.rand(values.shape, generator=stream) - 1) * reach
    return made.to(model.device, embedding.dtype)


def attach(model: Any, made: Bridge) -> None:
    """Make a bridge part of ``model``, a masked language model without one. Raises TargetError if it cannot be."""
    made.join(model.base_model)
    model.add_module(PART, made)


def bridge_of(model: Any) -> Bridge | None:
    """A model's bridge."""
    found = dict(model.named_children()).get(PART)
    return found if isinstance(found, AdapterBridge | PromptBridge) else None


def save_bridged(model: Any, folder: Path) -> None:
    """Write a masked language model to ``folder``, its bridge, if any, in a file of its own."""
    own = {name: value for name, value in model.state_dict().items() if not name.startswith(f"{PART}.")}
    model.save_pretrained(folder, state_dict=own)
    if (made := bridge_of(model)) is not None:
        held = {name: value.detach().cpu().contiguous() for name, value in made.state_dict().items()}
        save_file(held, folder / FILE, metadata={"kind": made.kind})


def attach_saved(model: Any, source: str) -> None:
    """Attach the bridge that was saved with ``source``, a folder or hub name, to ``model``.

    Raises TargetError where there is none that fits.
    """
    from transformers.utils.hub import cached_file

    try:
        with safe_open(str(cached_file(source, FILE)), framework="pt") as file:
            kind = (file.metadata() or {})["kind"]
            held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        size = len(held["vectors" if kind == PROMPT else "down.weight"])
        made = new_bridge(model, kind, size, 0)
        made.load_state_dict(held)
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise TargetError(
            f"head={source}: its {FILE} is missing, damaged or does not fit ({type(error).__name__}): save it anew "
            f"with head={ADAPTER} or head={PROMPT} and save="
        ) from None
    attach(model, made)


def check_room(kind: str, size: int, room: int | None) -> None:
    """Raise OptionError for a prompt that leaves an encoder which reads ``room`` tokens less than half for the text."""
    if kind == PROMPT and room is not None and 2 * size > room:
        raise OptionError(
            f"bridge_size={size}: the encoder reads {room} tokens, prompt and text together: give {room // 2} or less"
        )


def _with_hidden(output: Any, hidden: Tensor) -> Any:
    """An encoder's ``output`` with other hidden states of the last layer."""
    if isinstance(output, tuple):
        return (hidden, *output[1:])
    output.last_hidden_state = hidden
    return output
