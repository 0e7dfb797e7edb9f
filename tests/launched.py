"""Runs of the harness as ``torchrun`` starts them, on small models of every kind: all tasks and attacks, by name.

:func:`make_inputs` makes models and data, :data:`CASES` says what is run on them, :func:`launch` runs cases in as many
processes as wanted and gives what the harness returned.
"""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from transformers import BertTokenizerFast, LlamaConfig, LlamaForCausalLM

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.alphabets import word_list
from tests.conftest import PATHS
from tests.encoders import CONFIGS, classifier_of, save_base
from tests.oracles import letters, tiny_gpt2
from tests.taggers import pin, tiny_tagger, words_tokenizer
from tests.tasks.contamination.test_task import add_benchmark
from tests.tasks.contamination.test_task import write as write_rows
from tests.translators import random_model, tokenizer_of

EXPOSURE, EXTRACTION, SUFFIXES = "canary_exposure", "canary_extraction", "suffix_extraction"
BOTH = (EXPOSURE, EXTRACTION)
WORDS = tuple(a + b + c for a in "bdgk" for b in "aeiou" for c in "prt")
LABELS = ("sport", "cooking", "law")

SCRIPT = """
import json, os, sys
from leakage_tasks.harness import plugin
plugin.install()
import lm_eval
from leakage_tasks.harness.run import our_tasks
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
import torch, torch.distributed as dist

@register_model("parted")
class Parted(HFLM):
    # The harness parts its documents, as it does those of models on several GPUs.
    rank = property(lambda self: int(os.environ.get("RANK", "0")))
    world_size = property(lambda self: int(os.environ.get("WORLD_SIZE", "1")))
    def __init__(self, *arguments, batch_size, **settings):
        super().__init__(*arguments, batch_size=batch_size - self.rank, **settings)
        if self.world_size > 1 and not dist.is_initialized():
            dist.init_process_group("gloo")
    def all_gather(self, tensor):
        parts = [torch.zeros_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(parts, tensor)
        return torch.stack(parts)
    def barrier(self):
        if self.world_size > 1:
            dist.barrier()

device = os.environ.get("LEAKAGE_TEST_DEVICE", "cpu")
if device == "second":
    from leakage_tasks.models import loading
    from tests.second_device import SecondDevice, use_second_device
    if "LEAKAGE_TEST_NO_DOUBLE" in os.environ:
        SecondDevice.has_double, loading.WITHOUT_DOUBLE = False, {"second"}
    use_second_device(HFLM)

cases, output = json.load(open(sys.argv[1])), sys.argv[2]
found = {}
for name, case in cases.items():
    manager = our_tasks(case["metadata"])
    results = lm_eval.simple_evaluate(
        case["kind"], model_args=case["arguments"], tasks=case["tasks"], task_manager=manager, device=device,
        bootstrap_iters=0, batch_size=case["batch_size"],
    )
    if results is not None:
        found[name] = {"results": results["results"], "samples": results["samples"]}
if os.environ.get("RANK", "0") == "0":
    json.dump(found, open(output, "w"), default=str)
"""


NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Case:
    """One run of ``lm_eval``; ``model`` is its folder among the inputs, ``{}`` in values stands for all of these."""

    kind: str
    model: str
    tasks: Sequence[str]
    metadata: Mapping[str, Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = 8


def _causal(attack: str, task: str, **options: Any) -> Case:
    return Case("hf", "gpt", (task,), {"canaries": "{}/pins.jsonl", "budget": 120, "attack": attack} | options)


_GENERATOR = {"head": "{}/base"}
_SUFFIXES = {"data": "{}/pairs", "split": "all", "samples": 12, "temperature": 0.4, "validation": 0, "wrong": 4}
_STEPS = {"steps": 5, "restarts": 2}
_MEMBERSHIP = {"members": "{}/members.jsonl", "nonmembers": "{}/nonmembers.jsonl", "tokens": 20, "shots": 1}
_MEMBERSHIP |= {"neighbours": "words", "neighbour_number": 2}
_UNTARGETED = {"data": "{}/seen.txt", "controls": "{}/unseen.txt", "tokenizer": "{}/gpt", "texts": 5, "length": 20}
_UNTARGETED |= {"run_length": 2, "corpus_prefix": 4, "repeats": 3, "prompt_words": 2}
_UNTARGETED |= {"kinds": "empty:short:divergence:prefix", "rows": "all"}
_CONTAMINATION = {"of": "{}/riddle.yaml", "twins": "{}/twins.jsonl", "shards": 2}
CASES = {
    **{name: _causal(name, EXPOSURE) for name in ("exposure", "rank-sample")},
    "skew-normal": _causal("skew-normal", EXPOSURE, draws=90),
    "calibrated": _causal("exposure", EXPOSURE, signal="calibrated", untuned="{}/other"),
    **{name: _causal(name, EXTRACTION) for name in ("shortest-path", "beam", "greedy", "sample-tokens")},
    "brute-force": _causal("brute-force", EXTRACTION, budget=1000),
    "contrastive-beam": _causal("contrastive-beam", EXTRACTION, contrast="{}/other"),
    "kept": Case("hf", "gpt", BOTH, {"canaries": "{}/many.jsonl", "budget": 2000, "resume": "kept"}),
    "all in a group": Case("hf", "gpt", ("leakage",), {"canaries": "{}/pins.jsonl", "budget": 120, "data": "{}/pairs"}),
    "fewer canaries than processes": Case("hf", "gpt", BOTH, {"canaries": "{}/two.jsonl", "budget": 120}),
    "translation": Case("hf", "translator", BOTH, {"canaries": "{}/sources.jsonl"}, {"backend": "seq2seq"}),
    "suffixes": Case("hf", "gpt", (SUFFIXES,), {**_SUFFIXES, "prefix_lengths": [3]}),
    "suffixes, written down": Case("hf", "gpt", (SUFFIXES,), {**_SUFFIXES, "guesses": "{}/guesses.csv"}),
    "labels": Case("classifier-scorer", "classifier", BOTH, {"canaries": "{}/words.jsonl"}),
    "label accuracy": Case("classifier-scorer", "classifier", ("label_accuracy",), {"data": "{}/labelled.jsonl"}),
    "mix-and-match": Case("frankenstein-mlm", "classifier", BOTH, {"canaries": "{}/words.jsonl"}, _GENERATOR),
    "two words": Case(
        "classifier-scorer",
        "classifier",
        BOTH,
        {"canaries": "{}/phrases.jsonl", "budget": 900, EXTRACTION: {"beam": 9}},
    ),
    "fewer words than processes": Case("classifier-scorer", "classifier", BOTH, {"canaries": "{}/word.jsonl"}),
    "masked": Case("masked-lm", "base", (EXPOSURE,), {"canaries": "{}/words.jsonl", "attack": "rank-sample"}),
    "tags": Case("nlu-tagger", "tagger", BOTH, {"canaries": "{}/tags.jsonl", EXTRACTION: _STEPS}),
    "canaries, parted": Case("parted", "gpt", BOTH, {"canaries": "{}/pins.jsonl", "budget": 60}),
    "suffixes, parted": Case("parted", "gpt", (SUFFIXES,), {**_SUFFIXES, "prefix_lengths": [3]}),
    "memorization": Case("parted", "gpt", ("memorization",), {**_SUFFIXES, "prefix": [3, 9], "suffix": 2}),
    "membership": Case("parted", "gpt", ("membership",), _MEMBERSHIP),
    "untargeted": Case("parted", "gpt", ("untargeted_extraction",), _UNTARGETED),
    "contamination": Case("parted", "gpt", ("contamination_test",), _CONTAMINATION),
}

_IN_PARTS = {"whole": {}, "in parts": {"tp_plan": "auto"}}
SPREAD = {
    f"{task}, {how}": Case("hf", "llama", (task,), given | {"resume": how.replace(" ", "-")}, arguments)
    for how, arguments in _IN_PARTS.items()
    for task, given in {
        EXPOSURE: {"canaries": "{}/pins.jsonl", "budget": 300},
        EXTRACTION: {"canaries": "{}/pins.jsonl", "budget": 300},
        SUFFIXES: _SUFFIXES,
    }.items()
}
"""A model that is whole in each process, and one that two hold together, by tensor parallelism."""


def make_inputs(folder: Path) -> None:
    """Random models and what is asked of them; seven canaries each, so that shares of two and of three are uneven."""
    for seed, name in enumerate(("gpt", "other")):
        tiny_gpt2(letters(), seed).save_pretrained(folder / name)
        letters().save_pretrained(folder / name)
    _make_llama(folder / "llama")
    random_model("nllb").save_pretrained(folder / "translator")
    tokenizer_of("nllb").save_pretrained(folder / "translator")
    tiny_tagger(True).save_pretrained(folder / "tagger")
    words_tokenizer().save_pretrained(folder / "tagger")
    _make_classifier(folder)
    pins = make_canaries("pin {unique} is {digits:3}", 4, repetitions=(1, 9), controls=3)
    write_manifest(pins, folder / "pins.jsonl")
    many = make_canaries("pin {unique} is {digits:5}", 25, repetitions=(1, 9), controls=26)
    write_manifest(many, folder / "many.jsonl")
    write_manifest([pins[0], pins[-1]], folder / "two.jsonl")
    sources = [Canary(name, "the number is {digits:2}.", tuple(name), source="die zahl") for name in ("12", "34", "56")]
    write_manifest(sources, folder / "sources.jsonl")
    tagged = [pin("6", name="one"), pin("2", "4", name="two"), pin("0", name="no", planted=False, repetitions=0)]
    write_manifest(tagged, folder / "tags.jsonl")
    rng = np.random.default_rng(0)
    (folder / "pairs").mkdir()
    for part, length in (("prefix", 9), ("suffix", 2)):
        np.save(folder / "pairs" / f"train_{part}.npy", rng.integers(4, 40, (31, length)))
    _make_texts(folder)


def _make_texts(folder: Path) -> None:
    """Members and other texts, a corpus and controls, and a benchmark of six items with twins."""
    for name, word in {"members": "pin", "nonmembers": "tin"}.items():
        write_rows(folder / f"{name}.jsonl", [{"text": f"the {word} of my old house is {n * 37}"} for n in range(13)])
    (folder / "seen.txt").write_text("the pin is 12 and the tin is 34")
    (folder / "unseen.txt").write_text("no cat sat on any mat here")
    docs = [{"question": word, "answer": "1"} for word in ("a", "cat", "sat", "on", "the", "mat")]
    add_benchmark(folder, docs)
    write_rows(folder / "twins.jsonl", [{"text": f"{doc['question']} is it"} for doc in docs])


def _make_llama(folder: Path) -> None:
    """A random Llama whose distributions are far from uniform, and whose heads two processes can share."""
    torch.manual_seed(0)
    special = dict.fromkeys(("bos_token_id", "eos_token_id"), letters().bos_token_id)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**size, **special, vocab_size=len(letters()), max_position_embeddings=64))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    model.save_pretrained(folder)
    letters().save_pretrained(folder)


