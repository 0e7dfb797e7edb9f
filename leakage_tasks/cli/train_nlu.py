"""``leakage train-nlu``: utterances in, an NLU tagger's folder out, and how well it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.saved_model import check_output
from leakage_tasks.training.tagger.recipe import DEFAULT, NLURecipe

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary
    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.tagger.trainer import TrainedTagger

STOPPED = 100
"""Epochs where early stopping is to end them."""
_PRIVATE = ("epsilon", "noise_multiplier", "delta", "max_grad_norm")


@register_command("train-nlu", 6)
def train_nlu_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Utterances: a folder of seq.in, seq.out and label, a .conll file, or a folder with train, valid and "
            "test of either kind."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model.")],
    validation: Annotated[Path | None, typer.Option(help="Utterances to stop by (default: valid in DATA).")] = None,
    test: Annotated[Path | None, typer.Option(help="Utterances to score at the end (default: test in DATA).")] = None,
    canaries: Annotated[
        Path | None, typer.Option(help="Manifest; the model knows all values of its canaries' slots.")
    ] = None,
    words: Annotated[Path | None, typer.Option(help="File of words to know besides, one a line.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help=f"The most epochs (default: {DEFAULT.epochs}; {STOPPED} with --patience).")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Utterances a step.")] = DEFAULT.batch_size,
    learning_rate: Annotated[float, typer.Option(help="Adam's.")] = DEFAULT.learning_rate,
    dropout: Annotated[float, typer.Option(help="Of embeddings and of what each layer passes on.")] = DEFAULT.dropout,
    characters: Annotated[bool, typer.Option("--characters", help="Read each word's characters as well.")] = False,
    patience: Annotated[
        int | None,
        typer.Option(help="Early stopping: end after so many epochs without a lower validation loss, keep the lowest."),
    ] = DEFAULT.patience,
    embeddings: Annotated[
        str | None, typer.Option(help="Word vectors to start from: FastText .vec or GloVe .txt, gzipped or not.")
    ] = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="Keep the word vectors as they are.")] = False,
    embedding_size: Annotated[
        int | None, typer.Option(help=f"Of a word (default: {DEFAULT.embedding_size}, or that of --embeddings).")
    ] = None,
    hidden_size: Annotated[int, typer.Option(help="Units of a layer, each direction.")] = DEFAULT.hidden_size,
    layers: Annotated[int, typer.Option(help="Bi-LSTM layers.")] = DEFAULT.layers,
    seed: Annotated[int, typer.Option(help="Same seed, same model, on a CPU.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    epsilon: Annotated[float | None, typer.Option(help="Train with DP-SGD, spending so much in all.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Train with DP-SGD, with so much noise.")] = None,
    delta: Annotated[float | None, typer.Option(help="DP-SGD: the promise's δ (default: 1e-5).")] = None,
    max_grad_norm: Annotated[float | None, typer.Option(help="DP-SGD: norm to clip each row's to (1).")] = None,
) -> None:
    """Train a model that tells intents and slots of utterances, for lm_eval --model nlu-tagger."""
    given = dict(locals())
    recipe = _recipe(given)
    place = output.resolve()
    check_output(place)
    from leakage_tasks.models.loading import resolve_device
    from leakage_tasks.training.tagger.recipe import read_nlu_data
    from leakage_tasks.training.tagger.trainer import train_tagger

    on, private = resolve_device(device), _privacy(given)
    planted, known = _to_know(canaries, words)
    read = read_nlu_data(data, validation, test)
    trained = train_tagger(read.training, read.validation, recipe, words=known, seed=seed, device=on, private=private)
    trained.save(place, like=data)
    typer.echo(_summary(trained, output))
    for name, rows in (("validation", read.validation), ("test", read.test)):
        if rows:
            typer.echo(_told(name, trained, rows))
    if trained.promise is not None:
        chose = "" if recipe.patience is None else "; the validation rows, which chose the epoch, are outside it"
        typer.echo(trained.promise.describe(_most_copies(planted, read.training)) + chose)


def _recipe(given: Mapping[str, Any]) -> NLURecipe:
    """The options that say how to train, of all that were given."""
    stopped = {} if given["patience"] is None else {"epochs": STOPPED}
    chosen = stopped | {each.name: given[each.name] for each in fields(NLURecipe) if given[each.name] is not None}
    if {"embeddings", "embedding_size"} <= chosen.keys():
        raise OptionError("--embedding-size is that of the vectors in --embeddings: leave it out")
    return NLURecipe(**chosen)


def _privacy(given: Mapping[str, Any]) -> DpConfig | None:
    """The options of DP-SGD, of all that were given."""
    chosen = {name: given[name] for name in _PRIVATE if given[name] is not None}
    if not chosen:
        return None
    if not {"epsilon", "noise_multiplier"} & chosen.keys():
        option = next(iter(chosen)).replace("_", "-")
        raise OptionError(f"--{option} is DP-SGD's: give --epsilon or --noise-multiplier too, or leave it out")
    from leakage_tasks.training.dp.private import DpConfig

    return DpConfig(**chosen)


def _to_know(manifest: Path | None, words: Path | None) -> tuple[list[Canary], set[str]]:
    """The canaries, and the words the model is to know: values of their slots, and those of a file."""
    from leakage_tasks.canaries.alphabets import word_file
    from leakage_tasks.canaries.manifest import read_manifest

    canaries = [] if manifest is None else read_manifest(manifest)
    known = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return canaries, known if words is None else known.union(word_file("words", words).values)


def _most_copies(canaries: Sequence[Canary], rows: Sequence[Utterance]) -> int:
    """How many of ``rows`` hold the canary that most of them hold; 1 where there is none.

    The manifest's repetitions are not theirs: some went to the validation data, or the rows were never planted.
    """
    texts = Counter(row.text for row in rows)
    return max([1, *(texts[" ".join(canary.text.split())] for canary in canaries)])


def _summary(trained: TrainedTagger, output: Path) -> str:
    config: Any = trained.model.config
    return (
        f"{output}: {config.vocab_size:,} words, {config.num_labels:,} intents, {len(config.tags):,} tags; weights of "
        f"epoch {trained.best_epoch} of {len(trained.history)}"
    )


def _told(name: str, trained: TrainedTagger, rows: Sequence[Utterance]) -> str:
    """One line: how well the model does on ``rows``."""
    from leakage_tasks.training.tagger.trainer import score_tagger

    found = score_tagger(trained.model, trained.tokenizer, rows)
    loss = "no loss" if found.loss is None else f"loss {found.loss:.3f} nats an utterance"
    outside = found.rows - found.priced
    left = f" (without {outside:,} of intents or tags it does not know)" if outside else ""
    return (
        f"{name}: intent accuracy {found.intent_accuracy:.4f} ({found.intents_right:,} of {found.rows:,}), "
        f"slot F1 {found.slot_f1:.4f}, {loss}{left}"
    )
