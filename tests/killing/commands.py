"""The commands that are ended early, what they read and what they write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SETTINGS = "--device cpu --batch_size 8 --output_path {out}/results --log_samples"
_SMALL = "--prompt-length 4 --epochs 2 --batch-size 4 --prefix-length 6 --suffix-length 3 --device cpu"


@dataclass(frozen=True)
class Command:
    """``{in}`` and ``{out}`` in ``words`` are the folders of inputs and outputs.

    ``outputs`` are what it has to write whole or not at all; ``grows`` those of them that are folders whose files are
    written so, one after another. ``older`` are further words for an older output of another content. ``private`` says
    that what it writes is as private as what it reads. ``kept`` are outputs of an undisturbed run that are there from
    the start; ``resumed`` further words where an interrupted run left ``resume``.
    """

    name: str
    words: str
    outputs: tuple[str, ...] = ()
    older: str = ""
    private: bool = False
    program: str = "leakage"
    kept: tuple[str, ...] = ()
    resume: str = ""
    resumed: str = ""
    by_call: bool = True
    grows: tuple[str, ...] = ()

    def arguments(self, inputs: Path, out: Path, more: str = "") -> list[str]:
        """The command line after the program's name."""
        return f"{self.words} {more}".format(**{"in": inputs, "out": out}).split()


def _plant(kind: str) -> Command:
    return Command(
        f"plant {kind}",
        f"plant {{in}}/canaries.jsonl {{in}}/train.{kind} -o {{out}}/planted.{kind}",
        (f"planted.{kind}", f"planted.{kind}.leakage.json"),
        "--seed 1",
        private=True,
    )


def _lm_eval(task: str, model: str, metadata: str, model_name: str = "hf") -> Command:
    words = (
        f"--model {model_name} --model_args pretrained={{in}}/{model} --tasks {task} --metadata {metadata} {_SETTINGS}"
    )
    return Command(task, words, program="lm_eval")


COMMANDS = (
    *map(_plant, ("txt", "jsonl", "parquet")),
    Command(
        "plant shards",
        "plant {in}/canaries.jsonl {in}/shards -o {out}/planted",
        ("planted", "planted.leakage.json"),
        "--seed 1",
        private=True,
        resume="planted.leakage-shards",
        grows=("planted",),
    ),
    Command(
        "plant --remove",
        "plant --remove {in}/planted-shards -o {out}/back",
        ("back",),
        private=True,
        resume="back.leakage-shards",
        grows=("back",),
    ),
    Command(
        "sanitize shards",
        "sanitize {in}/shards -o {out}/clean --drop 2 --epochs 1",
        ("clean",),
        "--drop 3",
        private=True,
        resume="clean.leakage-shards",
        grows=("clean",),
    ),
    Command(
        "sanitize",
        "sanitize {in}/train.txt -o {out}/clean.txt --drop 2 --epochs 1 --report {out}/report.jsonl",
        ("clean.txt", "report.jsonl"),
        "--drop 3",
        private=True,
    ),
    Command("verify", "verify {in}/planted.txt {in}/canaries.jsonl --chunk 64"),
    Command(
        "canaries",
        "canaries --template The.pin.of.{{unique}}.is.{{digits:4}}. --seed 5 -o {out}/canaries.jsonl",
        ("canaries.jsonl",),
        "--count 2 --seed 6",
    ),
    Command(
        "canaries --from-text",
        "canaries --from-text {in}/mail.txt --controls 2 --seed 5 -o {out}/found.jsonl",
        ("found.jsonl",),
        "--controls 1",
        private=True,
    ),
    # What it writes is written into the card that is there, so over an older one it would be another.
    Command("card", "card {in}/results --card {out}/README.md", ("README.md",)),
    Command(
        "leaderboard",
        "leaderboard {in}/results -o {out}/board.html -o {out}/board.md -o {out}/board.csv -o {out}/board.json",
        ("board.html", "board.md", "board.csv", "board.json"),
        "{in}/other",
    ),
    Command("report", "report {in}/results -o {out}/report.html", ("report.html",), "--name other"),
    Command("score", "score {in}/results -o {out}/score.json", ("score.json",), "--delta 0.1"),
    Command("check", "check {in}/results --max-exposure 50"),
    Command("compare", "compare {in}/results {in}/other -o {out}/compare.html", ("compare.html",)),
    Command(
        "plot repetitions",
        "plot repetitions {in}/results -o {out}/exposure",
        ("exposure.png", "exposure.svg"),
        "{in}/other",
    ),
    Command(
        "plot training", "plot training {in}/trainer_state.json -o {out}/training.png", ("training.png",), "--steps"
    ),
    Command(
        "tune-prompt",
        f"tune-prompt --model {{in}}/pair-model --data {{in}}/pairs.jsonl -o {{out}}/prompt {_SMALL}",
        ("prompt",),
        "--seed 1",
        private=True,
        resume="prompt.checkpoint.safetensors",
        resumed="--resume",
    ),
    Command(
        "train-nlu",
        "train-nlu {in}/nlu -o {out}/tagger --epochs 2 --hidden-size 8 --embedding-size 8 --device cpu",
        ("tagger",),
        "--seed 1",
        private=True,
    ),
    Command("nlu-data", "nlu-data -o {out}/nlu --count 200", ("nlu",), "--seed 1"),
    Command("quantize", "quantize {in}/model -o {out}/rounded", ("rounded",), "--levels 16", private=True),
    Command(
        "study run, its report",
        "study run secret-sharer/estimators --scale smoke --trials 1 -o {out}/studies",
        ("studies/secret-sharer/smoke/estimators", "studies/secret-sharer/smoke/trials"),
        grows=("studies/secret-sharer/smoke/trials",),
        kept=("studies/secret-sharer/smoke/trials", "studies/secret-sharer/smoke/shared"),
    ),
    Command(
        "study run",
        "study run secret-sharer/estimators --scale smoke --trials 1 -o {out}/studies",
        ("studies/secret-sharer/smoke/estimators", "studies/secret-sharer/smoke/trials"),
        grows=("studies/secret-sharer/smoke/trials",),
        by_call=False,
    ),
    Command(
        "study report",
        "study report --store {in}/studies --results {out}/store -o {out}/reproduction.md",
        ("store/elmahdy/small/table-3.json", "reproduction.md"),
        "--store {in}/older-studies",
    ),
    _lm_eval("canary_extraction", "model", "canaries={in}/canaries.jsonl"),
    _lm_eval("canary_exposure", "model", "canaries={in}/canaries.jsonl"),
    Command(
        "suffix_extraction",
        "--model hf --model_args pretrained={in}/pair-model --tasks suffix_extraction "
        f"--metadata data={{in}}/pairs.jsonl,split=all,samples=8,guesses={{out}}/guesses.csv {_SETTINGS}",
        ("guesses.csv",),
        private=True,
        program="lm_eval",
    ),
    _lm_eval("heldout_bits_per_byte", "model", "text={in}/train.jsonl"),
    _lm_eval("label_accuracy", "tagger", "data={in}/pins", "nlu-tagger"),
)
"""Inputs of all of them are what :func:`tests.killing.inputs.make_inputs` makes."""
