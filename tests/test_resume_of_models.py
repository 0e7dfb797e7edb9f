"""Every kind of model and attack goes on from what a killed run found; so does suffix extraction."""

import csv
import json

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from adapters.nlu_tagger import NLUTaggerLM
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.core.journal import FILES
from leakage_tasks.tasks.suffix import suffix_handler
from tests.oracles import merging, tiny_gpt2
from tests.taggers import pin, tiny_tagger, words_tokenizer
from tests.targets.seq2seq.test_target import hf as translating
from tests.targets.text_models import OnlyWrites
from tests.tasks.suffix.test_task import PAIRS
from tests.tasks.suffix.test_task import data as data
from tests.tasks.suffix.test_task import evaluate as extract
from tests.tasks.test_canary_tasks import BOTH, evaluate
from tests.tasks.test_resume import Killed, attacked, killed_after, outcome
from tests.test_classifier_tasks import MODELS, made

__all__ = ["attacked", "data", "made"]


def goes_on(load, given, folder, monkeypatch, attacked, number, tasks=BOTH):
    """Killed after so many findings, a run ends as one that was not; how many canaries the last one attacked."""
    whole = outcome(evaluate(load(), tasks, given))
    given = {**given, "resume": str(folder)}
    with monkeypatch.context() as patched:
        killed_after(patched, number)
        with pytest.raises(Killed):
            evaluate(load(), tasks, given)
    attacked.clear()
    found = outcome(evaluate(load(), tasks, given))
    assert sum(file.read_text().count("\n") for file in folder.glob(FILES)) == number + sum(map(len, attacked))
    return whole, found, [len(each) for each in attacked]


@pytest.mark.parametrize("kind", MODELS)
def test_classifiers(made, tmp_path, monkeypatch, attacked, kind):
    given = {"canaries": str(made / "canaries.jsonl")}
    every = len((made / "canaries.jsonl").read_text().splitlines())
    whole, found, left = goes_on(lambda: MODELS[kind](made), given, tmp_path / "kept", monkeypatch, attacked, every + 3)
    assert left == [0, every - 3]
    assert found == whole


def test_a_generator_counts(made, tmp_path, attacked):
    given = {"canaries": str(made / "canaries.jsonl"), "resume": str(tmp_path / "kept")}
    every = len((made / "canaries.jsonl").read_text().splitlines())
    for generator, new in (("frankenstein", every), ("pretrained", every), ("frankenstein", 0)):
        attacked.clear()
        evaluate(MODELS["frankenstein-mlm"](made, generator=generator), ["canary_exposure"], given)
        assert [len(each) for each in attacked] == [new]


def test_taggers_whose_canaries_are_attacked_together(tmp_path, monkeypatch, attacked):
    canaries = [pin("6", name="one"), pin("2", "4", name="two"), pin("0", name="no", planted=False, repetitions=0)]
    write_manifest(canaries, tmp_path / "c.jsonl")
    given = {"canaries": str(tmp_path / "c.jsonl"), "canary_extraction": {"steps": 5, "restarts": 2}}

    def load():
        return NLUTaggerLM(tiny_tagger(True), words_tokenizer(), device="cpu")

    whole, found, left = goes_on(load, given, tmp_path / "kept", monkeypatch, attacked, 4)
    assert left == [0, 2]
    assert json.dumps(found).count('"inversion"') == json.dumps(whole).count('"inversion"') > 0
    assert close(found, whole)


