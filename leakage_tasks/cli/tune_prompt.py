"""``leakage tune-prompt``: options in, one call into the library, a prompt's folder out."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.pair_options import Data, PrefixLength, SuffixLength, TextColumn, read_pairs
from leakage_tasks.cli.registry import register_command
from leakage_tasks.training.prompt.settings import WARMUP, PromptSettings

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.training.prompt.files import TunedPrompt

DEFAULT = PromptSettings()


@register_command("tune-prompt", 5)
def tune_command(
    model: Annotated[str, typer.Option(help="Causal language model to tune for: folder or hub name; not changed.")],
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the prompt, a PEFT adapter.")],
    prefix_length: PrefixLength = None,
    suffix_length: SuffixLength = None,
    tokenizer: Annotated[str | None, typer.Option(help="For text (default: the model's own).")] = None,
    text_column: TextColumn = "text",
    prompt_length: Annotated[int, typer.Option(help="Vectors in the prompt.")] = DEFAULT.length,
    epochs: Annotated[int, typer.Option(help="The most epochs.")] = DEFAULT.epochs,
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a lower validation loss.")
    ] = DEFAULT.patience,
    batch_size: Annotated[int, typer.Option(help="Pairs a step.")] = DEFAULT.batch_size,
    accumulation: Annotated[
        int, typer.Option(help="Compute a step in so many parts: less memory, same gradient.")
    ] = DEFAULT.accumulation,
    learning_rate: Annotated[float, typer.Option(help="AdamW's, at its highest.")] = DEFAULT.learning_rate,
    weight_decay: Annotated[float, typer.Option(help="AdamW's.")] = DEFAULT.weight_decay,
    warmup: Annotated[
        int | None, typer.Option(help=f"Steps the rate rises over (default: {WARMUP}, at most a tenth of all).")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the smoothing loss; 0: none.")] = DEFAULT.alpha,
    hardest: Annotated[int, typer.Option(help="N, the tokens of a suffix it is the mean of.")] = DEFAULT.hardest,
    init: Annotated[str, typer.Option(help="Start from vocabulary (random tokens) or random vectors.")] = DEFAULT.init,
    init_text: Annotated[str | None, typer.Option(help="Start from the tokens of this text instead.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same prompt.")] = DEFAULT.seed,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    dtype: Annotated[str, typer.Option(help="Load the weights in auto (as saved), float32 or bfloat16.")] = "auto",
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute under bfloat16 autocast.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of a run cut short.")] = False,
    revision: Annotated[str | None, typer.Option(help="Of the model and its tokenizer, on the hub.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False,
) -> None:
    """Tune a soft prompt that draws suffixes out of a model: lm_eval takes it as --model soft-prompt or peft=."""
    given = dict(locals())

    def chosen(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names}

    known = (each.name for each in fields(PromptSettings) if each.name in given)
    settings = PromptSettings(length=prompt_length, **chosen(*known))
    source = chosen("data", "prefix_length", "suffix_length", "text_column") | {"tokenizer": tokenizer or model}
    loading = chosen("device", "dtype", "revision", "trust_remote_code")
    _Job(model, output, resume, source, loading).run(settings, init_text)


class _Job:
    """One run of the command."""

    def __init__(self, base: str, output: Path, resume: bool, source: dict[str, Any], loading: dict[str, Any]) -> None:
        self.base, self.output, self.resume, self.source, self.loading = base, output, resume, source, loading
        place = output.resolve()
        self.checkpoint = place.with_name(f"{place.name}.checkpoint.safetensors")

    def run(self, settings: PromptSettings, init_text: str | None) -> None:
        """Check what can be checked before anything is loaded, tune, save, and put the checkpoint away."""
        from leakage_tasks.core.stable_inputs import unchanged
        from leakage_tasks.training.prompt.files import check_checkpoint, check_output

        check_output(self.output.resolve())
        check_checkpoint(self.checkpoint, self.resume)
        data = Path(self.source["data"])
        with unchanged(data):
            training, validation = (read_pairs(split=split, **self.source) for split in ("train", "validation"))
        settings = _starting_from(init_text, self.source["tokenizer"], settings)
        _announce(settings, training, validation)
        tuned = self._tune(settings, training, validation)
        tuned.save(self.output, self.base, like=data)
        self.checkpoint.unlink(missing_ok=True)
        typer.echo(_summary(tuned, self.output, self.base))

    def _tune(self, settings: PromptSettings, training: tuple[Pair, ...], validation: tuple[Pair, ...]) -> TunedPrompt:
        from leakage_tasks.models.loading import load_causal
        from leakage_tasks.training.prompt.tuning import tune_prompt

        model = load_causal(self.base, **self.loading)
        place = self.checkpoint
        try:
            return tune_prompt(model, training, validation, settings, checkpoint=place, resume=self.resume)
        except KeyboardInterrupt:
            if place.exists():
                typer.echo(f"leakage: stopped; --resume goes on from {place}", err=True)
            raise


def _starting_from(text: str | None, tokenizer: str, settings: PromptSettings) -> PromptSettings:
    from leakage_tasks.canaries.alphabets import load_tokenizer
    from leakage_tasks.core.errors import OptionError

    if text is None:
        return settings
    tokens = load_tokenizer(tokenizer)(text, add_special_tokens=False)["input_ids"]
    if not tokens:
        raise OptionError(f"init-text={text!r}: holds no token: give some words, or leave it out")
    return replace(settings, init_tokens=tuple(tokens))


def _announce(settings: PromptSettings, training: tuple[Pair, ...], validation: tuple[Pair, ...]) -> None:
    steps = settings.steps(len(training))
    warmup = settings.warmup_of(steps)
    why = f" (a tenth; the paper takes {WARMUP})" if settings.warmup is None and warmup < WARMUP else ""
    typer.echo(
        f"{len(training):,} training and {len(validation):,} validation pairs; at most {steps:,} steps, the first "
        f"{warmup:,} of them warm-up{why}"
    )


def _summary(tuned: TunedPrompt, output: Path, base: str) -> str:
    first, best = tuned.losses[0].validation, tuned.losses[tuned.best_epoch - 1].validation
    epochs = f"{len(tuned.losses)}, stopped early" if tuned.stopped_early else f"{len(tuned.losses)}"
    return (
        f"{output}: {len(tuned.prompt)} vectors for {base}, from epoch {tuned.best_epoch} of {epochs}; on validation "
        f"MLE {best.mle:.3f}, smoothing {best.smoothing:.3f} bits/token (after epoch 1: {first.mle:.3f}, "
        f"{first.smoothing:.3f})"
    )