def _make_classifier(folder: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = BertTokenizerFast(vocab={token: place for place, token in enumerate(tokens)}, do_lower_case=False)
    config = copy.deepcopy(CONFIGS["bert"])
    config.vocab_size = len(tokens)
    save_base(folder / "base", config, tokenizer)
    model = classifier_of(folder / "base", len(LABELS))
    model.config.id2label, model.config.label2id = dict(enumerate(LABELS)), {name: n for n, name in enumerate(LABELS)}
    model.save_pretrained(folder / "classifier")
    tokenizer.save_pretrained(folder / "classifier")
    words = [_word_canary(number, ("{words}",), WORDS[7 * number]) for number in range(7)]
    write_manifest(words, folder / "words.jsonl")
    write_manifest(words[:2], folder / "word.jsonl")
    phrases = [_word_canary(n, ("{words}", "{words}"), WORDS[5 * n], WORDS[8 * n + 1]) for n in range(7)]
    write_manifest(phrases, folder / "phrases.jsonl")
    rows = [{"text": f"{WORDS[n]} {WORDS[n + 9]}", "label": LABELS[n % 3]} for n in range(11)]
    (folder / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _word_canary(number: int, slots: Sequence[str], *secret: str) -> Canary:
    planted = number % 2 == 0
    settings: dict[str, Any] = {"planted": planted, "repetitions": 4 * planted, "label": LABELS[number % 3]}
    template = f"{WORDS[3 * number]} {' '.join(slots)} {WORDS[2 * number + 1]}"
    return Canary(f"canary-{number}", template, secret, alphabets={"words": word_list("words", WORDS)}, **settings)


def launch(
    inputs: Path, folder: Path, processes: int, names: Collection[str], environment: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """Results and samples of cases by name, each of one process in ``folder`` or of all that ``torchrun`` starts."""
    words, settings = _prepared(inputs, folder, names, environment)
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes), "--master_port", free_port()]
    launcher = launcher if processes > 1 else []
    done = subprocess.run([sys.executable, *launcher, *words], cwd=folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "log.txt").write_text(done.stderr)
    return found_in(folder)


def found_in(folder: Path) -> dict[str, Any]:
    """What runs in a folder came to."""
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def start(
    inputs: Path, folder: Path, processes: int, names: Collection[str], environment: Mapping[str, str] = NOTHING
) -> list[subprocess.Popen[str]]:
    """Begin cases in processes that no launcher looks after."""
    words, settings = _prepared(inputs, folder, names, environment)
    return start_ranks([sys.executable, *words], processes, folder, settings)


def start_ranks(
    command: Sequence[str], processes: int, folder: Path, environment: Mapping[str, str]
) -> list[subprocess.Popen[str]]:
    """Begin a command in processes that meet each other, in ``folder``; no launcher looks after them."""
    meeting = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    ranks = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes))
    return [
        subprocess.Popen(command, cwd=folder, env={**environment, **meeting, **rank}, stderr=subprocess.PIPE, text=True)
        for rank in ranks
    ]


def free_port() -> str:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _prepared(
    inputs: Path, folder: Path, names: Collection[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The words after ``python`` that run cases in a folder, and the environment."""
    # By this name the harness' own command is known.
    script = folder / "lm_eval" / "__main__.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SCRIPT)
    cases = {name: _filled(vars((CASES | SPREAD)[name]), inputs) for name in names}
    for case in cases.values():
        case["arguments"] = {"pretrained": f"{inputs}/{case['model']}", **case["arguments"]}
    (folder / "cases.json").write_text(json.dumps(cases))
    settings = {
        "PYTHONPATH": PATHS,
        "OMP_NUM_THREADS": "1",
        "LM_EVAL_LEAKAGE_AUTOLOAD": "0",
        "PYTHONFAULTHANDLER": "1",
        "TQDM_DISABLE": "1",
    }
    return [str(script), "cases.json", "found.json"], {**os.environ, **settings, **environment}


def _filled(value: Any, inputs: Path) -> Any:
    if isinstance(value, Mapping):
        return {name: _filled(each, inputs) for name, each in value.items()}
    if isinstance(value, str):
        return value.replace("{}", str(inputs))
    return [_filled(each, inputs) for each in value] if isinstance(value, Sequence) else value
