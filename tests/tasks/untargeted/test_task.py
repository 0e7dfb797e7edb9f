"""The task ``untargeted_extraction`` inside the real harness, on a corpus that the model writes partly."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
import torch

from leakage_tasks.attacks.untargeted.finding import untargeted_finding_from_json
from leakage_tasks.attacks.untargeted.words import ORDINARY, WORDS
from leakage_tasks.core.errors import MissingOption, OptionError, TargetError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.metrics.untargeted import UNTARGETED_EXTRACTION
from leakage_tasks.pairs.index.build import write_index
from leakage_tasks.pairs.index.corpus import IndexSource
from leakage_tasks.stats.intervals import clopper_pearson
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.text_models import TextOnly, hf

TASK = "untargeted_extraction"
LENGTH, RUN, TEXTS = 24, 6, 8
OPTIONS = {
    "texts": TEXTS,
    "length": LENGTH,
    "run_length": RUN,
    "corpus_prefix": 5,
    "temperature": 0.4,
    "repeats": 3,
    "prompt_words": 2,
    "kinds": "empty:short:divergence:prefix:ordinary",
}


def ids(text):
    """Tokens of a text, of which the model may write the unknown token, too."""
    known = [letters()(part, add_special_tokens=False)["input_ids"] for part in text.split("<unk>")]
    return [*known[0], *(token for part in known[1:] for token in (letters().unk_token_id, *part))]


@lru_cache
def likely_texts(seed, number=40, model=None):
    """Texts that the model, or a model with other weights, is likely to write, by `transformers`."""
    torch.manual_seed(seed)
    rows = torch.full((number, 1), letters().bos_token_id)
    chosen = tiny_gpt2(letters()) if model is None else tiny_gpt2(letters(), seed=model)
    settings = {"do_sample": True, "temperature": 0.8, "top_k": 40, "max_new_tokens": 60, "eos_token_id": -1}
    rows = chosen.generate(rows, attention_mask=torch.ones_like(rows), pad_token_id=0, **settings)
    texts = [letters().decode([token for token in row[1:] if token != letters().bos_token_id]) for row in rows]
    return tuple(text for text in texts if ids(text) and "<" not in text)


def write_inputs(folder):
    """The corpus, the controls, the prompts and the tokenizer."""
    for name, texts in {"seen": likely_texts(0), "unseen": likely_texts(1, model=7)}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    letters().save_pretrained(folder / "spoken")
    (folder / "ordinary.txt").write_text("how are you\n\nwhat is the pin\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_inputs(tmp_path)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The folder and the results of the run without further options."""
    folder = write_inputs(tmp_path_factory.mktemp("usual"))
    return folder, evaluate(hf(letters()), folder)


@pytest.fixture
def lm():
    return hf(letters())


