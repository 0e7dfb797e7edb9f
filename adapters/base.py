"""What the models have in common that are `transformers` models in this process: device, processes, the cache."""

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
    Option("revision", str, None, "which version of the model and of its own tokenizer"),
    Option("trust_remote_code", bool, False, "whether code that comes with the model is run"),
    Option("dtype", object, "auto", "what the model computes in; auto for the precision it was saved in"),
    Option("device", object, None, "where it computes", usual="the first GPU, else the CPU"),
    Option("batch_size", object, None, "how many texts of full length are read at once, or auto"),
    Option("max_batch_size", int, None, "the most texts that are read at once", minimum=1),
)
"""What ``--model_args`` may say of every such model."""
ROOM = Option("max_length", int, None, "how many tokens of a text are read, if fewer than the model can", minimum=1)
Given = TypeVar("Given")
Answer = tuple[float, bool]
"""A natural log of a probability, and whether what it is of is the likeliest."""


class LocalLM(LM):
    """A `transformers` model in this process, from the folder or hub name ``pretrained``; ``target`` is its target.

    ``batch_size`` is a number or ``auto``, which 1, the harness' default, stands for as well. Other options are for
    :class:`~leakage_tasks.targets.loading.ModelSource` and what loads the target. Under ``accelerate launch`` each
    process has its own copy. What such a model cannot do raises TargetError.
    """

    OPTIONS: ClassVar[Sequence[Option]]
    """What ``--model_args`` may say of it."""
    PIPELINE: ClassVar[str]
    """The hub's name for what such a model does, for model cards."""
    no_probability: str
    """What it says, after its name, to who asks for the probability of running text."""
    no_text: str
    """The same of who asks it to write."""

    def __init__(
        self, pretrained: Any, batch_size: int | str | None = None, device: str | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.check(options)
        self._join_processes(device)
        self.batch_size = batch_size
        self.pretrained, self.revision = str(pretrained), options.get("revision")
        self._loading = {"device": self._device, "batch_size": texts_at_once(batch_size), **options}

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise OptionError for what ``--model_args`` may not say, or not like that."""
        known = by_name(self.OPTIONS)
        for name, value in given.items():
            if name not in known:
                use = ", ".join(known)
                raise OptionError(f"--model_args {name}=…: no such option: use {use}{near(name, known)}")
            known[name].checked(known[name].read(value, "--model_args"))

    @property
    @abstractmethod
    def target(self) -> RowModel:
        """What attacks ask."""

    @property
    def weights(self) -> Mapping[str, torch.nn.Module]:
        """All modules that the answers come of, by name: what tells this model from another."""
        generator = getattr(getattr(self.target, "generator", None), "model", None)
        return {"model": self.target.model, **({} if generator is None else {"generator": generator})}

    @property
    def generator_name(self) -> str | None:
        """What proposes candidates to the attack that takes them, if anything does."""
        return getattr(self.target, "generator_name", None)

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.target.tokenizer

    @property
    def max_length(self) -> int | None:
        """Tokens the model can read, special ones included; None where it does not say."""
        return self.target.max_length

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, for the harness' request cache."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """Raises TargetError: such a model gives running text no probability."""
        raise TargetError(f"{type(self).__name__} {self.no_probability}")

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Raises TargetError: such a model writes no text."""
        raise TargetError(f"{type(self).__name__} writes no text, {self.no_text}: leave out tasks that generate")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Raises TargetError: such a model has no chat template."""
        raise TargetError(f"{type(self).__name__} has no chat template: run it without --apply_chat_template")

    def get_model_info(self) -> dict[str, Any]:
        """What a results file should say about the model; no network is asked."""
        model = self.target.model
        return {
            "model_num_parameters": int(model.num_parameters()),
            "model_dtype": str(model.dtype),
            "model_revision": self.revision or "main",
            "model_sha": getattr(model.config, "_commit_hash", None) or "",
            "model_pipeline": self.PIPELINE,
        }

    def _remembered(self, kind: str, requests: Sequence[Instance], answers: list[Given]) -> list[Given]:
        """The answers, put into the harness' cache as those to requests of this kind."""
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
        return answers

    # -- several processes ----------------------------------------------------------------------------------

    def _join_processes(self, device: str | None) -> None:
        from datetime import timedelta

        from accelerate import Accelerator, InitProcessGroupKwargs

        # One process may have much more to do than the others, which wait for it at the end.
        accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(weeks=52))])
        self._accelerator = accelerator
        self._rank, self._world_size = accelerator.process_index, accelerator.num_processes
        self._device = accelerator.device if self._world_size > 1 else usable(device)
        leave_in_order()

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensors of all processes, one after the other."""
        return self._accelerator.gather(tensor) if self.world_size > 1 else tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """The objects of all processes on process ``dst``, None on the others."""
        if self.world_size == 1:
            return [obj]
        found = [None] * self.world_size if self.rank == dst else None
        torch.distributed.gather_object(obj, found, dst=dst)
        return found

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            self._accelerator.wait_for_everyone()


def usable(device: str | None) -> torch.device:
    """The device asked for, or the usual one. Raises OptionError for one that cannot be used."""
    chosen = device or "cuda"
    # The harness' command line asks for cuda:0 where its user asks for nothing.
    if chosen.startswith("cuda") and not torch.cuda.is_available():
        chosen = "cpu"
    try:
        # Logits are normalised in float64, which MPS has not.
        return torch.empty(0, device=chosen, dtype=torch.float64).device
    except Exception as error:
        raise OptionError(
            f"device={chosen!r}: cannot be used here ({first_line(error)[:120]}): pass --device cpu, or another"
        ) from None


@register_target(LocalLM)
def _target(lm: LocalLM, texts: Sequence[str] = (), private: bool = False) -> RowModel:
    return lm.target
