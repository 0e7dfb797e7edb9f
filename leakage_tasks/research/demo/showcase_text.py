"""The showcase's language models: canaries in Python's help text, learnt by an LSTM with and without DP-SGD."""

from __future__ import annotations

import string
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.research.demo.showcase_settings import LSTM, PRIVATE_LSTM, TEMPLATE, ShowcaseFiles, Sizes
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import CONTINUATION, continuation_questions, write_task
from leakage_tasks.training.threads import one_thread

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.research.victims.corpus import Corpus
    from leakage_tasks.research.victims.private_lm import PrivateLM
    from leakage_tasks.training.fitting import TrainedLM

TASKS = ("canary_extraction", "canary_exposure", "heldout_bits_per_byte", CONTINUATION)


class TextVictims:
    """The planted text and the two models trained on it; each ``train_…`` saves a model and says how it went."""

    def __init__(self, files: ShowcaseFiles, sizes: Sizes, seed: int, corpus: Corpus | None = None) -> None:
        """Write text, canaries, planted text and questions to ``files``; ``corpus`` defaults to Python's help."""
        from leakage_tasks.canaries import write_manifest
        from leakage_tasks.canaries.generate import make_canaries
        from leakage_tasks.canaries.planting import plant
        from leakage_tasks.models.char_tokenizer import char_tokenizer
        from leakage_tasks.research.victims.corpus import pydoc_topics

        self._files, self._sizes, self._seed = files, sizes, seed
        own = sizes.text
        corpus = corpus or pydoc_topics(characters=own.characters)
        names = ("corpus.txt", "planted.txt", "heldout.txt", "canaries.jsonl")
        source, planted, self._held_out, self._manifest = (files.text / name for name in names)
        _write(source, corpus.training)
        _write(self._held_out, corpus.held_out)
        canaries = make_canaries(TEMPLATE, own.planted, repetitions=own.repetitions, controls=own.controls, seed=seed)
        write_manifest(canaries, self._manifest)
        print(plant(self._manifest, source, planted, seed=seed).summary(), flush=True)
        questions = continuation_questions(corpus.held_out, corpus.training, count=sizes.questions, seed=seed)
        write_task(files.tasks, CONTINUATION, questions)
        self._text, self._validation = planted.read_text(encoding="utf-8"), corpus.held_out
        # A small text may lack a letter of a canary's word, or a digit: the attack asks for all of them.
        letters = [*corpus.alphabet, *string.digits, *"".join(canary.text for canary in canaries)]
        self._tokenizer: PreTrainedTokenizerFast = char_tokenizer(letters)

    def train(self) -> dict[str, Any]:
        """The LSTM, trained as in the demo."""
        from leakage_tasks.training.char_lstm import train_char_lm

        started, own = time.perf_counter(), self._sizes.text
        with one_thread():
            trained = train_char_lm(
                self._text,
                validation=self._validation,
                tokenizer=self._tokenizer,
                epochs=own.epochs,
                batch_size=16,
                learning_rate=3e-3,
                decay_from=0.5,
                hidden_size=own.hidden,
                layers=own.layers,
                seed=self._seed,
                device="cpu",
            )
        return self._saved(trained, LSTM, started)

    def train_privately(self) -> dict[str, Any]:
        """The same LSTM trained with DP-SGD; ``epsilon_by_copies`` is its promise for secrets of so many copies."""
        from leakage_tasks.research.victims.private_lm import train_private_char_lm
        from leakage_tasks.training.dp.private import DpConfig

        started, own = time.perf_counter(), self._sizes.text
        with one_thread():
            trained = train_private_char_lm(
                self._text,
                DpConfig(epsilon=own.epsilon, delta=own.delta),
                validation=self._validation,
                tokenizer=self._tokenizer,
                epochs=own.private_epochs,
                batch_size=own.private_batch,
                learning_rate=own.private_rate,
                hidden_size=own.hidden,
                layers=own.layers,
                seed=self._seed,
                device="cpu",
            )
        return self._saved(trained, PRIVATE_LSTM, started) | self._promised(trained)

    def command(self, name: str) -> HarnessCommand:
        """The harness' command for the model ``name``."""
        metadata: dict[str, str | int] = {"canaries": str(self._manifest), "text": str(self._held_out)}
        return HarnessCommand(
            self._files.model(name),
            TASKS,
            metadata | {"budget": self._sizes.budget},
            self._files.results(name),
            include=self._files.tasks,
        )

    def _promised(self, trained: PrivateLM) -> dict[str, Any]:
        # A copy is a line, and a line that fits is in one row, which counts as two where it is exchanged for another.
        rows = {copies: 2 * copies for copies in self._sizes.text.repetitions}
        told = trained.promise.to_json(list(rows.values()))
        by_rows = told["epsilon_by_copies"]
        by_copies = {copies: by_rows[str(number)] for copies, number in rows.items()}
        return {"rows": trained.rows, **told, "epsilon_by_copies": by_copies}

    def _saved(self, trained: TrainedLM, name: str, started: float) -> dict[str, Any]:
        trained.save(self._files.model(name))
        return {
            "seconds": round(time.perf_counter() - started, 1),
            "parameters": int(trained.model.num_parameters()),
            "losses": [asdict(loss) for loss in trained.losses],
        }


def _write(path: Path, text: str) -> None:
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
