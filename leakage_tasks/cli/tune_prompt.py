"""``leakage tune-prompt``: tune a soft prompt that makes a model emit memorized suffixes."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.help import AUDIT, in_panel
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Data, PrefixLength, SuffixLength, TextColumn, read_pairs
from leakage_tasks.training.prompt.settings import WARMUP, PromptSettings

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.training.prompt.files import TunedPrompt

DEFAULT = PromptSettings()
PROMPT = "The prompt and its loss"
TRAINING = "Training"
MODEL = "Loading the model"


@register_command("tune-prompt", AUDIT, 3, example="leakage tune-prompt --model ./model --data pairs.jsonl -o prompt")
def tune_command(
    model: Annotated[
        str, typer.Option(help="Causal language model, a folder or a name on the hub. The model does not change.")
    ],
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the prompt, in the format of a PEFT adapter.")
    ],
    prefix_length: PrefixLength = None,
    suffix_length: SuffixLength = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer, if --data holds text (default: the model's).")
    ] = None,
    text_column: TextColumn = "text",
    prompt_length: Annotated[int, in_panel(PROMPT, "Number of vectors in the prompt.", min=1)] = DEFAULT.length,
    epochs: Annotated[int, in_panel(TRAINING, "Maximum number of epochs.")] = DEFAULT.epochs,
    patience: Annotated[
        int, in_panel(TRAINING, "Stop after this number of epochs without a lower validation loss.")
    ] = DEFAULT.patience,
    batch_size: Annotated[int, in_panel(TRAINING, "Number of pairs per optimizer step.")] = DEFAULT.batch_size,
    accumulation: Annotated[
        int,
        in_panel(TRAINING, "Split each step into this number of parts, to save memory; the gradient does not change."),
    ] = DEFAULT.accumulation,
    learning_rate: Annotated[float, in_panel(TRAINING, "Highest learning rate of AdamW.")] = DEFAULT.learning_rate,
    weight_decay: Annotated[float, in_panel(TRAINING, "Weight decay of AdamW.")] = DEFAULT.weight_decay,
    warmup: Annotated[
        int | None, in_panel(TRAINING, f"Number of warm-up steps (default: {WARMUP}, at most a tenth of all steps).")
    ] = None,
    alpha: Annotated[float, in_panel(PROMPT, "Weight of the smoothing loss; 0 turns it off.")] = DEFAULT.alpha,
    hardest: Annotated[
        int, in_panel(PROMPT, "Number N of suffix tokens over which the smoothing loss is averaged.")
    ] = DEFAULT.hardest,
    init: Annotated[
        str, in_panel(PROMPT, "Initial vectors: vocabulary (embeddings of random tokens) or random.")
    ] = DEFAULT.init,
    init_text: Annotated[
        str | None, in_panel(PROMPT, "Initial vectors: the embeddings of this text, instead of --init.")
    ] = None,
    seed: Annotated[int, in_panel(TRAINING, "Random seed.")] = DEFAULT.seed,
    device: Annotated[str, in_panel(MODEL, "auto, cpu, cuda, cuda:1, …")] = "auto",
    dtype: Annotated[str, in_panel(MODEL, "Type of the weights: auto (as saved), float32 or bfloat16.")] = "auto",
    bf16: Annotated[bool, in_panel(MODEL, "Compute under bfloat16 autocast.", "--bf16")] = False,
    resume: Annotated[
        bool, in_panel(TRAINING, "Continue from the checkpoint of an interrupted run.", "--resume")
    ] = False,
    revision: Annotated[str | None, in_panel(MODEL, "Revision of the model and its tokenizer on the hub.")] = None,
    trust_remote_code: Annotated[
        bool, in_panel(MODEL, "Run code from the model's repository.", "--trust-remote-code")
    ] = False,
) -> None:
    """Tune a soft prompt for the extraction of suffixes.

    The prompt makes the model emit memorized suffixes. lm_eval takes it as --model soft-prompt or as peft=.
    """
    options = dict(locals())

    def chosen(*names: str) -> dict[str, Any]:
        return {name: options[name] for name in names}

    known = (field.name for field in fields(PromptSettings) if field.name in options)
    settings = PromptSettings(length=prompt_length, **chosen(*known))
    source = chosen("data", "prefix_length", "suffix_length", "text_column") | {"tokenizer": tokenizer or model}
    loading = chosen("device", "dtype", "revision", "trust_remote_code")
    _Job(model, output, resume, source, loading).run(settings, init_text)


class _Job:
    """A run of the command."""

    def __init__(self, base: str, output: Path, resume: bool, source: dict[str, Any], loading: dict[str, Any]) -> None:
        self.base, self.output, self.resume, self.source, self.loading = base, output, resume, source, loading
        folder = output.resolve()
        self.checkpoint = folder.with_name(f"{folder.name}.checkpoint.safetensors")

    def run(self, settings: PromptSettings, init_text: str | None) -> None:
        """Check the arguments before the model is loaded, then tune, save, and remove the checkpoint."""
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
        try:
            return tune_prompt(model, training, validation, settings, checkpoint=self.checkpoint, resume=self.resume)
        except KeyboardInterrupt:
            if self.checkpoint.exists():
                typer.echo(f"leakage: stopped; --resume continues from {self.checkpoint}", err=True)
            raise


def _starting_from(text: str | None, tokenizer: str, settings: PromptSettings) -> PromptSettings:
    from leakage_tasks.canaries.alphabets import load_tokenizer
    from leakage_tasks.core.errors import OptionError

    if text is None:
        return settings
    tokens = load_tokenizer(tokenizer)(text, add_special_tokens=False)["input_ids"]
    if not tokens:
        raise OptionError(f"--init-text is {text!r}, which has no tokens: give some words, or leave it out")
    return replace(settings, init_tokens=tuple(tokens))


def _announce(settings: PromptSettings, training: tuple[Pair, ...], validation: tuple[Pair, ...]) -> None:
    steps = settings.steps(len(training))
    warmup = settings.warmup_of(steps)
    reason = f" (a tenth; the paper uses {WARMUP})" if settings.warmup is None and warmup < WARMUP else ""
    typer.echo(
        f"{len(training):,} training and {len(validation):,} validation pairs; at most {steps:,} steps, the first "
        f"{warmup:,} of them warm-up{reason}"
    )


def _summary(tuned: TunedPrompt, output: Path, base: str) -> str:
    first, best = tuned.losses[0].validation, tuned.losses[tuned.best_epoch - 1].validation
    epochs = f"{len(tuned.losses)}, stopped early" if tuned.stopped_early else f"{len(tuned.losses)}"
    return (
        f"{output}: {len(tuned.prompt)} vectors for {base}, from epoch {tuned.best_epoch} of {epochs}; on validation "
        f"MLE {best.mle:.3f}, smoothing {best.smoothing:.3f} bits/token (after epoch 1: {first.mle:.3f}, "
        f"{first.smoothing:.3f})"
    )
