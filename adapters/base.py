"""Base class of harness models that run a `transformers` model in this process: options, device, processes, cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.core.option import Option, by_name, near
from leakage_tasks.core.processes import leave_in_order
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.targets.batches import RowModel, texts_at_once
from leakage_tasks.targets.harness.target import register_target

LOADING = (
    Option("pretrained", object, None, "the model: a folder or hub name", required=True),
    Option("tokenizer", object, None, "the tokenizer: a folder or hub name", usual="the model's"),
    Option("revision", str, None, "revision of the model and of its own tokenizer on the hub"),
    Option("trust_remote_code", bool, False, "run code that comes with the model"),
    Option("dtype", object, "auto", "precision of the model; auto for the precision it was saved in"),
    Option("device", object, None, "device of the model", usual="the first GPU, else the CPU"),
    Option("batch_size", object, None, "number of texts of full length in a batch, or auto"),
    Option("max_batch_size", int, None, "largest number of texts in a batch", minimum=1),
)
"""Options of ``--model_args`` that all models of this kind have."""
MAX_LENGTH = Option(
    "max_length", int, None, "maximum number of tokens of a text, if smaller than the model's maximum", minimum=1
)
AnswerType = TypeVar("AnswerType")
Answer = tuple[float, bool]
"""Natural logarithm of a probability, and True if greedy decoding would give this answer."""


class LocalLM(LM):
    """A `transformers` model in this process, loaded from the folder or hub name ``pretrained``.

    ``target`` is the model as attacks use it. ``batch_size`` is a number or ``auto``; 1, the harness' default, also
    means ``auto``. Other options are passed to :class:`~leakage_tasks.targets.loading.ModelSource` and to the function
    that loads the target. Under ``accelerate launch`` each process has a copy of the model. Unsupported requests raise
    TargetError.
    """

    OPTIONS: ClassVar[Sequence[Option]]
    """The options of ``--model_args``."""
    PIPELINE: ClassVar[str]
    """The hub's name of the model's task, for model cards."""
    no_probability: str
    """The error message for a request for the probability of continuous text, without the model's name."""
    no_text: str
    """A part of the error message for a request to generate text: the model's actual task."""

    def __init__(
        self, pretrained: Any, batch_size: int | str | None = None, device: str | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.check(options)
        self._join_processes(device)
        self.batch_size = batch_size
        self.pretrained, self.revision = str(pretrained), options.get("revision")
        self._loading = {"device": self._device, "batch_size": texts_at_once(batch_size), **options}

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> LocalLM:
        """Make the model from ``--model_args`` and the options that the harness passes itself, such as ``--device``.

        Raises OptionError for an option that is in both: the harness' command passes a device and a batch size even
        if the user gives none.
        """
        passed = {name for name, value in (additional_config or {}).items() if value is not None}
        for name, value in arg_dict.items():
            if name in passed:
                raise OptionError(
                    f"--model_args {name}={value}: lm_eval passes {name} itself: give --{name} {value} in its place"
                )
        model: LocalLM = super().create_from_arg_obj(arg_dict, additional_config)
        return model

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError for an unknown option or an invalid value."""
        known = by_name(self.OPTIONS)
        for name, value in options.items():
            if name not in known:
                use = ", ".join(known)
                raise OptionError(f"--model_args {name}=…: no such option: use {use}{near(name, known)}")
            known[name].checked(known[name].read(value, "--model_args"))

    @property
    @abstractmethod
    def target(self) -> RowModel:
        """The model in the form that attacks use."""

    @property
    def weights(self) -> Mapping[str, torch.nn.Module]:
        """All modules that affect answers, by name; their weights identify the model."""
        generator = getattr(getattr(self.target, "generator", None), "model", None)
        return {"model": self.target.model, **({} if generator is None else {"generator": generator})}

    @property
    def generator_name(self) -> str | None:
        """The name of the model or method that proposes candidates to an attack; None without one."""
        return getattr(self.target, "generator_name", None)

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.target.tokenizer

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, special tokens included; None if unknown."""
        return self.target.max_length

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, for the harness' request cache."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """Raise TargetError, because the model has no probability for continuous text."""
        raise TargetError(f"{type(self).__name__} {self.no_probability}")

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Raise TargetError, because the model does not generate text."""
        raise TargetError(
            f"{type(self).__name__} does not generate text, {self.no_text}: leave out tasks that generate"
        )

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Raise TargetError, because the model has no chat template."""
        raise TargetError(f"{type(self).__name__} has no chat template: run it without --apply_chat_template")

    def get_model_info(self) -> dict[str, Any]:
        """Return information about the model for a results file, without network access."""
        model = self.target.model
        return {
            "model_num_parameters": int(model.num_parameters()),
            "model_dtype": str(model.dtype),
            "model_revision": self.revision or "main",
            "model_sha": getattr(model.config, "_commit_hash", None) or "",
            "model_pipeline": self.PIPELINE,
        }

    def _cached(self, kind: str, requests: Sequence[Instance], answers: list[AnswerType]) -> list[AnswerType]:
        """Store the answers to requests of this kind in the harness' cache, and return them."""
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
        return answers

    # -- several processes ----------------------------------------------------------------------------------

    def _join_processes(self, device: str | None) -> None:
        from datetime import timedelta

        from accelerate import Accelerator, InitProcessGroupKwargs

        # The processes wait for each other at the end, and one may have much more work than the others.
        accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(weeks=52))])
        self._accelerator = accelerator
        self._rank, self._world_size = accelerator.process_index, accelerator.num_processes
        self._device = accelerator.device if self._world_size > 1 else usable_device(device)
        leave_in_order()

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensors of all processes, concatenated."""
        return self._accelerator.gather(tensor) if self.world_size > 1 else tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """Return the objects of all processes on process ``dst``, and None on the other processes."""
        if self.world_size == 1:
            return [obj]
        gathered = [None] * self.world_size if self.rank == dst else None
        torch.distributed.gather_object(obj, gathered, dst=dst)
        return gathered

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            self._accelerator.wait_for_everyone()


def usable_device(device: str | None) -> torch.device:
    """Return the requested or default device. Raises OptionError if the device cannot be used."""
    chosen = device or "cuda"
    # The harness' command line passes cuda:0 if its user does not choose a device.
    if chosen.startswith("cuda") and not torch.cuda.is_available():
        chosen = "cpu"
    try:
        return torch.empty(0, device=chosen).device
    except Exception as error:
        raise OptionError(
            f"device={chosen!r}: cannot be used here ({first_line(error)[:120]}): pass --device cpu or another device"
        ) from None


@register_target(LocalLM)
def _target(lm: LocalLM, texts: Sequence[str] = (), private: bool = False) -> RowModel:
    return lm.target
