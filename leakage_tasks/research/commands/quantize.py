"""``leakage quantize``: a saved model in, the same with rounded weights out, and what the rounding did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from leakage_tasks.research.victims.quantize import Quantized


def quantize_command(
    model: Annotated[str, typer.Argument(help="Saved transformers model: folder or hub name; not changed.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the rounded model.")],
    levels: Annotated[int, typer.Option(help="Different values a tensor's weights may have; 256 take 8 bits.")] = 256,
) -> None:
    """Force each weight of a model to one of a few values, as a regularizer that is no defence: audit it and see."""
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.research.victims.quantize import check_levels, quantize
    from leakage_tasks.training.saved_model import check_output, load_saved, save

    place = output.resolve()
    check_levels(levels)
    check_output(place, model)
    with unchanged(Path(model)):
        loaded, tokenizer = load_saved(model)
        done = quantize(loaded, levels)
    save(loaded, tokenizer, place, like=Path(model))
    for line in lines(done):
        typer.echo(line)
    typer.echo(summary(done, output) + ("" if tokenizer else "; no tokenizer lies beside the model: name its own"))


def lines(done: Quantized) -> list[str]:
    """A table of the rounding, a line a kind of tensor."""
    kinds = [each.kind for each in done.rounding]
    width = max([len("weights of"), *map(len, kinds)])
    head = f"{'weights of':{width}}  {'tensors':>7}  {'weights':>13}  {'widest step':>11}  {'worst':>9}  {'mean':>9}"
    return [head] + [
        f"{each.kind:{width}}  {each.tensors:>7,}  {each.weights:>13,}  {each.step:>11.3g}  {each.worst:>9.3g}  "
        f"{each.mean:>9.3g}"
        for each in done.rounding
    ]


def summary(done: Quantized, output: Path) -> str:
    """One line: the sizes, and how the file holds them."""
    return (
        f"{output}: {done.weights:,} weights, {done.levels:,} values a tensor at most; {done.stored_bytes:,} bytes as "
        f"saved, {done.packed_bytes:,} at {done.bits} bits a weight, {done.zlib_bytes:,} by zlib (the "
        "folder holds them as numbers of full size, so that anything loads it)"
    )
