"""The task ``contamination_test`` inside the real harness, on benchmarks of local files."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import ne
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from leakage_tasks.attacks.contamination.finding import contamination_finding_from_json
from leakage_tasks.core.errors import MissingOption, OptionError, TargetError
from leakage_tasks.metrics.contamination import CONTAMINATION_TEST
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.targets.harness.whole_texts import WholeTexts
from leakage_tasks.tasks.contamination.options import read_contamination_options
from tests.conftest import ROOT
from tests.oracles import direct_costs, letters, merging, tiny_gpt2
from tests.targets.text_models import TextOnly, hf, scheme_probabilities

TASK, WORDS = "contamination_test", ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog", "run", "far"]
BENCHMARK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
test_split: test
output_type: generate_until
doc_to_text: "{text}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 2}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
TAG = "tag: riddles\n"


def documents(number: int, seed: int = 0) -> list[dict[str, str]]:
    stream = random.Random(seed)
    words = [" ".join(stream.sample(WORDS, 3)) for _ in range(number)]
    return [{"question": text, "answer": str(stream.randrange(100))} for text in words]


def texts(docs: list[dict[str, str]]) -> list[str]:
    """Items as a few-shot example shows them."""
    return [f"{doc['question']}: {doc['answer']}" for doc in docs]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def add_benchmark(folder: Path, docs: list[dict[str, str]], name: str = "riddle", more: str = "") -> None:
    file = write(folder / f"{name}.jsonl", docs)
    yaml = BENCHMARK.format(name=name, file=file, text="{{question}}:") + more
    (folder / f"{name}.yaml").write_text(yaml)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A benchmark of 24 riddles in the harness' format."""
    add_benchmark(tmp_path, documents(24))
    return tmp_path


def evaluate(lm: Any, folder: Path, settings: dict[str, Any] | None = None, tasks: Any = (TASK,), **given: Any) -> Any:
    given = {"of": "riddle", **given}
    given = {name: value for name, value in given.items() if value is not None}
    paths = [str(folder), str(ROOT / "task_configs")]
    manager = TaskManager(include_path=paths, include_defaults=False, metadata=given)
    return lm_eval.simple_evaluate(lm, tasks=[*tasks], task_manager=manager, **settings or {})


def figures(results: Any) -> dict[str, float]:
    """All metrics of a run, by name."""
    declared = results["configs"][TASK]["leakage"]
    row = {name.partition(",")[0]: value for name, value in results["results"][TASK].items() if name.endswith(",none")}
    return row | declared.get("hidden_metrics", {}) if isinstance(declared.get("hidden_metrics"), dict) else row


def findings(results: Any) -> list[Any]:
    return [contamination_finding_from_json(sample["resps"][0][0]) for sample in results["samples"][TASK]]


def test_all_orders_of_four_items_give_the_p_of_the_paper(tmp_path):
    docs = [{"question": word, "answer": str(number)} for number, word in enumerate(("cat", "dog", "mat", "run"))]
    add_benchmark(tmp_path, docs)
    found = figures(evaluate(hf(letters()), tmp_path, form="permutation"))
    orders = ["\n\n".join(order) for order in itertools.permutations(texts(docs))]
    canonical, *others = direct_costs(tiny_gpt2(letters()), letters(), orders)
    assert len(others) == 23
    assert found["order_p"] == pytest.approx((1 + sum(cost <= canonical for cost in others)) / 24)
    assert found["order_preferred"] == pytest.approx(sum(cost > canonical for cost in others) / 23)
    assert found["order_t_p"] is None
    assert found["n_orders"] == pytest.approx(24)


