"""Canaries in Python's help text and language models trained on it, for the demo and the showcase."""

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
"""Word and digits are adjacent.

With `` is `` between them, an LSTM needs far longer to link a secret to its word, and until then proposes the secret of
another canary.
"""
TASKS = ("canary_extraction", "canary_exposure", "heldout_bits_per_byte")


class DemoText:
    """A text with canaries and its tokenizer; a folder gets the text before and after planting, and the canaries."""

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
        # The attack needs all letters and digits, which a small text may lack.
        letters = [*corpus.alphabet, *string.digits, *"".join(canary.text for canary in canaries)]
        self.tokenizer = char_tokenizer(letters)
        self.settings: dict[str, Any] = {
            "validation": self.held_out.read_text(encoding="utf-8"),
            "tokenizer": self.tokenizer,
            "seed": seed,
            "device": "cpu",
        }
        """Options of every training on this text."""

    def train(self, epochs: int, *, on_epoch: OnEpoch | None = None, **size: Any) -> TrainedLM:
        """Train an LSTM on the text, with the default ``size`` unless given."""
        from leakage_tasks.training.char_lstm import train_char_lm

        # Many steps per character and a falling rate help to learn which secret belongs to which word, which is learnt
        # last.
        steps: dict[str, Any] = {"batch_size": 16, "learning_rate": 3e-3, "decay_from": 0.5}
        with one_thread():
            return train_char_lm(self.training, epochs=epochs, on_epoch=on_epoch, **steps, **self.settings, **size)


class TextVictims:
    """The showcase's two models of one text; ``train_…`` methods save a model and return a record of its training."""

    def __init__(self, files: ShowcaseFiles, sizes: Sizes, seed: int, corpus: TextSplit | None = None) -> None:
        """Write text, canaries, planted text and questions to ``files``; ``corpus`` defaults to Python's help."""
        from leakage_tasks.canaries.generate import make_canaries
        from leakage_tasks.research.victims.corpus import pydoc_topics

        self._files, self._budget, self._sizes = files, sizes.budget, sizes.text
        options = sizes.text
        corpus = corpus or pydoc_topics(characters=options.characters)
        canaries = make_canaries(
            TEMPLATE, options.planted, repetitions=options.repetitions, controls=options.controls, seed=seed
        )
        self._text = DemoText(files.text, corpus, canaries, seed)
        questions = continuation_questions(corpus.held_out, corpus.training, count=sizes.questions, seed=seed)
        write_task(files.tasks, CONTINUATION, questions)

    def train(self) -> dict[str, Any]:
        """Train the LSTM as in the demo."""
        options = self._sizes
        return self._saved(self._text.train(options.epochs, hidden_size=options.hidden, layers=options.layers), LSTM)

    def train_privately(self) -> dict[str, Any]:
        """Train the LSTM with DP-SGD; ``epsilon_by_copies`` is its guarantee by number of copies."""
        from leakage_tasks.research.victims.private_lm import train_private_char_lm
        from leakage_tasks.training.dp.private import DpConfig

        options = self._sizes
        with one_thread():
            trained = train_private_char_lm(
                self._text.training,
                DpConfig(epsilon=options.epsilon, delta=options.delta),
                epochs=options.private_epochs,
                batch_size=options.private_batch,
                learning_rate=options.private_rate,
                hidden_size=options.hidden,
                layers=options.layers,
                **self._text.settings,
            )
        # A copy is a line in one row, and replacing a row counts as two changed rows.
        guarantee = trained.promise.to_json([2 * copies for copies in options.repetitions])
        by_copies = {copies: guarantee["epsilon_by_copies"][str(2 * copies)] for copies in options.repetitions}
        record = {"rows": trained.rows, **guarantee, "epsilon_by_copies": by_copies}
        return self._saved(trained, PRIVATE_LSTM) | record

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
