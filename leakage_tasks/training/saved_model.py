"""Loading and saving of transformers models of any class."""

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
"""Names of files that ``save_pretrained`` of models and common tokenizers writes."""


def load_saved(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """Load a model from a folder or the hub, with the class that its config names and the dtype that it was saved in.

    Returns the model and its tokenizer, or None if there is no tokenizer. Code that comes with the model is not run.
    Raises TargetError if the model cannot be loaded, its class is unknown, or weights are missing.
    """
    from leakage_tasks.models import register

    register()
    if name.startswith(("/", ".", "~")) and not Path(name).is_dir():
        raise unreadable("model", name, "no such folder")
    model, missing = read_model(_class_of(read_config(name), name), name, dtype="auto")
    if missing:
        raise TargetError(f"{name}: its weights do not contain {missing[0]}: give a completely saved model")
    tokenizer = None
    with suppress(TargetError):
        tokenizer = read_tokenizer(name)
    return model.eval(), tokenizer


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, folder: str | Path, *, like: Path | None = None
) -> None:
    """Save the model, and its tokenizer if there is one.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None.
        folder: The folder to write; check it first with :func:`check_output`.
        like: Folder or file whose access permissions are copied.
    """
    with replacing(folder, like=like) as beside:
        model.save_pretrained(beside)
        if tokenizer is not None:
            tokenizer.save_pretrained(beside)


class Saved:
    """Base class of results that are saved for ``from_pretrained``: a trained model and its tokenizer."""

    model: Any
    tokenizer: Any

    def save(self, folder: str | Path, *, like: Path | None = None) -> None:
        """Save both to ``folder``, completely or not at all, with the access permissions of ``like``, if given."""
        save(self.model, self.tokenizer, folder, like=like)


def check_output(folder: Path, source: str | Path | None = None) -> None:
    """Raise LeakageError if a model cannot be saved in ``folder``, or would replace ``source`` or other files.

    A folder with other files than a single saved model, such as a trainer's folder with checkpoints, is not replaced.
    ``source`` is the folder of the original model, if any; neither folder may contain the other.
    """
    check_place(folder)
    if folder.is_file():
        raise OptionError(f"{folder}: is a file, not a folder: choose another --output")
    if source is not None and Path(source).exists():
        _check_apart(folder, Path(source))
    if folder.is_dir() and (other := _other_file(folder)):
        raise OptionError(
            f"{folder}: contains other files than a model ({other}), which would be lost: choose another --output"
        )


def _check_apart(folder: Path, source: Path) -> None:
    if folder.exists() and folder.samefile(source):
        raise OptionError(f"{folder}: is the model itself: choose another --output")
    one, other = folder.resolve(), source.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise OptionError(f"{folder}: contains the model {source} or is inside it: choose another --output")


def _other_file(folder: Path) -> str | None:
    """Return the name of a file that does not belong to a saved model; None if there is no such file.

    Without a config, no file belongs to a model.
    """
    paths = sorted(folder.iterdir())
    others = [path.name for path in paths if not (path.is_file() and _SAVED.fullmatch(path.name))]
    if not (folder / _CONFIG).is_file():
        others += [path.name for path in paths]
    return others[0] if others else None


def _class_of(config: Any, name: str) -> type[PreTrainedModel]:
    """Return the class named in a config: a class of transformers, or of this project, registered with transformers."""
    import transformers

    class_name = (config.architectures or ["none"])[0]
    builtin = getattr(transformers, class_name, None)
    if isinstance(builtin, type) and issubclass(builtin, transformers.PreTrainedModel):
        return builtin
    autos: tuple[Any, ...] = (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM)
    for mapping in (auto._model_mapping for auto in autos):
        if type(config) in mapping and mapping[type(config)].__name__ == class_name:
            registered: type[PreTrainedModel] = mapping[type(config)]
            return registered
    raise TargetError(
        f"{name}: its config names the class {class_name!r}, which transformers does not have: give a folder that "
        "save_pretrained wrote"
    )
