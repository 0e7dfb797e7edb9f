"""``leakage quantize``: round the weights of a saved model and report the rounding errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from leakage_tasks.research.victims.quantize import Quantized


def quantize_command(
    model: Annotated[str, typer.Argument(help="Saved transformers model, a folder or hub name. It is not changed.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the rounded model.")],
    levels: Annotated[
        int, typer.Option(help="Number of different values per tensor; 256 values need 8 bits per weight.")
    ] = 256,
) -> None:
    """Round each weight of a model to one of a few values. This is no defence against leakage: audit the result."""
    from leakage_tasks.core.steady import unchanged
    from leakage_tasks.research.victims.quantize import check_levels, quantize
    from leakage_tasks.training.saved_model import check_output, load_saved, save

    folder = output.resolve()
    check_levels(levels)
    check_output(folder, model)
    with unchanged(Path(model)):
        loaded, tokenizer = load_saved(model)
        done = quantize(loaded, levels)
    save(loaded, tokenizer, folder, like=Path(model))
    for line in lines(done):
        typer.echo(line)
    typer.echo(
        summary(done, output)
        + ("" if tokenizer else "; the model has no tokenizer of its own: pass the original one to later commands")
    )


def lines(done: Quantized) -> list[str]:
    """Return a table of the rounding, one line per kind of tensor."""
    kinds = [row.kind for row in done.rounding]
    width = max([len("weights of"), *map(len, kinds)])
    head = f"{'weights of':{width}}  {'tensors':>7}  {'weights':>13}  {'widest step':>11}  {'worst':>9}  {'mean':>9}"
    return [head] + [
        f"{row.kind:{width}}  {row.tensors:>7,}  {row.weights:>13,}  {row.step:>11.3g}  {row.worst:>9.3g}  "
        f"{row.mean:>9.3g}"
        for row in done.rounding
    ]


def summary(done: Quantized, output: Path) -> str:
    """Return one line with the sizes of the model."""
    return (
        f"{output}: {done.weights:,} weights, {done.levels:,} values a tensor at most; {done.stored_bytes:,} bytes as "
        f"saved, {done.packed_bytes:,} at {done.bits} bits a weight, {done.zlib_bytes:,} by zlib (the "
        "folder stores full-size numbers, so that any tool can load the model)"
    )
