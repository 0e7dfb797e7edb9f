"""DP-SGD with Opacus: clipped per-row gradients, noise, Poisson sampling and ε; and ordinary steps.

Both kinds of steps have one interface.
"""

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

MAX_EPSILON = 1e9
"""Largest ε for which the noise is computed. From about 1e14 Opacus' search, with a tolerance of 0.01, does not end."""


@dataclass(frozen=True)
class DpConfig:
    """The options of DP-SGD, which guarantees (ε, ``delta``)-differential privacy for one training row.

    Give either ``noise_multiplier`` or ``epsilon``. ``noise_multiplier`` is the standard deviation of the noise divided
    by ``max_grad_norm``, the norm to which each row's gradient is clipped. With ``epsilon`` the noise is computed from
    the planned number of steps. ``delta`` must be below 1 / number of rows. R copies of a row are R rows:
    :meth:`~leakage_tasks.training.dp.accounting.PrivacyGuarantee.epsilon_of` returns ε for all of them.
    """

    noise_multiplier: float | None = None
    epsilon: float | None = None
    max_grad_norm: float = 1.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise OptionError("give exactly one of noise_multiplier and epsilon to DP-SGD")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < math.inf:
            raise OptionError(f"noise_multiplier is {self.noise_multiplier}: give a finite number, 0 or more")
        for name in ("epsilon", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise OptionError(f"{name} is {value}: give a finite number above 0")
        if self.epsilon is not None and self.epsilon > MAX_EPSILON:
            raise OptionError(f"epsilon is {self.epsilon:g}, which gives no protection: set noise_multiplier 0 instead")
        if not 0 < self.delta < 1:
            raise OptionError(f"delta is {self.delta}: give a number above 0 and below 1")


class PrivateSteps:
    """DP-SGD steps on a model, with Poisson sampling and accounting of ε.

    The noise comes from torch's seeded generator, so that experiments are reproducible. Do not publish the seed of a
    model that you publish: privacy depends on it.
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
        """Prepare the model and the optimizer.

        Args:
            model: The model.
            optimiser: The optimizer of its parameters.
            privacy: Options of DP-SGD.
            rows: Number of training rows.
            batch_size: Mean number of rows in a batch.
            epochs: Planned number of epochs.
            seed: Random seed of the noise.

        Raises:
            LeakageError: Opacus is missing or does not support the model.
            OptionError: ``delta`` is too large.
        """
        opacus = _opacus()
        if privacy.delta >= 1 / rows:
            raise OptionError(f"delta is {privacy.delta} for {rows} rows: give less than {1 / rows:.1e}")
        self._rows, self._batch_size, self._delta = rows, batch_size, privacy.delta
        self._rate = min(batch_size / rows, 1.0)
        self.steps_an_epoch = max(round(1 / self._rate), 1)
        self.noise_multiplier = _noise(privacy, self._rate, epochs * self.steps_an_epoch)
        self._taken = 0
        self._wrapped = _wrap(opacus, model)
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
        """Draw an epoch's batches: each row is in each batch with equal probability, so sizes vary, from 0."""
        return [[row for row in range(self._rows) if stream.random() < self._rate] for _ in range(self.steps_an_epoch)]

    def take(self, loss: Callable[[list[int]], BatchLoss], batch: list[int]) -> BatchLoss:
        """Take one step on the rows ``batch``. Return their loss before the step, as computed by ``loss``.

        An empty batch also takes a step, on noise only; the loss of a row provides the shapes of the gradients.
        """
        batch_loss = loss(batch or [0])
        self.step(batch_loss.mean, len(batch))
        return batch_loss if batch else batch_loss._replace(total=0.0, count=0)

    def step(self, loss: Tensor, count: int) -> None:
        """Take one step on the mean ``loss`` of a batch of ``count`` rows.

        If ``count`` is 0, the step is noise only. Then pass the loss of any row: only the shapes of its gradients are
        used.
        """
        self.optimiser.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            # Opacus warns about layers whose inputs are ids and have no gradients, which is correct.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            loss.backward()
        self._check_gradients(max(count, 1))
        if not count:
            for parameter in self.optimiser.params:
                parameter.grad_sample = parameter.grad_sample[:0]
        self.optimiser.step()
        self._taken += 1

    def epsilon(self) -> float:
        """Return ε after the steps so far at the configured δ, by Rényi accounting; infinite without noise."""
        return self.guarantee().epsilon()

    def guarantee(self) -> PrivacyGuarantee:
        """Return the privacy guarantee after the steps so far."""
        return PrivacyGuarantee(self.noise_multiplier, self._rate, self._taken, self._delta)

    def close(self) -> None:
        """Remove Opacus' hooks from the model. Its weights have their original names."""
        for hook in self._hooks:
            hook.remove()
        self._wrapped.to_standard_module()
        for parameter in self.optimiser.params:
            parameter.grad = parameter.grad_sample = None

    def _check_gradients(self, count: int) -> None:
        names = {id(parameter): name for name, parameter in self._wrapped._module.named_parameters()}
        for parameter in self.optimiser.params:
            gradients = parameter.grad_sample
            if not isinstance(gradients, Tensor) or len(gradients) != count:
                raise _unsupported(f"no per-row gradients for {names[id(parameter)]}")


class PlainSteps(ClippedSteps[list[int]]):
    """Ordinary steps with clipped gradients, on batches of rows of similar length, each row once per epoch."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, lengths: Sequence[int], batch_size: int, clip: float = 1.0
    ) -> None:
        super().__init__(optimiser, clip)
        self._lengths, self._batch_size = lengths, batch_size
        self.steps_an_epoch = -(-len(lengths) // batch_size)

    def batches(self, stream: random.Random) -> list[list[int]]:
        """Draw an epoch's batches, as lists of row indices."""
        return bucketed(self._lengths, self._batch_size, stream)

    def epsilon(self) -> None:
        """Return None: there is no privacy guarantee."""

    def guarantee(self) -> None:
        """Return None: there is no privacy guarantee."""

    def close(self) -> None:
        """Do nothing: the model has no hooks."""


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
    """Return DP-SGD steps if ``private`` is given, otherwise ordinary steps.

    Args:
        model: The model.
        optimiser: The optimizer of its parameters.
        private: Options of DP-SGD.
        lengths: The lengths of the training rows.
        batch_size: Number of rows in a batch; for DP-SGD the mean.
        epochs: Planned number of epochs.
        seed: Random seed of the noise.
        clip: Maximum norm of the gradients in ordinary steps.

    Returns:
        The steps.
    """
    if private is None:
        return PlainSteps(optimiser, lengths, batch_size, clip)
    sizes = {"rows": len(lengths), "batch_size": batch_size, "epochs": epochs}
    return PrivateSteps(model.train(), optimiser, private, **sizes, seed=seed)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model inside the wrappers of Opacus and ``DistributedDataParallel``, after training.

    Without the wrappers the names of weights do not begin with ``_module.`` or ``module.``, so that ``from_pretrained``
    and the harness can load the saved model. Opacus' hooks are removed.
    """
    while list(model._modules) in (["_module"], ["module"]):
        (inner,) = model.children()
        remove_hooks: Any = getattr(model, "to_standard_module", None)
        if remove_hooks is not None:
            remove_hooks()
        model = inner
    return model


def per_row_ids(model: torch.nn.Module) -> list[RemovableHandle]:
    """Add hooks that expand ids shared by all rows to [rows, length]. Return the hooks.

    BERT looks up position embeddings once for the whole batch, [1, length], but for per-row gradients the first
    dimension must be the rows.
    """
    seen = {"rows": 1}

    def count_rows(_: torch.nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        seen["rows"] = len(args[0] if args else inputs["input_ids"])

    def repeat(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        shared = inputs[0].dim() == 2 and len(inputs[0]) == 1
        return (inputs[0].expand(seen["rows"], -1),) if shared else None

    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return [
        model.register_forward_pre_hook(count_rows, with_kwargs=True),
        *(embedding.register_forward_pre_hook(repeat) for embedding in embeddings),
    ]


def _noise(privacy: DpConfig, rate: float, steps: int) -> float:
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    from opacus.accountants.utils import get_noise_multiplier

    try:
        with warnings.catch_warnings():
            # The search also tries larger noise, for which a larger order would be tighter, and warns about it.
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
        raise OptionError(
            f"epsilon is {privacy.epsilon}: no noise is large enough ({error}): give a larger epsilon"
        ) from None


def _wrap(opacus: Any, model: torch.nn.Module) -> GradSampleModule:
    errors = opacus.validators.ModuleValidator.validate(model, strict=False)
    if errors:
        raise _unsupported(str(errors[0]).splitlines()[0])
    # strict=True would reject all buffers, such as BERT's position ids. The validation rejects trained buffers.
    return opacus.GradSampleModule(model, strict=False, loss_reduction="mean")


def _unsupported(reason: str) -> LeakageError:
    return LeakageError(
        f"DP-SGD cannot train this model ({reason}): freeze or replace that layer, or train without DP-SGD"
    )


def check_opacus() -> None:
    """Raise LeakageError if Opacus is not installed."""
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
