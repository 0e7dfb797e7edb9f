"""Settings of the tuning of a soft prompt. The defaults are of Ethicist (Zhang et al. 2023), Appendix A."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from leakage_tasks.core.errors import OptionError

INITS = ("vocabulary", "random")
WARMUP = 500


@dataclass(frozen=True)
class PromptSettings:
    """Settings of :func:`~leakage_tasks.training.prompt.tuning.tune_prompt`. Raises OptionError for an invalid value.

    The paper states no patience, weight decay or initial prompt; these defaults are ours (the decay is PyTorch's).
    """

    length: int = 100
    """Number of vectors in the prompt."""
    epochs: int = 20
    """Maximum number of epochs; the learning rate decays until the last of them."""
    batch_size: int = 32
    """Number of pairs in a step."""
    accumulation: int = 1
    """Number of parts in which a step is computed: more parts need less memory and give an equal gradient."""
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: int | None = None
    """Number of steps over which the learning rate rises; None: the paper's 500, at most a tenth of all steps."""
    alpha: float = 0.7
    """Weight of the smoothing loss; 0 disables it."""
    hardest: int = 5
    """N, the number of tokens of a suffix in the smoothing loss; 0 disables it."""
    patience: int = 3
    """Number of epochs without a lower validation loss after which tuning stops."""
    init: str = "vocabulary"
    """``vocabulary``: embeddings of random tokens; ``random``: normal draws, as PEFT's RANDOM."""
    init_tokens: tuple[int, ...] = ()
    """Tokens whose embeddings are the initial prompt instead of ``init``, repeated or cut to the prompt's length."""
    bf16: bool = False
    """True to compute under bfloat16 autocast; the prompt itself is always float32."""
    seed: int = 0
    """Random seed of the initial prompt and the order of the pairs."""

    def __post_init__(self) -> None:
        for name in ("length", "epochs", "batch_size", "accumulation", "patience"):
            self._check(name, int, 1)
        for name in ("hardest", "seed"):
            self._check(name, int, 0)
        for name in ("alpha", "weight_decay", "learning_rate"):
            self._check(name, float, 0)
        if self.learning_rate == 0:
            raise OptionError("learning_rate=0 would not train the prompt: give a number above 0, such as 0.001")
        if self.warmup is not None:
            self._check("warmup", int, 0)
        if self.accumulation > self.batch_size:
            raise OptionError(
                f"accumulation={self.accumulation} is more than the batch size: give {self.batch_size} or less"
            )
        if self.init not in INITS:
            raise OptionError(f"init={self.init!r}: expected {' or '.join(INITS)}")

    def _check(self, name: str, kind: type, least: int) -> None:
        value = getattr(self, name)
        fits = isinstance(value, int) or (kind is float and isinstance(value, float) and isfinite(value))
        if isinstance(value, bool) or not fits or value < least:
            expected = "a whole number" if kind is int else "a number"
            raise OptionError(f"{name}={value!r}: expected {expected} from {least}: correct it or leave it out")

    def part_size(self) -> int:
        """Return the number of pairs in a part of a step."""
        return -(-self.batch_size // self.accumulation)

    def steps(self, pairs: int) -> int:
        """Return the number of steps in all epochs with ``pairs`` training pairs."""
        return self.epochs * -(-pairs // self.batch_size)

    def warmup_of(self, steps: int) -> int:
        """Return the number of warm-up steps among ``steps``. Raises OptionError if no step would follow them."""
        if self.warmup is None:
            return min(WARMUP, steps // 10)
        if self.warmup >= steps:
            raise OptionError(
                f"warmup={self.warmup} is not less than the total of {steps} steps: give fewer, or leave it out for a "
                "tenth"
            )
        return self.warmup

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of ``step`` (from 0): linear warm-up, then linear decay to 0."""
        warmup = self.warmup_of(steps)
        share = (step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup)
        return self.learning_rate * share

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self) | {"init_tokens": list(self.init_tokens)}
