"""How a soft prompt is tuned: every setting of it, with Ethicist's (003) values, Appendix A, as defaults."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from leakage_tasks.core.errors import OptionError

INITS = ("vocabulary", "random")
WARMUP = 500


@dataclass(frozen=True)
class PromptSettings:
    """Settings of :func:`~leakage_tasks.training.prompt.tuning.tune_prompt`. Raises OptionError for one out of range.

    The paper gives no patience, weight decay or start of the prompt; those are ours (the decay is PyTorch's).
    """

    length: int = 100
    """Vectors in the prompt."""
    epochs: int = 20
    """The most epochs; the learning rate falls towards the last of them."""
    batch_size: int = 32
    """Pairs a step, however many parts the step is computed in."""
    accumulation: int = 1
    """Parts a step is computed in: more take less memory, the gradient stays the same."""
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: int | None = None
    """Steps over which the learning rate rises; None: the paper's 500, at most a tenth of all steps."""
    alpha: float = 0.7
    """Weight of the smoothing loss; 0: none."""
    hardest: int = 5
    """N, the tokens of a suffix that the smoothing loss is the mean of; 0: no smoothing loss."""
    patience: int = 3
    """Epochs without a lower validation loss after which tuning stops."""
    init: str = "vocabulary"
    """``vocabulary``: embeddings of random tokens; ``random``: normal draws, as PEFT's own RANDOM."""
    init_tokens: tuple[int, ...] = ()
    """Tokens to start from instead of ``init``, repeated or cut to the prompt's length."""
    bf16: bool = False
    """Compute under bfloat16 autocast; the prompt itself is always float32."""
    seed: int = 0
    """Of the first prompt and the order of the pairs."""

    def __post_init__(self) -> None:
        for name in ("length", "epochs", "batch_size", "accumulation", "patience"):
            self._check(name, int, 1)
        for name in ("hardest", "seed"):
            self._check(name, int, 0)
        for name in ("alpha", "weight_decay", "learning_rate"):
            self._check(name, float, 0)
        if self.learning_rate == 0:
            raise OptionError("learning_rate=0: nothing would be learnt: give a number above 0, such as 0.001")
        if self.warmup is not None:
            self._check("warmup", int, 0)
        if self.accumulation > self.batch_size:
            raise OptionError(
                f"accumulation={self.accumulation} is more than batch_size={self.batch_size}, which it divides: give "
                "as many parts as pairs at most"
            )
        if self.init not in INITS:
            raise OptionError(f"init={self.init!r}: expected {' or '.join(INITS)}")

    def _check(self, name: str, kind: type, least: int) -> None:
        value = getattr(self, name)
        fits = isinstance(value, int) or (kind is float and isinstance(value, float) and isfinite(value))
        if isinstance(value, bool) or not fits or value < least:
            what = "a whole number" if kind is int else "a number"
            raise OptionError(f"{name}={value!r}: expected {what} from {least}: correct it or leave it out")

    def part_size(self) -> int:
        """Pairs computed at once."""
        return -(-self.batch_size // self.accumulation)

    def steps(self, pairs: int) -> int:
        """Steps in all epochs over so many training pairs."""
        return self.epochs * -(-pairs // self.batch_size)

    def warmup_of(self, steps: int) -> int:
        """Warm-up steps of so many in all. Raises OptionError if those asked for leave no step after them."""
        if self.warmup is None:
            return min(WARMUP, steps // 10)
        if self.warmup >= steps:
            raise OptionError(
                f"warmup={self.warmup} is not less than all {steps} steps: give fewer, or leave it out for a tenth"
            )
        return self.warmup

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of ``step`` (from 0): a straight line up to ``learning_rate``, then one down to nothing."""
        warmup = self.warmup_of(steps)
        share = (step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup)
        return self.learning_rate * share

    def record(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self) | {"init_tokens": list(self.init_tokens)}