def evaluate(lm, folder, settings=None, **metadata):
    given = {
        **OPTIONS,
        "data": str(folder / "seen.jsonl"),
        "controls": str(folder / "unseen.jsonl"),
        "tokenizer": str(folder / "spoken"),
        "ordinary": str(folder / "ordinary.txt"),
        **metadata,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return evaluate_tasks(lm, [TASK], given, **settings or {})


def findings(results):
    return [untargeted_finding_from_json(sample["resps"][0][0]) for sample in results["samples"][TASK]
            if sample["filter"] == "none"]  # fmt: skip


def held(text, corpus):
    """Lengths of the longest stretch that begins at each token and that a document holds, by search for substrings."""
    row, documents = _spelt(text), [_spelt(each) for each in corpus]
    lengths = []
    for start in range(len(row)):
        size = 0
        while start + size < len(row) and any(row[start : start + size + 1] in each for each in documents):
            size += 1
        lengths.append(size)
    return lengths


def _spelt(text):
    """One character for each token."""
    return "".join(map(chr, ids(text)))


@pytest.mark.slow
def test_every_figure_is_that_of_the_written_texts_searched_by_brute_force(lm, folder):
    results = evaluate(lm, folder, reveal=True, rows="all", texts=20, temperature=0.3)
    row, written = results["results"][TASK], findings(results)
    seen, unseen = likely_texts(0), likely_texts(1, model=7)
    assert len(written) == 6 * 20
    lengths = {id(each): held(each.text, unseen if each.unseen else seen) for each in written}
    shares = {}
    for each in written:
        if each.hits is not None:
            own = lengths[id(each)]
            assert max((run[1] for run in each.hits.runs), default=0) == (max(own) if max(own, default=0) >= RUN else 0)
            assert sum(run[2] for run in each.hits.ngrams) == sum(length >= RUN for length in own)
            shares.setdefault(each.kind, []).append(max(own, default=0) >= RUN)
    for kind in ("empty", "short", "divergence", "prefix", "ordinary"):
        assert row[f"extracted,{kind}"] == pytest.approx(np.mean(shares[kind]))
        assert row[f"n,{kind}"] == 20
    untargeted = [hit for kind in ("empty", "short", "divergence") for hit in shares[kind]]
    assert 0 < sum(untargeted) < len(untargeted)
    assert row["extracted,none"] == pytest.approx(np.mean(untargeted))
    ends = row["extracted_ci_low,none"], row["extracted_ci_high,none"]
    assert ends == pytest.approx(clopper_pearson(sum(untargeted), len(untargeted)))
    assert row["propensity,none"] == row["extracted,ordinary"]
    assert row["capability,none"] == pytest.approx(np.mean(shares["divergence"] + shares["prefix"]))
    _check_amounts(row, [each for each in written if each.kind in ("empty", "short", "divergence")], lengths)
    controls = [held(each.text, unseen) for each in written if each.kind in ("empty", "short", "divergence")]
    assert row["control_extracted,none"] == pytest.approx(np.mean([max(own, default=0) >= RUN for own in controls]))
    assert row["control_longest_run,none"] == max(
        length if length >= RUN else 0 for own in controls for length in [*own, 0]
    )


def _check_amounts(row, written, lengths):
    grams = [
        {tuple(ids(each.text)[i : i + RUN]) for i, length in enumerate(lengths[id(each)]) if length >= RUN}
        for each in written
    ]
    number = Counter(Counter(gram for text in grams for gram in text).values())
    tokens = sum(each.tokens for each in written)
    assert row["tokens_written,none"] == tokens == sum(len(ids(each.text)) for each in written)
    assert row["unique_ngrams,none"] == sum(number.values())
    assert row["ngrams_per_million,none"] == pytest.approx(1e6 * sum(number.values()) / tokens)
    assert row["unseen_share,none"] == pytest.approx(number[1] / sum(map(len, grams)))
    n = len(grams)
    assert number[2]
    chao = sum(number.values()) + (n - 1) / n * number[1] * (number[1] - 1) / (2 * (number[2] + 1))
    assert row["total_ngrams,none"] == pytest.approx(chao)
    runs = {tuple(ids(each.text)[start : start + size]) for each in written for start, size, *_ in each.hits.runs}
    assert row["unique_runs,none"] == len(runs)


def test_greedy_texts_are_those_of_transformers(lm, folder):
    results = evaluate(lm, folder, decoding="greedy", temperature=None, texts=2, reveal=True, kinds="empty:ordinary")
    texts = {(each.kind, each.prompt): each.text for each in findings(results)}
    prompts = {("empty", 0): "", ("ordinary", 0): "how are you", ("ordinary", 1): "what is the pin"}
    for key, prompt in prompts.items():
        row = torch.tensor([[letters().bos_token_id, *ids(prompt)]])
        out = tiny_gpt2(letters()).generate(
            row, attention_mask=torch.ones_like(row), do_sample=False, max_new_tokens=LENGTH, pad_token_id=0
        )
        after = out[0, row.shape[1] :].tolist()
        end = after.index(letters().eos_token_id) if letters().eos_token_id in after else LENGTH
        assert texts[key] == letters().decode(after[:end])


@pytest.mark.slow
def test_samples_hold_no_character_of_prompts_corpus_or_texts(lm, folder, usual):
    results, shown = usual[1], evaluate(lm, folder, reveal=True)
    logged = json.dumps(results["samples"]) + json.dumps(results["configs"], default=str)
    for each in [*(finding.text for finding in findings(shown)), *likely_texts(0), "how are you", "what is the pin"]:
        assert len(each) < 6 or each not in logged
    assert {finding.text for finding in findings(results)} == {None}
    hidden, revealed = (
        {name: value for name, value in each["results"][TASK].items() if name.count(",")} for each in (results, shown)
    )
    assert hidden == revealed


def test_a_text_depends_neither_on_batches_nor_on_the_others(lm, folder, usual):
    alone = findings(evaluate(lm, folder, texts=3, kinds="short", ordinary=None))
    beside = findings(usual[1])
    for each in alone:
        [same] = [
            other for other in beside if (other.kind, other.prompt, other.sample) == ("short", each.prompt, each.sample)
        ]
        assert (each.hits, each.control_hits, each.tokens) == (same.hits, same.control_hits, same.tokens)


@pytest.mark.slow
def test_without_controls_nothing_represents_the_model(lm, folder, usual):
    results = evaluate(lm, folder, controls=None)
    declared = results["configs"][TASK]["leakage"]
    assert declared["no_headline"].startswith("no controls")
    assert "no primary metric" in results["configs"][TASK]["task_alias"]
    row = results["results"][TASK]
    assert not [name for name in row if "control" in name or name.startswith("excess")]
    assert {"extracted,none", "propensity,none", "capability,none"} <= row.keys()
    assert len(findings(results)) == 5 * TEXTS
    assert "no_headline" not in usual[1]["configs"][TASK]["leakage"]


def test_the_declaration_names_hashes_sizes_and_controls(usual):
    folder, results = usual
    declared = json.loads(json.dumps(results["configs"][TASK]["leakage"], allow_nan=False))
    assert declared["tested"]["corpus_documents"] == len(likely_texts(0))
    assert declared["tested"]["control_tokens"] == sum(len(ids(text)) for text in likely_texts(1, model=7))
    assert {"data", "controls", "ordinary"} <= declared["protocol"].keys()
    assert str(folder) not in json.dumps(declared["protocol"])
    assert (declared["protocol"]["run_length"], "kinds" in declared["protocol"]) == (RUN, False)
    for name in ("extracted", "propensity", "capability"):
        spec = declared["rows"][name]
        assert (spec["headline"], spec["control"]) == (True, f"control_{name}")
        assert {spec["count"], *spec["interval"]} <= declared["rows"].keys()
    hidden = declared["hidden_metrics"]
    assert {"covered", "unique_ngrams", "personal_data_written"} <= hidden.keys()
    [[attack]] = [list({each["attack"] for each in declared["attacks"]})]
    assert attack == "top-k 40, temperature 0.4"


def test_samples_are_scored_again_to_the_same_figures(lm, folder):
    results = evaluate(lm, folder, rows="all")
    settings = {**OPTIONS, "controls": "unseen", "rows": "all"}
    answered = [Answered(sample["resps"][0][0], sample["filter"], settings) for sample in results["samples"][TASK]]
    for column, rows in score(UNTARGETED_EXTRACTION, answered).items():
        for name, value in rows.items():
            assert results["results"][TASK][f"{name},{column}"] == (value if value is None else pytest.approx(value))


@pytest.mark.slow
def test_a_resumed_run_writes_only_what_is_missing(folder, monkeypatch):
    whole = evaluate(hf(letters()), folder, seed=3)
    evaluate(hf(letters()), folder, {"limit": 24}, resume=str(folder / "kept"), seed=3)
    lm = hf(letters())
    written = []
    draw = "leakage_tasks.targets.suffix.writing.CausalWriter.write"
    from leakage_tasks.targets.suffix.writing import CausalWriter

    plain = CausalWriter.write
    monkeypatch.setattr(draw, lambda *given: written.append(len(given[1])) or plain(*given))
    again = evaluate(lm, folder, resume=str(folder / "kept"), seed=3)
    assert findings(again) == findings(whole)
    before = sum(written)
    assert findings(evaluate(lm, folder, resume=str(folder / "kept"), seed=3)) == findings(whole)
    assert sum(written) == before < 2 * 6 * TEXTS


def test_a_model_that_only_writes_is_searched_through_text(folder):
    seen = likely_texts(0)
    writer = TextOnly(
        hf(letters()), lambda context, settings, place: seen[place % 2][:20] if "pin" in context else "no"
    )
    results = evaluate(writer, folder, kinds="ordinary:empty:prefix", reveal=True)
    asked = [context for context, _ in writer.asked["generate_until"]]
    assert {"how are you", "what is the pin", letters().bos_token} <= set(asked)
    prefixes = [context for context in asked if len(ids(context)) == 5]
    assert len(prefixes) >= TEXTS
    row = results["results"][TASK]
    with_pin = [each for each in findings(results) if each.kind == "ordinary" and each.prompt == 1]
    assert all(each.hits.extracted(RUN) for each in with_pin)
    assert row["propensity,none"] == pytest.approx(0.5)
    _, settings = writer.asked["generate_until"][0]
    assert (settings["max_gen_toks"], settings["do_sample"], settings["temperature"]) == (LENGTH, True, 0.4)


@pytest.mark.slow
def test_an_index_on_the_disk_gives_the_figures_of_its_text(lm, folder, usual):
    for name in ("seen", "unseen"):
        write_index(IndexSource(str(folder / f"{name}.jsonl"), str(folder / "spoken")), folder / name, part=500)
    index = evaluate(lm, folder, data=str(folder / "seen"), controls=str(folder / "unseen"))
    found = usual[1], index
    rows = [{name: value for name, value in each["results"][TASK].items() if name.count(",")} for each in found]
    assert rows[0] == rows[1]


def test_a_limited_run_has_texts_of_every_kind_and_no_headline(lm, folder):
    results = evaluate(lm, folder, {"limit": 12})
    assert Counter(each.kind for each in findings(results)) == {
        "empty": 2, "short": 2, "divergence": 2, "prefix": 4, "ordinary": 2
    }  # fmt: skip
    assert "limited to 12 of" in results["configs"][TASK]["task_alias"]


def _other_tokenizer(folder):
    merging().save_pretrained(folder / "merging")
    write_index(IndexSource(str(folder / "seen.jsonl"), str(folder / "merging")), folder / "other")
    return {"data": str(folder / "other"), "controls": None}


def _overlapping(folder):
    lines = (folder / "seen.jsonl").read_text().splitlines()
    (folder / "both.jsonl").write_text("\n".join(lines[1:]) + "\n")
    return {"controls": str(folder / "both.jsonl")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda path: {"data": None}, "needs the corpus: pass --metadata data="),
        (lambda path: {"data": "no.txt"}, "no.txt: no such file"),
        (lambda path: {"data": "hub:owner/name"}, "make an index of it once, with 'leakage index hub:owner/name"),
        (lambda path: {"tokenizer": None}, "an index holds tokens: pass --metadata tokenizer="),
        (lambda path: {"controls": str(path / "seen.jsonl")}, "holds the same text as data="),
        (_overlapping, r"both.jsonl: \d+ % of its 50-grams are also in .*: give text that is not in the corpus"),
        (_other_tokenizer, "other: its tokens are of the tokenizer '.*merging', which is another than the model's"),
        (lambda path: {"kinds": "empty:shot"}, "kinds has 'shot'; did you mean 'short'"),
        (lambda path: {"kinds": "empty:empty", "ordinary": None}, "kinds names a kind twice"),
        (lambda path: {"kinds": "empty"}, "ordinary=.* has no use without kinds=ordinary"),
        (lambda path: {"run_length": 99}, "run_length is 99, but texts have at most length=24 tokens"),
        (lambda path: {"corpus_prefix": 60}, "no document of 66 tokens was found"),
        (lambda path: {"length": 900, "run_length": 800}, "longest document has .* so no text can hold .*=800: lower"),
        (lambda path: {"decoding": "greedy"}, "temperature means nothing to decoding=greedy"),
        (lambda path: {"prompts": str(path / "no")}, "no: cannot read the prompts of prompts="),
        (lambda path: {"decoding": "beam"}, "decoding='beam' is unknown"),
    ],
)
def test_a_setting_that_cannot_work_is_one_clear_error(lm, folder, given, message):
    with pytest.raises((OptionError, MissingOption), match=message):
        evaluate(lm, folder, **given(folder))


