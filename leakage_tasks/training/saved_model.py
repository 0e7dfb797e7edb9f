"""A saved transformers model of whatever kind, loaded as what it is, and saved again as a folder of the same kind."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.models.loading import read_config, read_model, read_tokenizer, unreadable

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CONFIG = "config.json"
_SAVED = re.compile(
    r"config\.json|generation_config\.json|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
    r"|(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|vocab\.txt|merges\.txt"
    r"|chat_template\.jinja|(spiece|tokenizer|sentencepiece|sentencepiece\.bpe)\.model|(source|target)\.spm"
)
"""Files that ``save_pretrained`` of a model and of the usual tokenizers writes."""


def load_saved(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """The model in a folder or on the hub, of the class its config names, in the precision it was saved in.

    The tokenizer is None where there is none beside it. No code that comes with a model is run. Raises TargetError for
    what cannot be loaded, names no class of transformers' or ours, or lacks weights.
    """
    from leakage_tasks.models import register

    register()
    if name.startswith(("/", ".", "~")) and not Path(name).is_dir():
        raise unreadable("model", name, "no such folder")
    model, missing = read_model(_class_of(read_config(name), name), name, dtype="auto")
    if missing:
        raise TargetError(f"{name}: {missing[0]} is not among its weights: give a model that was saved whole")
    tokenizer = None
    with suppress(TargetError):
        tokenizer = read_tokenizer(name)
    return model.eval(), tokenizer


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, folder: str | Path, *, like: Path | None = None
) -> None:
    """Write the model, and its tokenizer where there is one, to ``folder``, which :func:`check_output` let pass.

    It is as open as ``like``, the folder of the model it is made of, where there is one.
    """
    with replacing(folder, like=like) as beside:
        model.save_pretrained(beside)
        if tokenizer is not None:
            tokenizer.save_pretrained(beside)


class Saved:
    """What is saved as a folder for ``from_pretrained``: a trained model and its tokenizer."""

    model: Any
    tokenizer: Any

    def save(self, folder: str | Path, *, like: Path | None = None) -> None:
        """Write both to ``folder``, whole or not at all; it is as open as ``like``, the training data, where given."""
        save(self.model, self.tokenizer, folder, like=like)


def check_output(folder: Path, source: str | Path | None = None) -> None:
    """Raise LeakageError if a model cannot be saved in ``folder``, or would replace ``source`` or what is no model.

    A folder that holds anything but one saved model, such as a trainer's with checkpoints, is not replaced. ``source``
    is the model that the saved one is made of, if it is made of one; neither may lie in the other.
    """
    check_place(folder)
    if folder.is_file():
        raise OptionError(f"{folder}: is a file, where a folder is to be made: choose another --output")
    if source is not None and Path(source).exists():
        _check_apart(folder, Path(source))
    if folder.is_dir() and (strange := _strange(folder)):
        raise OptionError(
            f"{folder}: holds other things than a model ({strange}), which would be lost: choose another --output"
        )


def _check_apart(folder: Path, source: Path) -> None:
    """Raise OptionError if one is the other, or lies in it."""
    if folder.exists() and folder.samefile(source):
        raise OptionError(f"{folder}: is the model itself: choose another --output")
    one, other = folder.resolve(), source.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise OptionError(f"{folder}: and the model {source} lie one in the other: choose another --output")


def _strange(folder: Path) -> str | None:
    """What a folder holds that no saved model has; its first file where none of them is a config."""
    held = sorted(folder.iterdir())
    strange = [each.name for each in held if not (each.is_file() and _SAVED.fullmatch(each.name))]
    if not (folder / _CONFIG).is_file():
        strange += [each.name for each in held]
    return strange[0] if strange else None


def _class_of(config: Any, name: str) -> type[PreTrainedModel]:
    """The class that saved a model: one of transformers', or one of ours, which are registered with it."""
    import transformers

    named = (config.architectures or ["none"])[0]
    found = getattr(transformers, named, None)
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found
    autos: tuple[Any, ...] = (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM)
    for mapping in (auto._model_mapping for auto in autos):
        if type(config) in mapping and mapping[type(config)].__name__ == named:
            ours: type[PreTrainedModel] = mapping[type(config)]
            return ours
    raise TargetError(
        f"{name}: its config names the class {named!r}, which transformers does not have: give a folder that "
        "save_pretrained wrote"
    )
