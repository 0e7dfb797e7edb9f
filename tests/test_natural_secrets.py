"""Natural secrets from the mail to the last report: nothing that is printed or written shows one, unless asked to."""

from __future__ import annotations

import json
import logging
import os
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import ATTACKS, finding_from_json
from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
from leakage_tasks.targets.harness.target import HarnessTarget, register_target
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences
from tests.conftest import HARNESS, PATHS, Leakage
from tests.oracles import tiny_gpt2

CONTEXT = ("walrus", "grommet", "zeppelin")
MAIL = """the walrus pays with 5105 1051 0510 5100
her zeppelin wants SSN 219-09-4321
ask the grommet, ottoline-quux@example.org
"""
CAUSAL = [name for name, attack in ATTACKS.items() if {PredictsNextToken, ScoresSequences} & set(attack.needs)]


@dataclass
class Private:
    """A model that knows the mail by heart, the manifest of its secrets, and what must not be shown."""

    lm: HFLM
    folder: Path
    manifest: Path
    canaries: list[Canary]

    @property
    def words(self) -> list[str]:
        """The context, and the secrets of letters."""
        return [*CONTEXT, "ottoline", *("".join(each.secret) for each in self.canaries if not _is_number(each.secret))]

    def shown(self, text: str, fillings: list[tuple[str, ...]] | None = None) -> list[str]:
        """What of the secrets, the controls, the context and of ``fillings`` is in ``text``, however it is spelled."""
        lower = text.lower()
        digits, letters = re.sub(r"[^0-9]", "", lower), re.sub(r"[^a-z0-9._+@-]", "", lower)
        secrets = [canary.secret for canary in self.canaries] + (fillings or [])
        numbers = {"".join(secret) for secret in secrets if _is_number(secret)}
        return [number for number in numbers if number in digits] + [
            word for word in self.words if word in lower or word in letters
        ]


def _is_number(secret: tuple[str, ...]) -> bool:
    return all(value.isdecimal() for value in secret)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Private:
    from leakage_tasks.canaries.manifest import write_manifest
    from leakage_tasks.canaries.natural import corpus_passages, natural_canaries

    folder = tmp_path_factory.mktemp("private")
    mail, manifest = folder / "mail.txt", folder / "found.jsonl"
    mail.write_text(MAIL)
    write_manifest(natural_canaries(corpus_passages(mail), controls=1), manifest)
    recipe = LanguageModelRecipe(
        units=48, batches="streams", batch_size=8, length=40, epochs=12, optimizer="adam", learning_rate=1e-2
    )
    tokenizer = char_tokenizer(MAIL + string.digits + string.ascii_lowercase + "._+-")
    trained = train_lm(MAIL * 60, recipe, tokenizer=tokenizer)
    trained.model.save_pretrained(folder / "model")
    trained.tokenizer.save_pretrained(folder / "model")
    fresh = tiny_gpt2(trained.tokenizer)
    fresh.save_pretrained(folder / "base")
    trained.tokenizer.save_pretrained(folder / "base")
    lm = HFLM(pretrained=trained.model, tokenizer=trained.tokenizer, batch_size=8)
    return Private(lm, folder, manifest, read_manifest(manifest))


def evaluate(lm, private: Private, task: str, **metadata):
    given = {"canaries": str(private.manifest), "budget": 100, **metadata}
    return evaluate_tasks(lm, [task], given)


def findings(results, task: str):
    return [finding_from_json(sample["resps"][0][0]) for sample in results["samples"][task]]


@pytest.mark.slow
@pytest.mark.parametrize("attack", CAUSAL)
def test_no_attack_shows_a_secret_or_a_guess(private: Private, attack: str, caplog, capfd) -> None:
    task = f"canary_{ATTACKS[attack].goal}"
    few = {"draws": 50, "histogram": 50, "contrast": str(private.folder / "base")}
    given = {"attack": attack} | {each.name: few[each.name] for each in ATTACKS[attack].options if each.name in few}
    if attack == "brute-force":
        with pytest.raises(LeakageError) as caught:
            evaluate(private.lm, private, task, **given)
        assert private.shown(str(caught.value)) == []
        return
    open_ = evaluate(private.lm, private, task, **given, reveal=True)
    guesses = [guess.filling for found in findings(open_, task) for guess in found.guesses]
    capfd.readouterr()
    caplog.clear()
    closed = evaluate(private.lm, private, task, **given)
    everything = json.dumps(closed, default=str) + caplog.text + "".join(capfd.readouterr())
    assert private.shown(everything, guesses) == []
    assert closed["results"][task]["n_planted,none"] == 3
    if guesses:
        assert private.shown(json.dumps(open_["samples"], default=str), guesses)


