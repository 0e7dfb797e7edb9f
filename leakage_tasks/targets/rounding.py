"""Measurement of a model's rounding noise by plain passes over equal tokens.

Three passes that differ only by rounding are compared: each text alone, all texts in one batch, and this batch within a
larger one. The size of a batch selects the kernels, and so the order of sums; in 16 bits the passes therefore differ.
On some machines they agree by chance. The noise then comes from a pass whose layer outputs are moved at random by up to
half a unit in the last place, like another order of summation would. On SmolLM2-135M this pass predicts the difference
between bfloat16 and float32 within a factor of 1.5.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.core.log import log
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import BIAS, FACTOR, FACTOR_ONE, SHARED, Noise

SENTENCES = (
    "The train to the coast leaves every morning at eight.",
    "She put the kettle on and waited for the water to boil.",
    "We have not seen any rain since the middle of last month.",
    "If you turn left at the church, you will see the old mill.",
    "The committee will meet again in the first week of June.",
    "He was the only one of them who could read the map.",
    "Most of the books in this room belonged to my grandfather.",
    "It is much easier to ask for help than to do it all alone.",
)
LENGTH = 16
"""Maximum number of tokens of each measured text."""
REPEATED = 6
"""Number of copies of the texts in the larger batch, which then has 48 rows."""
LOGITS = 1 << 24
"""Maximum number of logits of the larger batch at the compared positions."""
PERTURBED = 4
"""Number of passes with random rounding over the texts of a compared pass."""
SAME_NATS, SAME_SHARE = 1e-4, 1e-5
"""Tolerated difference of two log-probabilities of one token: in nats, and as a share of the log-probability."""

Read = Callable[[Tensor, int], Tensor]
"""A function that runs a plain pass: logits ``[n, k, V]`` in float32 after the last k tokens of rows ``[n,
length]``."""


def explains(noise: Noise, fast: Sequence[Tensor], plain: Sequence[Tensor]) -> bool:
    """Return True if logits ``[n, …, V]`` of fast passes differ from plain ones by rounding alone.

    The root mean square over all rows may be :data:`FACTOR` times the noise of a token, that of one row
    :data:`FACTOR_ONE` times, and the mean over rows must be 0 within the bounds of :data:`BIAS`.
    """
    difference = torch.cat([bits_apart(*pair).flatten(0, -2) for pair in zip(fast, plain, strict=True)])
    rows = difference.square().mean(1).sqrt()
    bias = root_mean_square(difference.mean(0))
    # Compare by <=, so that NaN counts as a difference.
    return bool(
        root_mean_square(difference) <= FACTOR * noise.token_bits
        and float(rows.max()) <= FACTOR_ONE * noise.token_bits
        and bias <= max(BIAS / math.sqrt(len(rows)), SHARED) * noise.token_bits
    )


def same_logits(
    fast: Tensor, plain: Tensor, noise: Callable[[], Noise], module: Any, again: Callable[[], Tensor]
) -> bool:
    """Return True if logits of a pass equal plain ones up to rounding.

    A model rounds more on some texts than on others: after fine-tuning in 16 bits, the noise on texts like the
    training data was three times the noise on :data:`SENTENCES`. So if the model's noise does not explain a difference,
    the noise on the texts of the pass is measured.

    Args:
        fast: Logits ``[n, …, V]`` of the pass.
        plain: Logits of plain passes.
        noise: Returns the noise of the model; called if needed.
        module: The module that runs the passes.
        again: Repeats the plain passes.
    """
    costs, expected = fast.log_softmax(-1), plain.log_softmax(-1)
    apart = (costs - expected).abs()
    # Compare by <=, so that NaN counts as a difference.
    within = bool((apart <= SAME_NATS + SAME_SHARE * expected.abs()).all())
    if within or explains(noise(), [fast], [plain]) or explains(_noise_of(module, again, plain), [fast], [plain]):
        return True
    # One digit, because more would confirm a guess at a natural secret in the texts.
    log.debug("a pass is off by %.0e nats", float(apart.max()))
    return False


def _noise_of(module: Any, again: Callable[[], Tensor], plain: Tensor) -> Noise:
    """Measure the noise of plain passes by passes with random rounding; ``plain`` are their logits ``[n, …, V]``."""
    squares = 0.0
    with perturbed_rounding(module):
        for _ in range(PERTURBED):
            square = root_mean_square(bits_apart(again(), plain)) ** 2
            if not square:
                # Outputs of 32 bits are not perturbed.
                break
            squares += square
    return Noise(math.sqrt(squares / PERTURBED))


def bits_apart(one: Tensor, other: Tensor) -> Tensor:
    """Return differences in bits of all tokens' costs between two logits ``[…, V]``."""
    return (one.float().log_softmax(-1) - other.float().log_softmax(-1)) / LN2


