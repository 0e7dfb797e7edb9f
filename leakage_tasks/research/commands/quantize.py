"""``leakage quantize``: round the weights of a saved model, and report the rounding errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import RESEARCH, command_help

if TYPE_CHECKING:
    from leakage_tasks.research.victims.quantize import Quantized


@command_help(RESEARCH, example="leakage quantize model -o rounded --levels 16")
def quantize_command(
    model: Annotated[
        str, typer.Argument(help="Saved transformers model, a folder or a name on the hub. The model does not change.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the rounded model.")],
    levels: Annotated[int, typer.Option(help="Number of different values per tensor; 256 values take 8 bits.")] = 256,
) -> None:
    """Round the weights of a model to a few values.

    Rounding is sometimes proposed as a defence: an audit of the rounded model shows if it reduces leakage.
    """
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.research.victims.quantize import check_levels, quantize
    from leakage_tasks.training.saved_model import check_output, load_saved, save

    folder = output.resolve()
    check_levels(levels)
    check_output(folder, model)
    with unchanged(Path(model)):
        loaded, tokenizer = load_saved(model)
        quantized = quantize(loaded, levels)
    save(loaded, tokenizer, folder, like=Path(model))
    for line in lines(quantized):
        typer.echo(line)
    typer.echo(
        summary(quantized, output) + ("" if tokenizer else "; the model has no tokenizer: name one for the audit")
    )


def lines(quantized: Quantized) -> list[str]:
    """Return a table of the rounding errors, one line for each kind of tensor."""
    kinds = [rounding.kind for rounding in quantized.rounding]
    width = max([len("weights of"), *map(len, kinds)])
    header = f"{'weights of':{width}}  {'tensors':>7}  {'weights':>13}  {'widest step':>11}  {'worst':>9}  {'mean':>9}"
    return [header] + [
        f"{rounding.kind:{width}}  {rounding.tensors:>7,}  {rounding.weights:>13,}  {rounding.step:>11.3g}  "
        f"{rounding.worst:>9.3g}  {rounding.mean:>9.3g}"
        for rounding in quantized.rounding
    ]


def summary(quantized: Quantized, output: Path) -> str:
    """Return one line with the number of weights and the sizes of the file."""
    return (
        f"{output}: {quantized.weights:,} weights, at most {quantized.levels:,} values per tensor; "
        f"{quantized.stored_bytes:,} bytes as saved, {quantized.packed_bytes:,} at {quantized.bits} bits per weight, "
        f"{quantized.zlib_bytes:,} by zlib (the folder holds full-size numbers, so that any program can load it)"
    )
