"""The same commands on two generations of the harness: the same figures, samples and declarations.

``python tests/supply/generations.py FOLDER`` runs each with the installed harness and with the one in FOLDER, on a tiny
model with random weights, and ends with exit code 1 where they differ. ``make next`` runs it.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK_START = ROOT / "tests" / "quick_start"
MODEL = "--model hf --model_args pretrained=model --device cpu --log_samples --output_path"
COMMANDS = {
    "alone": "--tasks canary_extraction,canary_exposure --metadata canaries=canaries.jsonl,seed=3",
    "in a group, beside a standard task": "--tasks leakage,toy --include_path toy --metadata canaries=canaries.jsonl",
    "suffixes and held-out text": "--tasks suffix_extraction,heldout_bits_per_byte --metadata "
    "data=text.txt,text=text.txt,split=all,prefix_length=8,suffix_length=4,samples=5",
    "labels, with a limit": "--tasks canary_exposure,label_accuracy,toy --include_path toy --limit 4 --metadata "
    "canaries=canaries.jsonl,data=labelled.jsonl",
    "chosen samples": "--tasks canary_exposure --samples '{\"canary_exposure\": [2, 5, 7]}' "
    "--metadata canaries=canaries.jsonl",
    "examples and arguments of generation": "--tasks canary_exposure,toy --include_path toy --num_fewshot 1 "
    "--gen_kwargs temperature=1 --metadata canaries=canaries.jsonl",
    "as JSON": '--tasks canary_extraction --metadata \'{"canaries": "canaries.jsonl", "attack": "greedy"}\'',
}
TOY = """task: toy
dataset_path: json
dataset_kwargs: {data_files: {test: labelled.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: [a, b]
doc_to_target: label
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {version: 1}
"""
OURS = ("canary_exposure", "canary_extraction", "suffix_extraction", "label_accuracy")


def main(other: Path) -> int:
    """Run all commands with both; the exit code."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for what, words in COMMANDS.items():
            with ThreadPoolExecutor() as both:
                first, second = both.map(functools.partial(run, folder, words), (None, other))
            found = sorted(differences(first, second))
            figures = sum(len(each) for each in first["results"].values())
            print(f"{what}: {figures} figures, {sum(map(len, first['samples'].values()))} samples", flush=True)
            print("".join(f"  differs: {each}\n" for each in found), end="", flush=True)
            wrong += len(found)
    return 1 if wrong else 0


def prepare(folder: Path) -> None:
    """A model, canaries and texts."""
    sys.path.insert(0, str(ROOT))
    from pydoc_data.topics import topics

    from leakage_tasks import make_canaries, write_manifest
    from tests.oracles import letters, tiny_gpt2

    tiny_gpt2(letters()).save_pretrained(folder / "model")
    letters().save_pretrained(folder / "model")
    pins = make_canaries("the pin of {unique} is {digits:2}.", 12, repetitions=[1, 4], controls=6, seed=1)
    write_manifest(pins, folder / "canaries.jsonl")
    (folder / "text.txt").write_text(next(iter(topics.values()))[:6000], encoding="utf-8")
    rows = [{"text": "the pin is red", "label": "a"}, {"text": "the river is", "label": "b"}] * 5
    (folder / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "toy").mkdir()
    (folder / "toy" / "toy.yaml").write_text(TOY)


def run(folder: Path, words: str, place: Path | None) -> dict[str, Any]:
    """Results and samples of one command, with the harness in ``place`` or the installed one."""
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1"}
    places = [QUICK_START, *([] if place is None else [place.resolve()])]
    settings |= {"PYTHONPATH": os.pathsep.join(map(str, places))}
    output = Path(tempfile.mkdtemp(prefix="out-", dir=folder))
    command = [sys.executable, "-m", "lm_eval", *shlex.split(MODEL), str(output), *shlex.split(words)]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    (path,) = output.rglob("results_*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    samples = {each.stem.removeprefix("samples_").rsplit("_", 1)[0]: rows(each) for each in output.rglob("samples_*")}
    return {**found, "samples": samples}


def rows(path: Path) -> list[dict[str, Any]]:
    """The samples of a file without how long they took, in one order."""
    found = [timeless(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(found, key=lambda row: (row["filter"], row["doc_id"]))


def timeless(value: Any) -> Any:
    """A value of JSON without the seconds of findings in it, which are JSON themselves."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [timeless(each) for each in value]
    return timeless(json.loads(value)) if isinstance(value, str) and value.startswith('{"') else value


def differences(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    """What of two runs is not the same."""
    found = {name for name in ("results", "n-samples", "versions", "n-shot") if first[name] != second[name]}
    found |= {"group_subtasks"} & {name for name in first if first[name] != second.get(name)}
    for task in set(OURS) & first["configs"].keys():
        one, other = (
            {name: value for name, value in run["configs"][task]["leakage"].items() if name != "command"}
            for run in (first, second)
        )
        found |= {f"declaration of {task}: {name}" for name in one | other if one.get(name) != other.get(name)}
        found |= {
            f"sample of {task}: {name}"
            for one, other in zip(first["samples"][task], second["samples"][task], strict=True)
            for name in one | other
            if one.get(name) != other.get(name)
        }
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