def close(one, other, rel=1e-9):
    """Company in a batch may round otherwise."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name], rel) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(close(*pair, rel) for pair in zip(one, other, strict=True))
    return one == pytest.approx(other, rel=rel) if isinstance(one, float) else one == other


@pytest.mark.slow
def test_translation_models(tmp_path, monkeypatch, attacked):
    canaries = [Canary(name, "pin {digits:2}.", tuple(name), source="ab") for name in ("12", "34", "56")]
    write_manifest(canaries, tmp_path / "c.jsonl")
    given = {"canaries": str(tmp_path / "c.jsonl")}
    exposure = ["canary_exposure"]
    load = lambda: translating("bart")  # noqa: E731
    whole, found, left = goes_on(load, given, tmp_path / "kept", monkeypatch, attacked, 2, exposure)
    assert left == [1]
    assert close(found, whole, 1e-6)


# -- suffix extraction ------------------------------------------------------------------------------------------


def model():
    return HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=4)


@pytest.fixture
def drawn(monkeypatch):
    """How many pairs attacks were asked for, and were not there already."""
    seen = []

    def noting(target, pairs, request, **settings):
        seen.append(len(pairs) - len(settings["known"]))
        return attack(target, pairs, request, **settings)

    attack = suffix_handler.attack_pairs
    monkeypatch.setattr(suffix_handler, "attack_pairs", noting)
    return seen


@pytest.mark.parametrize("number", [70, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 64, PAIRS - 1))])
def test_pairs(data, tmp_path, monkeypatch, drawn, number):
    whole = outcome(extract(model(), data, samples=5, rows=None, guesses=str(tmp_path / "whole.csv")))
    kept = {"samples": 5, "rows": None, "resume": str(tmp_path / "kept"), "guesses": str(tmp_path / "again.csv")}
    with monkeypatch.context() as patched:
        killed_after(patched, number)
        with pytest.raises(Killed):
            extract(model(), data, **kept)
    drawn.clear()
    found = outcome(extract(model(), data, **kept))
    assert drawn == [PAIRS - number]
    assert found == whole
    rows = [list(csv.reader((tmp_path / name).open())) for name in ("whole.csv", "again.csv")]
    assert rows[0] == rows[1]
    drawn.clear()
    assert outcome(extract(model(), data, **kept)) == whole
    assert drawn == []


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"seed": 1}, {"samples": 21}, {"temperature": 0.4}, {"prefix_lengths": "3"}])
def test_with_another_order_nothing_of_pairs_is_used_again(data, tmp_path, drawn, more):
    extract(model(), data, resume=str(tmp_path / "kept"))
    drawn.clear()
    extract(model(), data, resume=str(tmp_path / "kept"), **more)
    assert drawn == [PAIRS]


@pytest.mark.slow
def test_with_other_pairs_or_another_model_nothing_is_used_again(data, tmp_path, drawn):
    extract(model(), data, resume=str(tmp_path / "kept"))
    drawn.clear()
    other = HFLM(pretrained=tiny_gpt2(merging(), seed=1), tokenizer=merging(), batch_size=4)
    extract(other, data, resume=str(tmp_path / "kept"))
    suffixes = np.load(data / "train_suffix.npy", allow_pickle=False)
    suffixes[0, 0] += 1
    np.save(data / "train_suffix.npy", suffixes)
    extract(model(), data, resume=str(tmp_path / "kept"))
    assert drawn == [PAIRS, PAIRS]


@pytest.mark.slow
def test_tokens_of_pairs_are_kept_only_where_samples_or_a_file_show_them(data, tmp_path):
    for name, more in (("plain", {}), ("shown", {"reveal": True})):
        extract(model(), data, resume=str(tmp_path / name), **more)
        lines = next((tmp_path / name).glob(FILES)).read_text().splitlines()
        found = [json.loads(json.loads(line)["finding"]) for line in lines]
        assert all(bool(each["guesses"]) == bool(more) for each in found)
        assert len(found) == PAIRS


def test_models_of_text_that_only_write(tmp_path, monkeypatch, attacked):
    write_manifest([Canary(name, "pin {digits:2}", tuple(name)) for name in ("12", "34")], tmp_path / "c.jsonl")
    given = {"canaries": str(tmp_path / "c.jsonl"), "attack": "greedy", "model_id": "writer 1"}
    load = lambda: OnlyWrites(model(), lambda text, settings, place: "12")  # noqa: E731
    whole, found, left = goes_on(load, given, tmp_path / "kept", monkeypatch, attacked, 1, ["canary_extraction"])
    assert (left, found) == ([1], whole)
