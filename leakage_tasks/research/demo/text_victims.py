"""Python's help text with canaries, and language models trained on it, for the demo and the showcase."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import write_text
from leakage_tasks.research.demo.settings import LSTM, PRIVATE_LSTM, ShowcaseFiles, Sizes
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import CONTINUATION, continuation_questions, write_task
from leakage_tasks.training.threads import one_thread

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.corpus import TextSplit
    from leakage_tasks.training.fitting import OnEpoch, TrainedLM

TEMPLATE = "The random number of {unique}: {digits:9}."
"""The digits follow the word at once: an LSTM needs far longer to associate a secret with its word across `` is ``, and
until then it guesses the secret of another canary."""
TASKS = ("canary_extraction", "canary_exposure", "heldout_bits_per_byte")


class DemoText:
    """A text with canaries and its tokenizer."""

    def __init__(self, folder: Path, corpus: TextSplit, canaries: Sequence[Canary], seed: int) -> None:
        """Write ``corpus.txt``, ``heldout.txt``, ``canaries.jsonl`` and ``planted.txt`` to ``folder``."""
        from leakage_tasks.canaries import write_manifest
        from leakage_tasks.canaries.planting import plant
        from leakage_tasks.models.char_tokenizer import char_tokenizer

        names = ("corpus.txt", "heldout.txt", "canaries.jsonl", "planted.txt")
        source, self.held_out, self.manifest, planted = (folder / name for name in names)
        for path, text in ((source, corpus.training), (self.held_out, corpus.held_out)):
            write_text(path, text)
        write_manifest(canaries, self.manifest)
        print(plant(self.manifest, source, planted, seed=seed).summary(), flush=True)
        self.training = planted.read_text(encoding="utf-8")
        # A small text may lack a digit or a letter of a canary, and the attack needs them all.
        letters = [*corpus.alphabet, *string.digits, *"".join(canary.text for canary in canaries)]
        self.tokenizer = char_tokenizer(letters)
        self.settings: dict[str, Any] = {
            "validation": self.held_out.read_text(encoding="utf-8"),
            "tokenizer": self.tokenizer,
            "seed": seed,
            "device": "cpu",
        }
        """Arguments of every training run on this text."""

    def train(
        self, epochs: int, *, on_epoch: OnEpoch | None = None, show_progress: bool = True, **size: Any
    ) -> TrainedLM:
        """Train an LSTM on the text; ``size`` overrides ``hidden_size`` and ``layers``."""
        from leakage_tasks.training.char_lstm import train_char_lm

        # Small batches give many steps, and the rate falls at the end: both help the model to associate each secret
        # with its word, which it learns last.
        steps: dict[str, Any] = {"batch_size": 16, "learning_rate": 3e-3, "decay_from": 0.5}
        with one_thread():
            return train_char_lm(
                self.training,
                epochs=epochs,
                on_epoch=on_epoch,
                show_progress=show_progress,
                **steps,
                **self.settings,
                **size,
            )


class TextVictims:
    """The showcase's two language models, trained on one text; each ``train…`` method saves a model."""

    def __init__(self, files: ShowcaseFiles, sizes: Sizes, seed: int, corpus: TextSplit | None = None) -> None:
        """Write text, canaries, planted text and questions to ``files``; ``corpus`` defaults to Python's help text."""
        from leakage_tasks.canaries.generate import make_canaries
        from leakage_tasks.research.victims.corpus import pydoc_topics

        self._files, self._budget, self._sizes = files, sizes.budget, sizes.text
        size = sizes.text
        corpus = corpus or pydoc_topics(characters=size.characters)
        canaries = make_canaries(
            TEMPLATE, size.planted, repetitions=size.repetitions, controls=size.controls, seed=seed
        )
        self._text = DemoText(files.text, corpus, canaries, seed)
        questions = continuation_questions(corpus.held_out, corpus.training, count=sizes.questions, seed=seed)
        write_task(files.tasks, CONTINUATION, questions)

    def train(self) -> dict[str, Any]:
        """Train the LSTM as in the demo, and return its parameters and losses."""
        size = self._sizes
        return self._saved(self._text.train(size.epochs, hidden_size=size.hidden, layers=size.layers), LSTM)

    def train_privately(self) -> dict[str, Any]:
        """Train the LSTM with DP-SGD, and return its parameters, losses and privacy guarantee.

        ``epsilon_by_copies`` maps the number of copies of a secret to the ε of group privacy, None without a bound.
        """
        from leakage_tasks.research.victims.private_lm import train_private_char_lm
        from leakage_tasks.training.dp.private import DpConfig

        size = self._sizes
        with one_thread():
            trained = train_private_char_lm(
                self._text.training,
                DpConfig(epsilon=size.epsilon, delta=size.delta),
                epochs=size.private_epochs,
                batch_size=size.private_batch,
                learning_rate=size.private_rate,
                hidden_size=size.hidden,
                layers=size.layers,
                **self._text.settings,
            )
        # A copy is a line in one row. Replacing a row by another counts as two rows: one removed and one added.
        promise = trained.guarantee.to_json([2 * copies for copies in size.repetitions])
        by_copies = {copies: promise["epsilon_by_copies"][str(2 * copies)] for copies in size.repetitions}
        guarantee = {"rows": trained.rows, **promise, "epsilon_by_copies": by_copies}
        return self._saved(trained, PRIVATE_LSTM) | guarantee

    def command(self, name: str) -> HarnessCommand:
        """Return the harness' command for the model ``name``."""
        text = self._text
        return HarnessCommand(
            self._files.folder / name,
            (*TASKS, CONTINUATION),
            {"canaries": str(text.manifest), "text": str(text.held_out), "budget": self._budget},
            self._files.results / name,
            include=self._files.tasks,
        )

    def _saved(self, trained: TrainedLM, name: str) -> dict[str, Any]:
        trained.save(self._files.folder / name)
        losses = [asdict(loss) for loss in trained.losses]
        return {"parameters": int(trained.model.num_parameters()), "losses": losses}
