"""Hashes that identify a model, so that stored findings are reused only for the model that they are from.

All weights are read, since a sample could miss a fine-tuning that froze most of them. It takes about a second per
gigabyte, once per run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.hf import HFLM

SETTINGS = (
    "backend",
    "prefix_token_id",
    "add_bos_token",
    "max_length",
    "truncation",
    "softmax_dtype",
    "mixed_precision_dtype",
    "chat_template_args",
    "think_end_token",
    "generator_name",
)
"""Settings of harness models that change their answers, in addition to the weights."""
_PLACES = ("_name_or_path", "name_or_path", "base_model_name_or_path", "transformers_version")
_BLOCK = 1 << 20


class _Unseen(Exception):
    """Raised if some weights are not in this process."""


def model_fingerprint(lm: LM, model_id: str | None) -> dict[str, Any]:
    """Return hashes of a model's weights, configuration, adapters and tokenizer, with its settings, as JSON values.

    Weights are read from an ``HFLM``, and from models whose attribute ``weights`` maps names to the torch modules that
    compute the answers. Any other model needs ``model_id``, the user's name for it. Raises OptionError without it.
    """
    try:
        weights = {name: _of_module(module) for name, module in sorted(_modules(lm).items())}
    except _Unseen as unseen:
        if model_id is None:
            raise OptionError(
                f"resume=…: the weights of this {type(lm).__name__} cannot be read ({unseen}), so that a change of the "
                "model would go unnoticed: pass --metadata model_id=NAME, with a different name for each model"
            ) from None
        weights = {}
    kind = f"{type(lm).__module__}.{type(lm).__qualname__}"
    return {
        "kind": kind,
        "model_id": model_id,
        "named": None if weights else [str(getattr(lm, name, None)) for name in ("model", "revision")],
        "weights": weights,
        "tokenizer": _of_tokenizer(getattr(lm, "tokenizer", None)),
        "settings": {name: str(_setting(lm, name)) for name in SETTINGS},
    }


def _setting(lm: LM, name: str) -> Any:
    try:
        return getattr(lm, name, None)
    except NotImplementedError:
        return None


def _modules(lm: LM) -> Mapping[str, torch.nn.Module]:
    weights = getattr(lm, "weights", None)
    if weights is None and type(lm) is HFLM:
        weights = {"model": lm.model}
    if not isinstance(weights, Mapping) or not all(isinstance(module, torch.nn.Module) for module in weights.values()):
        raise _Unseen("they are not in this process, or the model does not report them")
    return weights


def _of_module(module: torch.nn.Module) -> str:
    """Return the SHA-256 of a module's tensors with names, shapes and types, its configuration and adapters."""
    digest = hashlib.sha256()
    digest.update(_json([f"{type(module).__module__}.{type(module).__qualname__}", *_configs(module)]))
    held = dict(module.state_dict())
    for name, tensor in (*held.items(), *((n, t) for n, t in module.named_buffers() if n not in held)):
        _add(digest, name, tensor)
    return digest.hexdigest()


def _configs(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the configurations of a model, its generation and its adapters, without the paths they were loaded from."""
    for name in ("config", "generation_config"):
        config: Any = getattr(module, name, None)
        yield config.to_dict() if hasattr(config, "to_dict") else str(config)
    adapters: Any = getattr(module, "peft_config", None)
    if isinstance(adapters, Mapping):
        yield {name: adapter.to_dict() for name, adapter in adapters.items()}
        yield str(getattr(module, "active_adapters", None))


def _json(value: Any) -> bytes:
    return json.dumps(_placeless(value), sort_keys=True, default=str).encode()


def _placeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _placeless(item) for name, item in value.items() if name not in _PLACES}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return [_placeless(item) for item in value] if isinstance(value, list | tuple) else value


def _add(digest: Any, name: str, value: Any) -> None:
    """Hash one entry of a module's state. Raises _Unseen for tensors that are elsewhere and values of unknown types."""
    if isinstance(value, torch.Tensor):
        digest.update(f"\0{name}\0{type(value).__name__}{tuple(value.shape)}{value.dtype}".encode())
        _add_tensor(digest, name, value.detach())
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _add(digest, f"{name}.{key}", value[key])
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _add(digest, f"{name}.{index}", item)
    elif isinstance(value, bytes):
        digest.update(f"\0{name}\0".encode() + value)
    elif value is None or isinstance(value, str | int | float | torch.dtype):
        digest.update(f"\0{name}\0{value!r}".encode())
    else:
        raise _Unseen(f"{name} is a {type(value).__name__}")


def _add_tensor(digest: Any, name: str, tensor: torch.Tensor) -> None:
    if tensor.is_meta:
        raise _Unseen(f"{name} is not in memory")
    shared: Any = tensor
    if hasattr(shared, "to_local"):
        # Each process hashes its own part of a tensor that several processes share.
        digest.update(str(shared.placements).encode())
        tensor = shared.to_local()
    if hasattr(tensor, "__tensor_flatten__"):
        parts, context = tensor.__tensor_flatten__()
        digest.update(str(context).encode())
        for part in parts:
            _add(digest, f"{name}.{part}", getattr(tensor, part))
        return
    if tensor.is_quantized:
        digest.update(str((tensor.qscheme(), _scales(tensor))).encode())
        tensor = tensor.int_repr()
    try:
        raw = tensor.contiguous().reshape(-1).view(torch.uint8)
    except RuntimeError as error:
        raise _Unseen(f"{name}: {str(error).splitlines()[0]}") from None
    for first in range(0, raw.numel(), _BLOCK * 64):
        digest.update(raw[first : first + _BLOCK * 64].cpu().numpy())


def _scales(tensor: torch.Tensor) -> Any:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return tensor.q_scale(), tensor.q_zero_point()
    return tensor.q_per_channel_scales().tolist(), tensor.q_per_channel_zero_points().tolist()


def _of_tokenizer(tokenizer: Any) -> str | None:
    """Return the SHA-256 of the files that a tokenizer saves, or its name if it saves no files."""
    if not hasattr(tokenizer, "save_pretrained"):
        return None if tokenizer is None else f"{type(tokenizer).__name__} {getattr(tokenizer, 'name', '')}"
    digest = hashlib.sha256(type(tokenizer).__qualname__.encode())
    with temporary_folder() as folder:
        tokenizer.save_pretrained(folder)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"\0{file.relative_to(folder)}\0".encode())
            digest.update(_lasting(file))
    return digest.hexdigest()


def _lasting(file: Path) -> bytes:
    """Return a tokenizer's file without the padding and truncation of its last batch, which change with use."""
    content = file.read_bytes()
    if file.suffix != ".json":
        return content
    saved = parse_json(content)
    if isinstance(saved, dict) and file.name == "tokenizer.json":
        saved = {name: part for name, part in saved.items() if name not in ("padding", "truncation")}
    return _json(saved)


def files_fingerprint(name: str) -> str:
    """Return the identity of a setting that names a file, a folder or a hub model: a SHA-256, or a commit.

    Any other text is returned unchanged.
    """
    path = Path(name)
    try:
        if path.is_file():
            return _of_files([path], path.parent)
        if path.is_dir():
            return _of_files(sorted(entry for entry in path.rglob("*") if entry.is_file()), path)
    except (OSError, ValueError):
        return name
    return _commit(name) or name


def _of_files(files: list[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"\0{file.relative_to(root) if len(files) > 1 else ''}\0".encode())
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _commit(name: str) -> str | None:
    """Return the commit of a hub model in the cache, or None if ``name`` is no such model."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(cached).parent.name if isinstance(cached, str) else None
