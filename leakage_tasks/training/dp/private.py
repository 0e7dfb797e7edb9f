"""DP-SGD with Opacus: clipped per-row gradients, noise, Poisson batches, ε; and ordinary steps with the same face."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.training.dp.accounting import PrivacyGuarantee
from leakage_tasks.training.loop import BatchLoss, ClippedSteps
from leakage_tasks.training.rows import bucketed

if TYPE_CHECKING:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

LEAST_PRIVATE = 1e9
"""The largest ε to work out noise for: from about 1e14 Opacus' search for it, to within 0.01, does not end."""


@dataclass(frozen=True)
class DpConfig:
    """What DP-SGD promises: (ε, ``delta``)-differential privacy with regard to one training row.

    Give either ``noise_multiplier`` (standard deviation of the noise over ``max_grad_norm``, to which each row's
    gradient is clipped) or ``epsilon``, for which the noise is then worked out from the planned number of steps.
    ``delta`` must be below one over the number of rows. R copies of a row are R rows: for what is promised for all of
    them together see :meth:`~leakage_tasks.training.dp.accounting.PrivacyGuarantee.epsilon_of`.
    """

    noise_multiplier: float | None = None
    epsilon: float | None = None
    max_grad_norm: float = 1.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise OptionError("give either noise_multiplier or epsilon to DP-SGD, not both and not neither")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < math.inf:
            raise OptionError(f"noise_multiplier is {self.noise_multiplier}: give a finite number, 0 or more")
        for name in ("epsilon", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise OptionError(f"{name} is {value}: give a finite number above 0")
        if self.epsilon is not None and self.epsilon > LEAST_PRIVATE:
            raise OptionError(f"epsilon is {self.epsilon:g}, which promises nothing: give noise_multiplier 0 instead")
        if not 0 < self.delta < 1:
            raise OptionError(f"delta is {self.delta}: give a number above 0 and below 1")


class PrivateSteps:
    """DP-SGD steps on a model: batches drawn by Poisson sampling, and the ε spent so far.

    The noise comes from torch's seeded generator, so that a lab can be repeated; who publishes a model must not know
    or publish the seed.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        privacy: DpConfig,
        *,
        rows: int,
        batch_size: int,
        epochs: int,
        seed: int,
    ) -> None:
        """Raises LeakageError where opacus is missing or cannot do the model, OptionError on a ``delta`` too large."""
        opacus = _opacus()
        if privacy.delta >= 1 / rows:
            raise OptionError(f"delta is {privacy.delta} for {rows} rows: give less than {1 / rows:.1e}")
        self._rows, self._batch_size, self._delta = rows, batch_size, privacy.delta
        self._rate = min(batch_size / rows, 1.0)
        self.steps_an_epoch = max(round(1 / self._rate), 1)
        self.noise_multiplier = _noise(privacy, self._rate, epochs * self.steps_an_epoch)
        self._taken = 0
        self._wrapped = _wrapped(opacus, model)
        self._hooks = per_row_ids(model)
        self._generator = torch.Generator(next(model.parameters()).device).manual_seed(seed)
        self.optimiser: DPOptimizer = opacus.optimizers.DPOptimizer(
            optimiser,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=privacy.max_grad_norm,
            expected_batch_size=max(round(self._rate * rows), 1),
            generator=self._generator,
        )

    def batches(self, stream: random.Random) -> list[list[int]]:
        """An epoch's batches: each row is in each with the same chance, so one may be empty or larger than asked."""
        return [[row for row in range(self._rows) if stream.random() < self._rate] for _ in range(self.steps_an_epoch)]

    def take(self, loss: Callable[[list[int]], BatchLoss], batch: list[int]) -> BatchLoss:
        """One step on the rows ``batch``, of which ``loss`` gives the loss.

        An empty batch still takes a step: on noise, with a row that lends its shapes.
        """
        found = loss(batch or [0])
        self.step(found.mean, len(batch))
        return found if batch else found._replace(total=0.0, count=0)

    def step(self, loss: Tensor, count: int) -> None:
        """Step on the mean ``loss`` of a batch of ``count`` rows; with ``count`` 0, on noise alone.

        An empty batch still needs gradients of the right shapes: give the loss of any one row, it is not used.
        """
        self.optimiser.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            # opacus' hooks meet layers whose inputs, being ids, have no gradients: as it should be.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            loss.backward()
        self._check_gradients(max(count, 1))
        if not count:
            for parameter in self.optimiser.params:
                parameter.grad_sample = parameter.grad_sample[:0]
        self.optimiser.step()
        self._taken += 1

    def epsilon(self) -> float:
        """ε spent so far at the given δ, by Rényi accounting; infinite without noise."""
        return self.promise().epsilon()

    def promise(self) -> PrivacyGuarantee:
        """What the steps taken so far promise."""
        return PrivacyGuarantee(self.noise_multiplier, self._rate, self._taken, self._delta)

    def close(self) -> None:
        """Take opacus' hooks off the model, which keeps its usual names of weights."""
        for hook in self._hooks:
            hook.remove()
        self._wrapped.to_standard_module()
        for parameter in self.optimiser.params:
            parameter.grad = parameter.grad_sample = None

    def _check_gradients(self, count: int) -> None:
        names = {id(parameter): name for name, parameter in self._wrapped._module.named_parameters()}
        for parameter in self.optimiser.params:
            found = parameter.grad_sample
            if not isinstance(found, Tensor) or len(found) != count:
                raise _unfit(f"no gradient a row for {names[id(parameter)]}")


class PlainSteps(ClippedSteps[list[int]]):
    """Ordinary steps on batches of rows of like length, each row once an epoch; gradients are clipped."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, lengths: Sequence[int], batch_size: int, clip: float = 1.0
    ) -> None:
        super().__init__(optimiser, clip)
        self._lengths, self._batch_size = lengths, batch_size
        self.steps_an_epoch = -(-len(lengths) // batch_size)

    def batches(self, stream: random.Random) -> list[list[int]]:
        """An epoch's batches of row numbers."""
        return bucketed(self._lengths, self._batch_size, stream)

    def epsilon(self) -> None:
        """Nothing is promised."""

    def promise(self) -> None:
        """Nothing is promised."""

    def close(self) -> None:
        """There is nothing to take off the model."""


def make_steps(
    model: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    private: DpConfig | None,
    lengths: Sequence[int],
    *,
    batch_size: int,
    epochs: int,
    seed: int,
    clip: float = 1.0,
) -> PlainSteps | PrivateSteps:
    """Steps on rows of these ``lengths``: DP-SGD's where it is asked for, else ordinary ones, clipped to ``clip``."""
    if private is None:
        return PlainSteps(optimiser, lengths, batch_size, clip)
    sizes = {"rows": len(lengths), "batch_size": batch_size, "epochs": epochs}
    return PrivateSteps(model.train(), optimiser, private, **sizes, seed=seed)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model inside what opacus and ``DistributedDataParallel`` wrapped around it, the very same weights.

    Their names have no ``_module.`` or ``module.`` before them any more, so that ``save_pretrained`` writes what
    ``from_pretrained``, and the harness with it, loads. Opacus' hooks are taken off: training is over.
    """
    while list(model._modules) in (["_module"], ["module"]):
        (inner,) = model.children()
        take_off: Any = getattr(model, "to_standard_module", None)
        if take_off is not None:
            take_off()
        model = inner
    return model


def per_row_ids(model: torch.nn.Module) -> list[RemovableHandle]:
    """Hooks that repeat ids shared by all rows for each row, as long as they are there.

    BERT looks position embeddings up once, [1, length], for the whole batch; opacus takes the first dimension for the
    rows, so that a gradient a row needs them [rows, length].
    """
    seen = {"rows": 1}

    def note(_: torch.nn.Module, given: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        seen["rows"] = len(given[0] if given else inputs["input_ids"])

    def repeat(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        shared = inputs[0].dim() == 2 and len(inputs[0]) == 1
        return (inputs[0].expand(seen["rows"], -1),) if shared else None

    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return [
        model.register_forward_pre_hook(note, with_kwargs=True),
        *(embedding.register_forward_pre_hook(repeat) for embedding in embeddings),
    ]


def _noise(privacy: DpConfig, rate: float, steps: int) -> float:
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    from opacus.accountants.utils import get_noise_multiplier

    try:
        with warnings.catch_warnings():
            # On its way to the noise it also tries too much of it, for which a larger order would be tighter.
            warnings.filterwarnings("ignore", "Optimal order is the")
            return float(
                get_noise_multiplier(
                    target_epsilon=privacy.epsilon,
                    target_delta=privacy.delta,
                    sample_rate=rate,
                    steps=steps,
                    accountant="rdp",
                )
            )
    except ValueError as error:
        raise OptionError(f"epsilon is {privacy.epsilon}: no noise reaches it ({error}): give more") from None


def _wrapped(opacus: Any, model: torch.nn.Module) -> GradSampleModule:
    errors = opacus.validators.ModuleValidator.validate(model, strict=False)
    if errors:
        raise _unfit(str(errors[0]).splitlines()[0])
    # strict would refuse any buffer, BERT's position numbers among them; buffers that learn fail the validation above.
    return opacus.GradSampleModule(model, strict=False, loss_reduction="mean")


def _unfit(reason: str) -> LeakageError:
    return LeakageError(
        f"DP-SGD cannot train this model ({reason}): freeze or replace that layer, or train without DP-SGD"
    )


def check_opacus() -> None:
    """Raise LeakageError where opacus is missing, before anything long begins."""
    _opacus()


def _opacus() -> Any:
    try:
        import opacus
        import opacus.accountants
        import opacus.optimizers
        import opacus.validators
    except ImportError as error:
        raise LeakageError(
            f"DP-SGD needs opacus ({error}): install it with: pip install 'lm-eval-leakage[private]'"
        ) from None
    return opacus