def test_what_a_model_wrote_by_itself_is_not_shown(private: Private) -> None:
    class Writes(HFLM):
        """A model of which nothing but text can be asked."""

    lm = Writes(pretrained=private.lm.model, tokenizer=private.lm.tokenizer, batch_size=8)
    register_target(Writes)(lambda lm, texts, private: HarnessTarget(lm))
    open_ = evaluate(lm, private, "canary_extraction", attack="greedy", reveal=True)
    assert any(all(found.correct) for found in findings(open_, "canary_extraction") if found.planted)
    results = evaluate(lm, private, "canary_extraction", attack="greedy")
    assert private.shown(json.dumps(results, default=str)) == []


@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.parametrize("error", [ValueError, KeyError, LeakageError])
def test_no_error_in_an_attack_shows_the_text_it_was_reading(private: Private, monkeypatch, error, proven) -> None:
    from leakage_tasks.targets import CausalTarget

    def broken(self, texts):
        raise error(f"cannot read {texts[0]!r}: {texts}")

    if proven:
        monkeypatch.setattr("leakage_tasks.tasks.attack_handler.prove", lambda target, canaries: None)
    monkeypatch.setattr(CausalTarget, "log_perplexity", broken)
    with pytest.raises(LeakageError) as caught:
        evaluate(private.lm, private, "canary_exposure", attack="rank-sample")
    assert caught.value.__suppress_context__
    assert private.shown(str(caught.value)) == []
    assert "natural-0001" in str(caught.value) or error is LeakageError or not proven


def test_no_log_of_a_model_shows_the_text_that_it_was_sent(private: Private, monkeypatch, caplog) -> None:
    from leakage_tasks.targets import CausalTarget

    right = CausalTarget.log_perplexity

    def logged(self, texts):
        logging.getLogger("lm_eval.models.api_models").error("Exception: %s", texts)
        return right(self, texts)

    monkeypatch.setattr(CausalTarget, "log_perplexity", logged)
    evaluate(private.lm, private, "canary_exposure", attack="rank-sample", budget=5)
    assert "api_models" in caplog.text
    assert private.shown(caplog.text) == []


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_from_the_command_line_to_the_last_report(private: Private, tmp_path: Path, leakage: Leakage) -> None:
    said = "".join(_lm_eval(private, tmp_path))
    board = tmp_path / "board.html"
    said += "".join(
        "".join(map(str, leakage(*map(str, command))))
        for command in (
            ["canaries", "--from-text", private.folder / "mail.txt", "-o", private.folder / "again.jsonl"],
            ["verify", private.folder / "mail.txt", private.manifest, "--chunk", 30],
            ["plant", private.manifest, private.folder / "mail.txt", "-o", tmp_path / "planted.txt"],
            ["leaderboard", tmp_path / "out", "-o", board, "-o", tmp_path / "board.md", "--reveal"],
            ["card", tmp_path / "out", "--card", tmp_path / "README.md"],
            ["score", tmp_path / "out"],
            ["check", tmp_path / "out", "--max-exposure", 1],
            ["plot", "repetitions", tmp_path / "out", "-o", tmp_path / "repetitions"],
        )
    )
    written = {path: path.read_text(encoding="latin-1") for path in _files(tmp_path) if path.suffix != ".png"}
    assert {"board.html", "board.md", "README.md", "repetitions.svg"} <= {path.name for path in written}
    assert private.shown(said) == []
    assert {path.name: shown for path, text in written.items() if (shown := private.shown(text))} == {}


def _lm_eval(private: Private, folder: Path) -> tuple[str, str]:
    """Both streams of the harness' own command."""
    metadata = f"canaries={private.manifest},budget=300,histogram=60"
    command = ["--model", "hf", "--model_args", f"pretrained={private.folder / 'model'}", "--device", "cpu"]
    command += ["--tasks", "canary_exposure,canary_extraction", "--metadata", metadata, "--log_samples", "--write_out"]
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, *command, "--output_path", str(folder / "out")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PATHS, "LM_EVAL_LEAKAGE_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_a_fast_way_that_fails_does_not_log_the_text_it_was_checked_on(private: Private, monkeypatch, caplog) -> None:
    from leakage_tasks.targets import CausalTarget

    def broken(self, texts):
        raise ValueError(f"cannot read {texts}")

    monkeypatch.setattr(CausalTarget, "encode", broken)
    evaluate(private.lm, private, "canary_exposure", attack="rank-sample", budget=5)
    assert "is off: ValueError" in caplog.text
    assert private.shown(caplog.text) == []
