"""``leakage train-nlu``: train a model that predicts the intent and the slots of utterances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.help import RESEARCH, in_panel
from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.nouns import counted
from leakage_tasks.training.saved_model import check_output
from leakage_tasks.training.tagger.recipe import DEFAULT, NLURecipe

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary
    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.tagger.trainer import TrainedTagger

EPOCHS_WITH_PATIENCE = 100
"""Default number of epochs with early stopping."""
MODEL, TRAINING = "The model", "Training"
DP_SGD = "DP-SGD"
_DP_OPTIONS = ("epsilon", "noise_multiplier", "delta", "max_grad_norm")


@register_command("train-nlu", RESEARCH, 1, example="leakage train-nlu planted -o tagger --canaries canaries.jsonl")
def train_nlu_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Utterances: a folder with seq.in, seq.out and label, a .conll file, or a folder with train, valid "
            "and test of either kind."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model.")],
    validation: Annotated[
        Path | None, typer.Option(help="Utterances for early stopping (default: valid in DATA).")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Utterances for the final score (default: test in DATA).")] = None,
    canaries: Annotated[
        Path | None, typer.Option(help="Manifest; all values of its canaries' slots join the vocabulary.")
    ] = None,
    words: Annotated[Path | None, typer.Option(help="File of words that join the vocabulary, one per line.")] = None,
    epochs: Annotated[
        int | None,
        in_panel(
            TRAINING, f"Maximum number of epochs (default: {DEFAULT.epochs}; {EPOCHS_WITH_PATIENCE} with --patience)."
        ),
    ] = None,
    batch_size: Annotated[int, in_panel(TRAINING, "Number of utterances per step.")] = DEFAULT.batch_size,
    learning_rate: Annotated[float, in_panel(TRAINING, "Learning rate of Adam.")] = DEFAULT.learning_rate,
    dropout: Annotated[
        float, in_panel(TRAINING, "Dropout of embeddings and of the output of each layer.")
    ] = DEFAULT.dropout,
    characters: Annotated[bool, in_panel(MODEL, "Also read the characters of each word.", "--characters")] = False,
    patience: Annotated[
        int | None,
        in_panel(
            TRAINING, "Stop after this number of epochs without a lower validation loss, and keep the best model."
        ),
    ] = DEFAULT.patience,
    embeddings: Annotated[
        str | None, in_panel(MODEL, "Initial word vectors: FastText .vec or GloVe .txt, gzipped or not.")
    ] = None,
    frozen: Annotated[bool, in_panel(MODEL, "Do not train the word vectors.", "--frozen")] = False,
    embedding_size: Annotated[
        int | None,
        in_panel(MODEL, f"Size of a word vector (default: {DEFAULT.embedding_size}, or the size in --embeddings)."),
    ] = None,
    hidden_size: Annotated[int, in_panel(MODEL, "Number of units per layer and direction.")] = DEFAULT.hidden_size,
    layers: Annotated[int, in_panel(MODEL, "Number of bi-LSTM layers.")] = DEFAULT.layers,
    seed: Annotated[int, in_panel(TRAINING, "Random seed; on a CPU, one seed always gives one model.")] = 0,
    device: Annotated[str, in_panel(TRAINING, "auto, cpu, cuda, cuda:1, …")] = "auto",
    epsilon: Annotated[float | None, in_panel(DP_SGD, "Train with DP-SGD and this total ε.")] = None,
    noise_multiplier: Annotated[float | None, in_panel(DP_SGD, "Train with DP-SGD and this noise multiplier.")] = None,
    delta: Annotated[float | None, in_panel(DP_SGD, "δ of the guarantee (default: 1e-5).")] = None,
    max_grad_norm: Annotated[
        float | None, in_panel(DP_SGD, "Norm to which the gradient of each row is clipped (default: 1).")
    ] = None,
) -> None:
    """Train a model that predicts intents and slots.

    lm_eval takes the model as --model nlu-tagger.
    """
    options = dict(locals())
    recipe = _recipe(options)
    folder = output.resolve()
    check_output(folder)
    from leakage_tasks.models.loading import resolve_device
    from leakage_tasks.training.tagger.recipe import read_nlu_data
    from leakage_tasks.training.tagger.trainer import train_tagger

    torch_device, private = resolve_device(device, in_double="a tagger"), _dp_config(options)
    planted, vocabulary = _vocabulary(canaries, words)
    rows = read_nlu_data(data, validation, test)
    trained = train_tagger(
        rows.training, rows.validation, recipe, words=vocabulary, seed=seed, device=torch_device, private=private
    )
    trained.save(folder, like=data)
    typer.echo(_summary(trained, output))
    for name, split in (("validation", rows.validation), ("test", rows.test)):
        if split:
            typer.echo(_scores(name, trained, split))
    if trained.guarantee is not None:
        limits = "" if recipe.patience is None else "; it does not cover the validation rows, which chose the epoch"
        typer.echo(trained.guarantee.describe(_most_copies(planted, rows.training)) + limits)


def _recipe(options: Mapping[str, Any]) -> NLURecipe:
    epochs = {} if options["patience"] is None else {"epochs": EPOCHS_WITH_PATIENCE}
    names = [field.name for field in fields(NLURecipe)]
    chosen = epochs | {name: options[name] for name in names if options[name] is not None}
    if {"embeddings", "embedding_size"} <= chosen.keys():
        raise OptionError("--embedding-size is the size of the vectors in --embeddings: leave it out")
    if options["frozen"] and options["embeddings"] is None:
        raise OptionError("--frozen keeps the word vectors of --embeddings: add --embeddings FILE, or leave it out")
    return NLURecipe(**chosen)


def _dp_config(options: Mapping[str, Any]) -> DpConfig | None:
    """Return the settings of DP-SGD, or None without any of its options."""
    chosen = {name: options[name] for name in _DP_OPTIONS if options[name] is not None}
    if not chosen:
        return None
    if {"epsilon", "noise_multiplier"} <= chosen.keys():
        raise OptionError("--noise-multiplier sets the noise that --epsilon computes: leave one of them out")
    if not {"epsilon", "noise_multiplier"} & chosen.keys():
        option = next(iter(chosen)).replace("_", "-")
        raise OptionError(
            f"--{option} is for DP-SGD: add --epsilon or --noise-multiplier, such as --epsilon 8, or leave it out"
        )
    from leakage_tasks.training.dp.private import DpConfig

    return DpConfig(**chosen)


def _vocabulary(manifest: Path | None, words: Path | None) -> tuple[list[Canary], set[str]]:
    """Return the canaries of a manifest, and their slots' values with the words of a file."""
    from leakage_tasks.canaries.alphabets import word_file
    from leakage_tasks.canaries.manifest import read_manifest

    canaries = [] if manifest is None else read_manifest(manifest)
    values = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return canaries, values if words is None else values.union(word_file("words", words).values)