def test_an_index_of_another_tokenizer_than_the_controls_is_refused(lm, folder):
    other = _other_tokenizer(folder)["data"]
    with pytest.raises(OptionError, match="its index has another tokenizer than"):
        evaluate(lm, folder, controls=other)


def test_texts_longer_than_the_context_are_refused_before_the_bar(lm, folder, capsys):
    with pytest.raises(TargetError, match="length=60 exceed the model's context of 64 tokens: lower length"):
        evaluate(lm, folder, length=60)
    assert "Writing" not in capsys.readouterr().err


def test_large_text_is_indexed_by_the_command_alone(lm, folder, monkeypatch):
    monkeypatch.setattr("leakage_tasks.tasks.untargeted.corpora.SMALL", 100)
    (folder / "large.jsonl").write_text((folder / "seen.jsonl").read_text())
    with pytest.raises(
        OptionError, match="a run indexes at most 100 B itself: make an index once, with 'leakage index"
    ):
        evaluate(lm, folder, data=str(folder / "large.jsonl"))


def test_built_in_prompts_suffice(lm, folder):
    results = evaluate(lm, folder, ordinary=None, texts=4, kinds="short", seed=1, rows="all")
    assert results["results"][TASK]["n,short"] == 4
    assert len(set(WORDS)) == len(WORDS) > 100
    assert len(set(ORDINARY)) == len(ORDINARY)
    assert math.isfinite(results["results"][TASK]["extracted,none"])