def test_shards_have_scipys_t_test(tmp_path):
    docs = [{"question": word, "answer": "1"} for word in ("a", "cat", "sat", "on", "no", "dog", "far", "run", "mat")]
    add_benchmark(tmp_path, docs)
    found = figures(evaluate(hf(letters()), tmp_path, shards=3, permutations=5, rows="all"))
    gains, shares = [], []
    for shard in (docs[:3], docs[3:6], docs[6:]):
        orders = ["\n\n".join(order) for order in itertools.permutations(texts(shard))]
        canonical, *others = (-cost for cost in direct_costs(tiny_gpt2(letters()), letters(), orders))
        gains.append(canonical - np.mean(others))
        shares.append(np.mean([other < canonical for other in others]))
    assert found["order_gain"] == pytest.approx(np.mean(gains), abs=1e-3)
    assert found["order_t_p"] == pytest.approx(stats.ttest_1samp(gains, 0, alternative="greater").pvalue, abs=1e-3)
    assert found["order_preferred"] == pytest.approx(np.mean(shares))
    assert (found["n_items"], found["n_shards"], found["windows"]) == (9, 3, 1)


def test_it_is_a_row_next_to_the_benchmark(folder):
    results = evaluate(hf(letters()), folder, tasks=("riddle", TASK), shards=4)
    table = make_table(results)
    assert "exact_match" in table
    assert f"{TASK} (order not shown)" in table or f"{TASK} (order known)" in table
    declared = json.loads(json.dumps(results["configs"][TASK]["leakage"], allow_nan=False))
    assert declared["tested"] == {
        "benchmark": "riddle", "items": 24, "items_available": 24, "shards": 4, "shuffles": 30
    }  # fmt: skip
    assert {"of", "data", "shards"} == declared["protocol"].keys()
    spec = declared["rows"]["order_preferred"]
    assert (spec["headline"], spec["chance"], spec["count"]) == (True, "0.5", "n_shards")


def test_neither_batches_nor_processes_nor_other_shards_change_a_finding(folder):
    whole = findings(evaluate(hf(letters()), folder, shards=4, permutations=6))
    small = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=1)
    limited = findings(evaluate(small, folder, {"limit": 2}, shards=4, permutations=6))
    for one, other in zip(whole, limited, strict=False):
        assert (one.canonical, *one.shuffled) == pytest.approx((other.canonical, *other.shuffled), abs=1e-3)
    assert len(limited) == 2


def test_samples_hold_no_item_and_give_the_figures_again(folder):
    twins = write(folder / "twins.jsonl", documents(24, seed=5))
    results = evaluate(hf(letters()), folder, shards=4, twins=twins, rows="all")
    logged = json.dumps(results["samples"][TASK]) + json.dumps(results["configs"][TASK], default=str)
    assert not [text for doc in documents(24) for text in (doc["question"], *texts([doc])) if text in logged]
    answered = [Answered(sample["resps"][0][0], "none", {"twins": twins}) for sample in results["samples"][TASK]]
    again = score(CONTAMINATION_TEST, answered)["none"]
    assert len(again) > 20
    for name, value in figures(results).items():
        assert name not in again or again[name] == (value if value is None else pytest.approx(value)), name


def test_a_resumed_run_scores_only_what_is_missing(folder, monkeypatch):
    given = {"shards": 4, "permutations": 5, "twins": write(folder / "twins.jsonl", documents(24, seed=5))}
    whole = findings(evaluate(hf(letters()), folder, **given))
    evaluate(hf(letters()), folder, {"limit": 7}, resume=str(folder / "kept"), **given)
    scored = []
    plain = WholeTexts.score
    monkeypatch.setattr(WholeTexts, "score", lambda model, texts: scored.extend(texts) or plain(model, texts))
    assert findings(evaluate(hf(letters()), folder, resume=str(folder / "kept"), **given)) == whole
    # Four shards and three twins were stored.
    assert len(scored) == (24 - 3) * 2
    scored.clear()
    assert findings(evaluate(hf(letters()), folder, resume=str(folder / "kept"), **given)) == whole
    assert not scored


