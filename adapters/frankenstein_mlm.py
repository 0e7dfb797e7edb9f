"""``--model frankenstein-mlm --model_args pretrained=CLASSIFIER,head=BASE``: a classifier that can fill masks again.

In Mix and Match (Elmahdy and Salem 2023) the classifier's encoder is combined with the head of the model that it was
fine-tuned from. The combined model proposes candidates for a canary's unknown word, and the classifier prunes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from adapters.base import Answer
from adapters.classifier_scorer import SEED, SEED_OF_ATTACK, ClassifierScorerLM
from adapters.masked_lm import pseudo_log_likelihoods
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.option import Option
from leakage_tasks.harness.api import Instance
from leakage_tasks.harness.generation import rolling
from leakage_tasks.models.bridge import SIZES, bridge_of, save_bridged
from leakage_tasks.models.frankenstein import graft, is_frankenstein, pretrained_mlm
from leakage_tasks.targets.classifier.generators import CAUSAL, TEXT, GeneratingTarget, MaskedGenerator
from leakage_tasks.targets.loading import is_positive_integer
from leakage_tasks.targets.masked.target import MaskedTarget

TRAIN, FRANKENSTEIN, PRETRAINED, EXHAUSTIVE = "train", "frankenstein", "pretrained", "exhaustive"
TRAINED_HERE = (TRAIN, *SIZES)
_USUAL_SIZES = " or ".join(map(str, SIZES.values()))
TRAINED_NAMES = f"{', '.join(TRAINED_HERE[:-1])} or {TRAINED_HERE[-1]}"


class FrankensteinLM(ClassifierScorerLM):
    """A classifier with a generator of candidates; ``classifier`` is its target, a :class:`GeneratingTarget`.

    ``loglikelihood`` is the pseudo-log-likelihood of the Frankenstein model; ``classify`` scores labels.

    Args:
        pretrained: The classifier's folder or hub name.
        head: The masked language model that the classifier was fine-tuned from (folder or hub name, safetensors), a
            folder written by ``save``, or one of three names. ``train`` trains a head with the encoder frozen.
            ``adapter`` and ``prompt`` freeze both the encoder and ``base``'s head, and train a bridge between them: a
            layer, or a prompt.
        generator: ``frankenstein`` (default), ``pretrained`` (the unchanged base model), ``exhaustive``,
            ``causal:MODEL`` or ``text:MODEL``; the last three need no ``head``.
        text: Public text file to train on.
        base: Model whose head is the initial head, or the head behind a bridge. ``train`` without ``base`` starts at
            random.
        head_epochs: Number of training epochs.
        seed: Random seed of training and of generated texts.
        save: Folder to save the Frankenstein model to.
        bridge_size: Number of units of an adapter, or of vectors of a prompt.
        kwargs: Other arguments of :class:`ClassifierScorerLM`.

    Raises:
        OptionError: An option is unknown or invalid.
        TargetError: A model cannot be loaded, or encoder and head do not fit.
    """

    OPTIONS: ClassVar[Sequence[Option]] = (
        *(option for option in ClassifierScorerLM.OPTIONS if option.name not in ("generator", "seed")),
        Option(
            "head",
            str,
            None,
            f"the masked model that the classifier was fine-tuned from, a folder written by save=, or {TRAINED_NAMES}",
        ),
        Option("generator", str, FRANKENSTEIN, "frankenstein, pretrained, exhaustive, causal:MODEL or text:MODEL"),
        Option("text", str, None, f"for head={TRAINED_NAMES}: the public text to train on"),
        Option("base", str, None, f"for head={TRAINED_NAMES}: the model whose head is the initial or bridged head"),
        Option("head_epochs", int, 3, f"for head={TRAINED_NAMES}: number of training epochs", minimum=1),
        Option(
            "bridge_size", int, None, "units of head=adapter, or vectors of head=prompt", minimum=1, usual=_USUAL_SIZES
        ),
        Option("seed", int, 0, f"for head={TRAINED_NAMES}: random seed of training, and of generated texts"),
        Option("save", str, None, "a folder to save the Frankenstein model to"),
    )

    def __init__(
        self,
        pretrained: Any,
        head: str | None = None,
        generator: str = FRANKENSTEIN,
        text: str | None = None,
        base: str | None = None,
        head_epochs: int = 3,
        seed: int = 0,
        save: str | None = None,
        bridge_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        _check_options(head, generator, text, base, head_epochs, save)
        self.check({SEED.name: seed})
        _check_seed(head, generator, seed)
        _check_bridge(head, base, bridge_size)
        masked = generator in (FRANKENSTEIN, PRETRAINED)
        writing: dict[str, Any] = {"seed": seed} if generator.startswith(TEXT) else {}
        super().__init__(pretrained, generator=None if masked else generator, **writing, **kwargs)
        self._remote = bool(kwargs.get("trust_remote_code", False))
        self.head_losses: list[float] = []
        model = None if head is None else self._frankenstein(head, text, base, head_epochs, seed, bridge_size)
        self._masked = None if model is None else self._as_target(model)
        if save is not None and self.rank == 0:
            self._save(Path(save))
        if masked:
            source = base if head in TRAINED_HERE else head
            self.classifier = GeneratingTarget(self.classifier, self._masked_generator(generator, source))

    def _as_target(self, model: Any) -> MaskedTarget:
        """Return a masked language model as a target with the classifier's tokenizer, device and maximum length."""
        options = {name: self._loading[name] for name in ("device", "batch_size")}
        bridge = bridge_of(model)
        max_length = self.max_length and self.max_length - (bridge.tokens if bridge else 0)
        return MaskedTarget(model, self.tokenizer, max_length=max_length, **options)

    def _frankenstein(
        self, head: str, text: str | None, base: str | None, epochs: int, seed: int, size: int | None
    ) -> Any:
        if head not in TRAINED_HERE:
            return graft(self.classifier.model, head, tokenizer=self.tokenizer, trust_remote_code=self._remote)
        from leakage_tasks.training.bridge import BridgeRecipe, train_bridge
        from leakage_tasks.training.masked_lm import train_head, training_texts

        classifier = self.classifier.model, self.tokenizer
        options: dict[str, Any] = {"max_tokens": self.max_length, "trust_remote_code": self._remote}
        if head == TRAIN:
            trained = train_head(*classifier, str(text), base=base, epochs=epochs, seed=seed, **options)
        else:
            recipe = BridgeRecipe(kind=head, size=size, epochs=epochs, seed=seed)
            trained = train_bridge(*classifier, str(base), training_texts(str(text), "bridge"), recipe, **options)
        self.head_losses = trained.losses
        if self.world_size > 1:
            # Training may give different weights on each device, so all processes use the first process' head.
            for parameter in trained.model.parameters():
                torch.distributed.broadcast(parameter.data, src=0)
        return trained.model

    def _masked_generator(self, generator: str, source: str | None) -> MaskedGenerator:
        if generator == FRANKENSTEIN:
            assert self._masked is not None
            return MaskedGenerator(self._masked, generator)
        loading: dict[str, Any] = {"tokenizer": self.tokenizer, "trust_remote_code": self._remote}
        model = pretrained_mlm(self.classifier.model, str(source), **loading)
        if is_frankenstein(model):
            raise TargetError(
                f"head={source}: contains a classifier's encoder, so it is not the pretrained model: give the base "
                "model itself, or use generator=frankenstein"
            )
        return MaskedGenerator(self._as_target(model), generator)

    def _save(self, folder: Path) -> None:
        assert self._masked is not None
        with replacing(folder) as beside:
            save_bridged(self._masked.model, beside)
            self.tokenizer.save_pretrained(beside)

    # -- answers --------------------------------------------------------------------------------------------

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """Return the continuation's pseudo-log-likelihood in nats for each ``(context, continuation)``.

        This is the sum of the log-probabilities of its tokens, each masked in turn with all other tokens of both texts
        known (Salazar et al. 2020). The answer also states if every token is the most likely token (greedy). A token
        that covers the end of the context and the beginning of the continuation belongs to the continuation. Raises
        TargetError if both texts together exceed the encoder's maximum length.
        """
        masked = self._with_head()
        queries = [masked.continuation(*request.args) for request in requests]
        answers = pseudo_log_likelihoods(masked, queries, disable_tqdm or self.rank != 0)
        return self._cached("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Any]:
        """Return the pseudo-log-likelihood of each text in nats.

        A text that exceeds the encoder's maximum length is cut into pieces, which are scored separately.
        """
        masked = self._with_head()
        pieces = [list(masked.pieces(request.args[-1])) for request in requests]
        flat = [query for queries in pieces for query in queries]
        scores = iter(pseudo_log_likelihoods(masked, flat, disable_tqdm or self.rank != 0))
        sums = rolling([sum(next(scores)[0] for _ in queries) for queries in pieces])
        return self._cached("loglikelihood_rolling", requests, sums)

    def _with_head(self) -> MaskedTarget:
        if self._masked is None:
            raise TargetError(
                "without a masked-language head the model has no likelihood of texts: pass head=BASE in --model_args, "
                "or use --model classifier-scorer for labels"
            )
        return self._masked

    def get_model_info(self) -> dict[str, Any]:
        """Return information about the model for a results file, with generator, bridge and training losses."""
        more: dict[str, Any] = {"model_head_losses": self.head_losses} if self.head_losses else {}
        if self._masked is not None and (bridge := bridge_of(self._masked.model)) is not None:
            more["model_bridge"] = bridge.kind
        return {**super().get_model_info(), "model_generator": self.generator_name, **more}


def _check_options(head: Any, generator: Any, text: Any, base: Any, head_epochs: Any, save: str | None) -> None:
    if generator not in (FRANKENSTEIN, PRETRAINED, EXHAUSTIVE) and not str(generator).startswith((CAUSAL, TEXT)):
        raise OptionError(
            f"generator={generator}: use {FRANKENSTEIN}, {PRETRAINED}, {EXHAUSTIVE}, {CAUSAL}MODEL or {TEXT}MODEL"
        )
    if head is None and (generator in (FRANKENSTEIN, PRETRAINED) or save is not None):
        raise OptionError(
            "head= is missing: name the model the classifier was fine-tuned from, or pass head=train,text=FILE to "
            "train a head on a public text"
        )
    if head in TRAINED_HERE and text is None:
        raise OptionError(
            f"head={head} needs a public text to train on: pass text=FILE (.txt, .jsonl, .csv, .parquet …)"
        )
    if head not in TRAINED_HERE and (text is not None or base is not None):
        raise OptionError(
            f"{'text' if text is not None else 'base'}= goes with head=train (or adapter, prompt): leave it out, or "
            "train a head"
        )
    if head == TRAIN and base is None and generator == PRETRAINED:
        raise OptionError("generator=pretrained with head=train: name the pretrained model with base=")
    if not is_positive_integer(head_epochs):
        raise OptionError(f"head_epochs={head_epochs!r}: expected a number from 1")
    if save is not None:
        _check_folder(Path(save))


def _check_seed(head: str | None, generator: str, seed: int) -> None:
    if seed != SEED.default and head not in TRAINED_HERE and not generator.startswith(TEXT):
        raise OptionError(f"seed= goes with head={TRAINED_NAMES}, or with generator={TEXT}MODEL: {SEED_OF_ATTACK}")


def _check_bridge(head: str | None, base: str | None, size: int | None) -> None:
    if head in SIZES and base is None:
        raise OptionError(f"head={head} connects a base model's head to the encoder: name the base model with base=")
    if head not in SIZES and size is not None:
        raise OptionError(f"bridge_size= goes with head={' or head='.join(SIZES)}: leave it out")
    if size is not None and not is_positive_integer(size):
        raise OptionError(f"bridge_size={size!r}: expected a number from 1")


def _check_folder(folder: Path) -> None:
    """Raise OptionError if saving would replace files other than a Frankenstein model, or if the parent folder is
    missing."""
    if not folder.parent.is_dir():
        raise OptionError(f"save={folder}: there is no folder {str(folder.parent)!r}: create it first")
    if folder.is_dir() and any(folder.iterdir()):
        try:
            config = parse_json(read_text(folder / "config.json"))
        except (OSError, ValueError):
            config = {}
        if not isinstance(config, dict) or "frankenstein" not in config:
            raise OptionError(f"save={folder}: contains other files, which would be replaced: choose an empty folder")