def root_mean_square(values: Tensor) -> float:
    """Return the root mean square of all values; NaN if any value is NaN."""
    return float(values.float().square().mean().sqrt())


def text_rows(encode: Callable[[Sequence[str]], list[list[int]]], vocabulary: int, room: int) -> Tensor:
    """Return rows of tokens ``[n, length]`` of English sentences, or random rows if the tokenizer cannot encode these.

    All rows have equal length. ``vocabulary`` is the number of token ids that the model knows, ``room`` the number of
    tokens that it can read.
    """
    try:
        rows = encode(SENTENCES)
    except Exception:  # tokenizers of other alphabets raise errors of many types
        rows = []
    length = min([LENGTH, room, *map(len, rows)])
    if rows and length > 2 and all(token < vocabulary for row in rows for token in row[:length]):
        return torch.tensor([row[:length] for row in rows])
    random = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (len(SENTENCES), max(1, min(LENGTH, room))), generator=random)


def measure(module: Any, read: Read, rows: Tensor, vocabulary: int) -> Noise:
    """Measure the noise of a model by the plain pass ``read`` over token rows ``[n, length]``.

    ``module`` is the module that ``read`` calls. Rows have equal length, since a model may read padding.
    """
    positions = min(rows.shape[1], max(1, LOGITS // (REPEATED * len(rows) * vocabulary)))

    def costs(tokens: Tensor) -> Tensor:
        return read(tokens, positions)[: len(rows), -positions:]

    batched = costs(rows)
    others = [torch.cat([costs(row) for row in rows.split(1)])]
    try:
        others.append(costs(rows.repeat(REPEATED, 1)))
    except Exception as error:
        if not out_of_memory(error):
            raise
    with perturbed_rounding(module) as moved:
        if moved:
            others.append(costs(rows))
    differences = [root_mean_square(bits_apart(other, batched)) for other in others]
    # A NaN is a fault of the model, which other checks report.
    return Noise(max([0.0, *filter(math.isfinite, differences)]))


@contextlib.contextmanager
def perturbed_rounding(module: Any) -> Iterator[int]:
    """Move outputs of 16-bit layers at random by up to half a unit in the last place; yield the number of these layers.

    Outputs of 32 bits and the process' random numbers are unchanged.
    """
    layers = [part for part in _parts(module) if not list(part.children()) and _is_matrix(part)]
    numbers: dict[torch.device, torch.Generator] = {}

    def moved(layer: Any, inputs: Any, output: Any) -> Any:
        if not (isinstance(output, Tensor) and output.is_floating_point() and output.element_size() < 4):
            return None
        if output.device not in numbers:
            numbers[output.device] = torch.Generator(output.device).manual_seed(0)
        step = torch.finfo(output.dtype).eps / 2
        uniform = torch.rand(output.shape, generator=numbers[output.device], device=output.device)
        return (output.float() * (1 + step * (2 * uniform - 1))).to(output.dtype)

    with contextlib.ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(moved))
        yield len(layers)


def in_half_precision(model: Any, autocast: Any = None) -> bool:
    """Return True if a model computes in 16 bits or fewer, by its weights or by the mixed precision ``autocast``.

    Weights stored in few bits and unpacked for the computation count with the precision of the computation.
    """
    return autocast is not None or any(map(_coarse, _parts(model)))


def _coarse(module: torch.nn.Module) -> bool:
    computes_in = getattr(module, "compute_dtype", None)  # set by bitsandbytes' 4-bit layers
    if isinstance(computes_in, torch.dtype):
        return computes_in.itemsize < 4
    # An 8-bit layer of bitsandbytes also rounds its inputs to 8 bits, so its integers count.
    return any(parameter.element_size() < 4 for parameter in module.parameters(recurse=False))


def _parts(module: Any) -> list[Any]:
    return list(module.modules()) if hasattr(module, "modules") else []


def _is_matrix(part: Any) -> bool:
    weight = getattr(part, "weight", None)
    return isinstance(weight, Tensor) and weight.dim() == 2