@lru_cache
def words() -> PreTrainedTokenizerFast:
    """A tokenizer of whole words and numbers, so that a sequence of items is short."""
    tokens = ["<s>", "<unk>", ":", *WORDS, *map(str, range(100))]
    backend = Tokenizer(models.WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<s>", unk_token="<unk>")


def learner(sequences: Iterable[list[str]], steps: int = 120) -> HFLM:
    """A small model that learns sequences of items, one per step."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(words()), n_layer=2, n_embd=64, n_head=4, n_positions=160, resid_pdrop=0.0)
    config.bos_token_id = config.eos_token_id = words().bos_token_id
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for sequence in itertools.islice(sequences, steps):
        row = torch.tensor([[words().bos_token_id, *words()("\n\n".join(sequence))["input_ids"]]])
        model(row, labels=row).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return HFLM(pretrained=model.eval(), tokenizer=words(), batch_size=32)


def shuffled() -> Iterator[list[str]]:
    stream = random.Random(3)
    while True:
        yield stream.sample(texts(documents(24)), 24)


@pytest.fixture(scope="module")
def learnt() -> HFLM:
    return learner(itertools.repeat(texts(documents(24))))


@pytest.mark.slow
def test_a_model_that_learnt_the_items_in_order_knows_it(folder, learnt):
    results = evaluate(learnt, folder, shards=6)
    found = figures(results)
    assert found["order_p"] < 0.001
    assert found["order_t_p"] < 0.05
    assert found["order_gain_ci_low"] > 0
    assert found["order_preferred"] > 0.9
    assert f"{TASK} (order known)" in make_table(results)
    sequence = figures(evaluate(learnt, folder, form="permutation", permutations=39))
    assert sequence["order_p"] == pytest.approx(1 / 40)


@pytest.mark.slow
def test_a_model_that_learnt_the_items_in_random_orders_shows_none(folder):
    lm = learner(shuffled())
    twins = write(folder / "twins.jsonl", documents(24, seed=5))
    found = figures(evaluate(lm, folder, shards=6, twins=twins))
    assert found["order_p"] > 0.05
    # The items themselves are known, as their twins show.
    assert found["twin_p"] < 0.001


def test_items_cost_less_than_twins_that_the_model_never_saw(folder, learnt):
    docs, rewritten = documents(24), documents(24, seed=5)
    twins = write(folder / "twins.jsonl", rewritten)
    found = figures(evaluate(learnt, folder, shards=6, twins=twins, rows="all"))
    rates = []
    for some in (texts(docs), texts(rewritten)):
        sizes = [len(words()(text)["input_ids"]) for text in some]
        rates.append(np.array(direct_costs(learnt.model, words(), some)) / sizes)
    gains = rates[1] - rates[0]
    assert found["twin_gain"] == pytest.approx(gains.mean(), abs=1e-3)
    assert found["twin_p"] == pytest.approx(stats.wilcoxon(gains, alternative="greater").pvalue, rel=1e-2)
    above = np.mean([[float(one < other) for other in rates[1]] for one in rates[0]])
    assert found["twin_auc"] == pytest.approx(above)
    assert found["n_twins"] == 24
    assert found["p_z"] > found["twin_p_z"]
    assert found["p_z_p"] < 0.05


def test_p_z_is_the_probability_of_the_second_half_under_top_k(folder):
    docs, rewritten = documents(24), documents(24, seed=5)
    twins = write(folder / "twins.jsonl", [{"item": 7, "text": text} for text in texts(rewritten)[:1]] + [
        {"item": 2, "text": text} for text in texts(rewritten)[1:2]
    ])  # fmt: skip
    found = [each for each in findings(evaluate(hf(letters()), folder, twins=twins, shards=4)) if each.kind == "twins"]
    assert [each.number for each in found] == [2, 7]
    for each, text in ((found[0].item, texts(docs)[2]), (found[1].twin, texts(rewritten)[0])):
        ids = torch.tensor([letters()(text, add_special_tokens=False)["input_ids"]])
        first = ids.shape[1] // 2
        with torch.no_grad():
            logits = tiny_gpt2(letters())(ids).logits[0].double()
        bits = 0.0
        for index in range(first, first + each.length):
            kept = logits[index - 1].topk(40)
            shares = dict(zip(kept.indices.tolist(), kept.values.softmax(0).tolist(), strict=True))
            share = shares.get(int(ids[0, index]), 0.0)
            bits += -np.log2(share) if share else np.inf
        assert each.drawn == pytest.approx(bits, abs=1e-3) if np.isfinite(bits) else each.drawn is None
    assert all(each.item.length == each.twin.length > 0 for each in found)


def test_nearly_written_halves_are_bounded_by_all_of_them(tmp_path):
    docs = [{"question": word, "answer": "1"} for word in ("a", "on", "no", "at")]
    add_benchmark(tmp_path, docs)
    twins = write(tmp_path / "twins.jsonl", [{"text": f"{word} is"} for word in ("mat", "cat", "dog", "sat")])
    lm = hf(letters())
    results = evaluate(lm, tmp_path, twins=twins, shards=2, near=1, continuation=2, rows="all")
    halves = [each for each in findings(results) if each.kind == "twins"]
    for each, text in zip(halves, texts(docs), strict=True):
        ids = letters()(text, add_special_tokens=False)["input_ids"]
        first = len(ids) // 2
        true = ids[first : first + 2]
        drawn = scheme_probabilities(tiny_gpt2(letters()), ids[:first], 2, 1.0, 40, 1.0, -1)
        # Texts of equal length with one edit differ in one token.
        expected = sum(chance for path, chance in drawn.items() if sum(map(ne, path, true)) <= 1)
        low, high = each.item.p_near
        assert 0 < low <= expected + 1e-6
        assert expected <= high + 1e-6
    found = figures(results)
    assert found["p_near"] == pytest.approx(np.mean([each.item.p_near[0] for each in halves]))
    assert found["twin_p_near"] == pytest.approx(np.mean([each.twin.p_near[0] for each in halves]))
    assert found["p_near"] >= found["p_z"]


def test_a_template_decides_the_text(tmp_path):
    docs = [{"question": word, "answer": "1"} for word in ("a", "cat", "sat", "on", "no", "dog")]
    add_benchmark(tmp_path, docs)
    found = findings(evaluate(hf(letters()), tmp_path, template=r"q {{question}}\n", separator="-", shards=2))
    for each, shard in zip(found, (docs[:3], docs[3:]), strict=True):
        text = "-".join(f"q {doc['question']}\n" for doc in shard)
        assert -each.canonical == pytest.approx(direct_costs(tiny_gpt2(letters()), letters(), [text])[0], abs=1e-3)


def test_a_chat_model_reads_conversations(tmp_path):
    docs = [{"question": f"{10 + number}", "answer": str(number)} for number in range(4)]
    add_benchmark(tmp_path, docs)
    spoken, tokenizer = merging(), copy.deepcopy(merging())
    model = tiny_gpt2(spoken)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role[0] }}{{ m.content }};{% endfor %}"
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8)
    found = findings(evaluate(lm, tmp_path, {"apply_chat_template": True, "system_instruction": "no"}, shards=2))
    for each, shard in zip(found, (docs[:2], docs[2:]), strict=True):
        text = "".join(f"sno;u{doc['question']}:;a{doc['answer']};" for doc in shard)
        assert -each.canonical == pytest.approx(direct_costs(model, spoken, [text])[0], abs=1e-3)


def test_twins_have_the_turns_of_their_items_in_a_chat(folder):
    """Equal twins cost the same; twins that are whole texts would be read after another question, so are refused."""
    docs, spoken = documents(24), copy.deepcopy(letters())
    spoken.chat_template = "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% endfor %}"
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=spoken, batch_size=8)
    whole = write(folder / "whole.jsonl", [{"text": text} for text in texts(docs)])
    equal = write(folder / "equal.jsonl", docs)
    in_chat = {"apply_chat_template": True}
    found = [figures(evaluate(lm, folder, in_chat, shards=4, twins=equal, rows="all"))]
    given = {"template": "{{question}}: {{answer}}", "twins": whole}
    found.append(figures(evaluate(lm, folder, in_chat, shards=4, rows="all", **given)))
    assert [(each["twin_gain"], each["twin_auc"], each["twin_p"]) for each in found] == [(0, 0.5, 1)] * 2
    with pytest.raises(OptionError, match=r"the twin of item 0 \(from 0\) is a whole text, but with --apply_chat"):
        evaluate(lm, folder, in_chat, shards=4, twins=whole)


def test_a_model_of_texts_alone_is_served(folder):
    class Rolling(TextOnly):
        def loglikelihood_rolling(self, requests):
            return self.inner.loglikelihood_rolling(requests)

    twins = write(folder / "twins.jsonl", documents(24, seed=5))
    found = figures(evaluate(Rolling(hf(letters())), folder, shards=4, twins=twins, rows="all"))
    assert found["order_p"] is not None
    assert found["p_z"] is None
    with pytest.raises(OptionError, match="near needs the probabilities of next tokens"):
        evaluate(Rolling(hf(letters())), folder, shards=4, twins=twins, near=0.1)
    with pytest.raises(TargetError, match="gives no log-likelihoods of whole texts"):
        evaluate(TextOnly(hf(letters())), folder, shards=4)


def _prepare(folder: Path) -> None:
    add_benchmark(folder, [], "empty")
    add_benchmark(folder, documents(1), "single")
    add_benchmark(folder, documents(4), "one_of", TAG)
    add_benchmark(folder, documents(4), "other_of", TAG)
    add_benchmark(folder, [*documents(3), {"question": "the cat " * 12, "answer": "1"}], "long")
    (folder / "set.yaml").write_text("group: set\ntask: [one_of, other_of]\n")
    (folder / "lost.yaml").write_text(BENCHMARK.format(name="lost", file=folder / "no.jsonl", text="x"))
    write(folder / "few.jsonl", documents(3))
    write(folder / "some.jsonl", documents(24))
    write(folder / "twice.jsonl", [{"item": 1, "text": "a"}, {"item": 1, "text": "b"}])
    write(folder / "far.jsonl", [{"item": 24, "text": "a"}])
    write(folder / "mixed.jsonl", [{"item": 1, "text": "a"}, {"text": "b"}])
    write(folder / "odd.jsonl", [{"question": "a"}] * 24)
    (folder / "broken.jsonl").write_text('{"text": "a"}\n{"text"\n')


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"of": None}, MissingOption, "needs a benchmark: pass --metadata of=TASK"),
        ({"of": "ridle"}, OptionError, r"has no such task; did you mean 'riddle'\? 'lm_eval ls tasks'"),
        ({"of": "set"}, OptionError, "of=set: is a group of tasks"),
        ({"of": "riddles"}, OptionError, "of=riddles: is a group of tasks.*: name one of its tasks"),
        ({"of": "canary_exposure"}, OptionError, "of=canary_exposure: measures leakage itself"),
        ({"of": "single"}, OptionError, "of=single: 1 document, but an order needs 2 or more"),
        ({"of": "lost"}, OptionError, "of=lost: cannot be loaded .*: run the benchmark by itself once"),
        ({"of": "no.yaml"}, OptionError, "of=no.yaml: cannot be loaded"),
        ({"items": 1}, OptionError, "of=riddle: 1 document"),
        ({"of_split": "training"}, OptionError, "of_split=training: riddle has no such documents: use test"),
        ({"shards": 1}, OptionError, "shards=1: the t-test compares 2 or more"),
        ({"shards": 13}, OptionError, "24 items make no 13 shards of 2 items or more"),
        ({"items": 3}, OptionError, "3 items make no 2 shards of 2 items or more"),
        ({"permutations": 0}, OptionError, "permutations=0 must be 1 or more"),
        ({"template": "{{nothing}}"}, OptionError, "template={{nothing}} fails .*its fields are question, answer"),
        ({"template": "{{"}, OptionError, "template={{: no Jinja template"),
        ({"template": " "}, OptionError, "its text is empty"),
        ({"of": "long", "shards": 2}, TargetError, "item 3 .from 0. has .* tokens, but the model reads 64"),
        ({"twins": "few.jsonl"}, OptionError, "3 twins for 24 items: write one per item"),
        ({"twins": "twice.jsonl"}, OptionError, "twice.jsonl:2: item=1: expected each number from 0 to 23 once"),
        ({"twins": "far.jsonl"}, OptionError, "far.jsonl:1: item=24: expected each number from 0 to 23 once"),
        ({"twins": "mixed.jsonl"}, OptionError, "mixed.jsonl:2: expected a whole number in 'item', in all rows"),
        ({"twins": "odd.jsonl"}, OptionError, "odd.jsonl:1: "),
        ({"twins": "broken.jsonl"}, OptionError, "broken.jsonl:2: not JSON"),
        ({"twins": "none.jsonl"}, OptionError, "none.jsonl"),
        ({TASK: {"near": 0.1}}, OptionError, "near has no use without twins"),
        ({"twins": "some.jsonl", "near": 1.5}, OptionError, "near is 1.5: give a number of tokens, a share"),
        ({"seperator": " "}, OptionError, "did you mean 'separator'"),
    ],
)
def test_bad_input_is_one_line(folder, given, error, message):
    _prepare(folder)
    if "twins" in given:
        given = {**given, "twins": str(folder / given["twins"])}
    with pytest.raises(error, match=message):
        evaluate(hf(letters()), folder, **given)


def test_a_benchmark_without_documents_is_refused(folder):
    _prepare(folder)
    with pytest.raises(OptionError, match=r"of=empty: (no documents|cannot be loaded)"):
        evaluate(hf(letters()), folder, of="empty")


def test_a_test_of_itself_is_refused(folder):
    yaml = (ROOT / "task_configs" / "contamination_test.yaml").read_text().replace(TASK, "second", 1)
    (folder / "second.yaml").write_text(yaml)
    with pytest.raises(OptionError, match="of=second: is itself a test of a benchmark"):
        evaluate(hf(letters()), folder, of="second")


def test_a_second_test_names_its_benchmark_in_its_file(folder):
    add_benchmark(folder, documents(6, seed=9), "other")
    yaml = (ROOT / "task_configs" / "contamination_test.yaml").read_text().replace(TASK, "second", 1)
    (folder / "second.yaml").write_text(f"{yaml.rstrip()}\n  of: other\n")
    results = evaluate(hf(letters()), folder, tasks=("second",), of=None, shards=2)
    declared = results["configs"]["second"]["leakage"]
    assert (declared["tested"]["benchmark"], declared["scoring"]) == ("other", TASK)
    assert results["results"]["second"]["n_items,none"] == 6


def test_a_yaml_file_outside_the_folders_is_read(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    add_benchmark(elsewhere, documents(6, seed=9), "hidden")
    results = evaluate(hf(letters()), folder, of=str(elsewhere / "hidden.yaml"), shards=2)
    assert results["configs"][TASK]["leakage"]["tested"]["benchmark"] == "hidden"


def test_an_edit_distance_for_other_tasks_of_the_run_is_no_error():
    assert read_contamination_options({"of": "riddle", "near": 0.1}).halves.near == 0
    assert read_contamination_options({"of": "riddle", "near": 0.1, "twins": "t.jsonl"}).halves.near == 0.1