def _most_copies(canaries: Sequence[Canary], rows: Sequence[Utterance]) -> int:
    """Return the largest number of ``rows`` that hold one canary, at least 1.

    The repetitions in the manifest may differ: some copies went to the validation data, or the rows were not planted.
    """
    texts = Counter(row.text for row in rows)
    return max([1, *(texts[" ".join(canary.text.split())] for canary in canaries)])


def _summary(trained: TrainedTagger, output: Path) -> str:
    config: Any = trained.model.config
    return (
        f"{output}: {config.vocab_size:,} words, {config.num_labels:,} intents, {len(config.tags):,} tags; weights of "
        f"epoch {trained.best_epoch} of {len(trained.history)}"
    )


def _scores(name: str, trained: TrainedTagger, rows: Sequence[Utterance]) -> str:
    """Return one line with the accuracy, F1 and loss of the model on ``rows``."""
    from leakage_tasks.training.tagger.trainer import score_tagger

    scores = score_tagger(trained.model, trained.tokenizer, rows)
    loss = "no loss" if scores.loss is None else f"loss {scores.loss:.3f} nats an utterance"
    outside = scores.rows - scores.priced
    left_out = f" (without {counted(outside, 'row')} whose intents or tags are unknown)" if outside else ""
    return (
        f"{name}: intent accuracy {scores.intent_accuracy:.4f} ({scores.intents_right:,} of {scores.rows:,}), "
        f"slot F1 {scores.slot_f1:.4f}, {loss}{left_out}"
    )
