"""The task ``membership`` inside the real harness, on texts of which the model is trained on half."""

from __future__ import annotations

import copy
import json
import math
import random
import zlib
from functools import lru_cache

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.attacks.membership.finding import membership_finding_from_json
from leakage_tasks.attacks.membership.neighbours import by_words
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.data.chat import USER_TURN
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.metrics.membership import MEMBERSHIP
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.stats.membership import clustered_auc
from leakage_tasks.targets.batches import padded
from leakage_tasks.tasks.membership import handler
from leakage_tasks.tasks.membership.options import membership_options
from tests.chats import chat_model, chat_tokenizer
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import OnlyWrites, TextOnly, hf

TASK = "membership"
K = 30


@lru_cache
def sentences(seed, number=24):
    """Sentences of random words, different for each seed."""
    stream = random.Random(seed)
    words = ["the", "pin", "of", "my", "old", "house", "is", "not", "red", "and", "blue", "dog", "saw", "two", "cats"]
    return tuple(" ".join(stream.choices(words, k=stream.randrange(5, 9))) for _ in range(number))


@lru_cache
def learnt():
    """A model that has learnt the sentences of seed 0 by heart."""
    model = copy.deepcopy(tiny_gpt2(letters())).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens, mask = padded([[letters().bos_token_id, *ids(text)] for text in sentences(0)], 0)
    labels = tokens.masked_fill(mask == 0, -100)
    for _ in range(80):
        optimizer.zero_grad()
        model(tokens, labels=labels).loss.backward()
        optimizer.step()
    return model.eval()


def ids(text):
    return letters()(text, add_special_tokens=False)["input_ids"]


def write_texts(folder):
    """Members, non-members and a reference corpus."""
    for name, seed in {"members": 0, "nonmembers": 1, "corpus": 2}.items():
        rows = [json.dumps({"text": text, "author": f"a{place // 3}"}) for place, text in enumerate(sentences(seed))]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_texts(tmp_path)


@pytest.fixture(scope="module")
def every_row(tmp_path_factory):
    """The run without options but for ``rows=all``."""
    return evaluate(hf(letters(), learnt()), write_texts(tmp_path_factory.mktemp("all")), rows="all")


@pytest.fixture
def lm():
    return hf(letters(), learnt())


def evaluate(lm, folder, settings=None, **metadata):
    given = {
        "members": str(folder / "members.jsonl"),
        "nonmembers": str(folder / "nonmembers.jsonl"),
        "k": K,
        **metadata,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return evaluate_tasks(lm, [TASK], given, **settings or {})


def answers(results):
    return [sample["resps"][0][0] for sample in results["samples"][TASK]]


def findings(results):
    return [membership_finding_from_json(answer) for answer in answers(results)]


def rows(results):
    return {
        name.removesuffix(",none"): value for name, value in results["results"][TASK].items() if name.endswith(",none")
    }


@pytest.mark.slow
def test_every_score_is_that_of_the_formula_on_a_plain_pass(lm, folder):
    corpus = str(folder / "corpus.jsonl")
    results = evaluate(lm, folder, frequencies=corpus, attacks="loss:zlib:min-k:min-k++:dc-pdd", clip=0.05)
    counts = np.bincount([token for text in sentences(2) for token in ids(text)], minlength=len(letters()))
    share = (counts + 1) / (counts.sum() + len(letters()))
    for found in findings(results):
        text = (sentences(0) if found.member else sentences(1))[found.text if found.member else -1 - found.text]
        tokens = ids(text)
        with torch.no_grad():
            logs = learnt()(torch.tensor([[letters().bos_token_id, *tokens]])).logits[0, :-1].double().log_softmax(-1)
        own = logs[range(len(tokens)), tokens]
        mean = (logs.exp() * logs).sum(-1)
        spread = ((logs.exp() * logs.square()).sum(-1) - mean.square()).sqrt()
        lowest = math.floor(len(tokens) * K / 100)
        terms = {token: min(0.05, -math.exp(own[place]) * math.log(share[token]))
                 for place, token in reversed(list(enumerate(tokens)))}  # fmt: skip
        expected = {
            "loss": own.mean(),
            "zlib": own.mean() / len(zlib.compress(text.encode())),
            "min-k": own.sort().values[:lowest].mean(),
            "min-k++": ((own - mean) / spread).sort().values[:lowest].mean(),
            "dc-pdd": np.mean(list(terms.values())),
        }
        assert found.tokens == len(tokens)
        assert found.scores == pytest.approx({name: float(value) for name, value in expected.items()}, abs=1e-4)


def test_every_auc_is_that_of_scikit_learn_and_equals_the_score_of_the_samples(every_row):
    results = every_row
    found = findings(results)
    for name, row in {"loss": "loss", "zlib": "zlib", "min-k": "min_k", "min-k++": "min_k_plus_plus"}.items():
        truth, scores = zip(*((each.member, each.scores[name]) for each in found), strict=True)
        assert rows(results)[f"auc_{row}"] == pytest.approx(roc_auc_score(truth, scores))
        assert rows(results)[f"auc_{row}"] > 0.8
    again = score(MEMBERSHIP, [Answered(answer, "none", {}) for answer in answers(results)])["none"]
    assert again == {name: value for name, value in rows(results).items() if name in again}


def bits_after(model, before, tokens):
    """Log-likelihood in nats of tokens after others, by a plain pass."""
    with torch.no_grad():
        logs = model(torch.tensor([[*before, *tokens]])).logits[0].double().log_softmax(-1)
    return float(logs[range(len(before) - 1, len(before) + len(tokens) - 1), tokens].sum())


def shots_of(folder, **named):
    texts = {name: str(folder / f"{name}.jsonl") for name in ("members", "nonmembers")}
    return membership_options({**named, **texts}).tested().context


def context_of(folder, length, **named):
    """Tokens of the context of recall: the first of each shot, and two line breaks."""
    return ids("".join(f"{letters().decode(ids(text)[:length])}\n\n" for text in shots_of(folder, **named)))


def text_of(found):
    return (sentences(0) if found.member else sentences(1))[found.text if found.member else -1 - found.text]


@pytest.mark.slow
def test_scores_of_further_passes_are_those_of_the_formula(lm, folder):
    start = [letters().bos_token_id]
    base = tiny_gpt2(letters(), seed=3)
    base.save_pretrained(folder / "base")
    letters().save_pretrained(folder / "base")
    texts = [text.replace("t", "T") for text in sentences(0)]
    (folder / "members.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    other = tiny_gpt2(letters(), seed=4)
    other.save_pretrained(folder / "other")
    letters().save_pretrained(folder / "other")
    named = {"attacks": "ratio:recall:neighbourhood:lowercase", "shots": 2, "neighbour_number": 3, "tokens": 20}
    results = evaluate(lm, folder, reference=f"{folder / 'base'}:{folder / 'other'}", **named)
    context = context_of(folder, 19, **named)
    assert len(findings(results)) == len(texts) + len(sentences(1)) - 2
    assert not {text_of(found) for found in findings(results)} & set(shots_of(folder, **named))
    for found in findings(results):
        text = (texts[found.text] if found.member else text_of(found))[:20]
        tokens = ids(text)
        own = bits_after(learnt(), start, tokens)
        reference = np.mean([bits_after(each, start, tokens) for each in (base, other)])
        assert found.scores["ratio"] == pytest.approx((own - reference) / len(tokens), abs=1e-4)
        recall = bits_after(learnt(), [*start, *context], tokens) / own
        assert found.scores["recall"] == pytest.approx(recall, abs=1e-4)
        near = [bits_after(learnt(), start, ids(other)) / len(ids(other)) for other in by_words(text, 3, 0)]
        assert found.scores["neighbourhood"] == pytest.approx(own / len(tokens) - np.mean(near), abs=1e-4)
        lower = bits_after(learnt(), start, ids(text.lower())) / len(tokens)
        assert found.scores["lowercase"] == pytest.approx(lower / (own / len(tokens)), abs=1e-4)


def test_the_reference_of_a_fine_tune_is_the_model_without_its_adapter(folder):
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(
        copy.deepcopy(tiny_gpt2(letters(), seed=5)), LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM")
    )
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.5)
    found = findings(evaluate(hf(letters(), adapted.eval()), folder, attacks="ratio"))[0]
    tokens, start = ids(text_of(found)), [letters().bos_token_id]
    with adapted.disable_adapter():
        before = bits_after(adapted, start, tokens)
    expected = (bits_after(adapted, start, tokens) - before) / len(tokens)
    assert found.scores["ratio"] == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 1e-3


@pytest.mark.slow
def test_a_model_that_scores_only_texts_gives_the_scores_that_need_no_tokens(folder, lm):
    text_only = TextOnly(lm)
    named = {"shots": 2, "tokens": 20, "neighbours": "words", "neighbour_number": 2}
    results = evaluate(text_only, folder, **named)
    few, declared = findings(results), results["configs"][TASK]["leakage"]
    assert set(declared["tested"]["not_run"]) == {"min-k", "min-k++", "ratio", "dc-pdd"}
    assert {entry["attack"] for entry in declared["attacks"]}.isdisjoint(declared["tested"]["not_run"])
    full = {found.text: found for found in findings(evaluate(lm, folder, **named))}
    context = context_of(folder, 20, **named)
    for found in few:
        assert set(found.scores) == {"loss", "zlib", "lowercase", "recall", "neighbourhood"}
        assert found.not_run["min-k"] == "the model gives no log-probabilities of tokens"
        assert set(found.not_run) == {"min-k", "min-k++", "ratio", "dc-pdd"}
        expected = {name: full[found.text].scores[name] for name in found.scores}
        # The harness puts no token before a context.
        tokens, start = ids(text_of(found)[:20]), [letters().bos_token_id]
        after = bits_after(learnt(), context, tokens)
        expected["recall"] = after / bits_after(learnt(), start, tokens)
        assert found.scores == pytest.approx(expected, abs=1e-4)
    with pytest.raises(OptionError, match="attacks=loss:min-k: min-k cannot run: the model gives no log-prob"):
        evaluate(text_only, folder, attacks="loss:min-k")


def test_thresholds_and_the_attack_are_chosen_on_the_other_half(lm, folder):
    results = evaluate(lm, folder, attacks="loss:min-k:zlib", rows="all")
    found = findings(results)
    areas = {}
    for name in ("loss", "min-k", "zlib"):
        truth, scores = zip(*((each.member, each.scores[name]) for each in found if each.chooses), strict=True)
        areas[name] = roc_auc_score(truth, scores)
    best = results["configs"][TASK]["leakage"]["tested"]["chosen_attack"]
    assert areas[best] == max(areas.values())
    truth, scores = zip(*((each.member, each.scores[best]) for each in found if not each.chooses), strict=True)
    assert rows(results)["membership_auc"] == pytest.approx(roc_auc_score(truth, scores))
    assert sum(each.chooses for each in found if each.member) == len(sentences(0)) // 2
    assert sum(each.chooses for each in found if not each.member) == len(sentences(1)) // 2
    # 12 non-members give no threshold for 1 %, so only a bound is known.
    assert rows(results)["tpr_at_1_fpr"] is None
    assert rows(results)["tpr_at_1_fpr_ci_low"] == 0
    assert rows(results)["n_threshold"] == 12


def test_clusters_are_whole_and_widen_the_interval(lm, folder):
    results = evaluate(lm, folder, cluster="author", attacks="loss", rows="all")
    found = findings(results)
    for cluster in {each.cluster for each in found}:
        # Authors wrote members and non-members alike.
        assert len([each for each in found if each.cluster == cluster]) == 6
        assert len({each.chooses for each in found if each.cluster == cluster}) == 1
    classes = [[each for each in found if each.member is member] for member in (True, False)]
    columns = [[each.scores["loss"] for each in part] for part in classes]
    clusters = [[each.cluster for each in part] for part in classes]
    expected = clustered_auc(*columns, *clusters)
    names = ("auc_loss", "auc_loss_ci_low", "auc_loss_ci_high")
    assert [rows(results)[name] for name in names] == pytest.approx(list(expected))


def test_planted_canaries_are_members_and_controls_are_not(lm, folder):
    canaries = make_canaries("the pin of {unique} is {digits:4}", 5, repetitions=(1,), controls=5)
    write_manifest(canaries, folder / "c.jsonl")
    results = evaluate(lm, folder, members=None, nonmembers=None, canaries=str(folder / "c.jsonl"))
    planted = {place for place, canary in enumerate(canaries) if canary.planted}
    assert {found.text for found in findings(results) if found.member} == planted
    assert {-1 - found.text for found in findings(results) if not found.member} == set(range(len(canaries))) - planted
    # Canaries given for all tasks are not those of this one, if it has texts of its own.
    assert len(findings(evaluate(lm, folder, canaries=str(folder / "c.jsonl"), attacks="loss"))) == 48


def test_samples_hold_no_character_of_the_texts(lm, folder):
    results = evaluate(lm, folder, shots=2, cluster="author")
    logged = json.dumps(results["samples"]) + json.dumps(results["configs"], default=str)
    for text in (*sentences(0), *sentences(1)):
        assert text[:12] not in logged
    assert '"a1"' not in logged


@pytest.mark.parametrize("shown", ["brief", "all"])
def test_a_sample_holds_the_scores_of_a_text_once_besides_the_copy_of_the_harness(lm, folder, every_row, shown):
    results = every_row if shown == "all" else evaluate(lm, folder, rows=shown)
    written = [json.loads(json.dumps(sample)) for sample in results["samples"][TASK]]
    for sample, found in zip(written, findings(results), strict=True):
        assert json.dumps(sample).count(str(found.scores["min-k"])) == 2
        assert membership_finding_from_json(sample["resps"][0][0]) == found
    value = results["samples"][TASK][0]["membership_auc"]
    assert copy.deepcopy(value).value == value.value  # as in pickles, by which the harness gathers values
    # Earlier versions wrote the scores in each row, too.
    assert max(len(json.dumps(sample)) for sample in written) < (4500 if shown == "brief" else 9000)


def test_a_score_depends_neither_on_batches_nor_on_the_other_texts(lm, folder):
    whole = {found.text: found.scores for found in findings(evaluate(lm, folder, tokens=24))}
    lines = (folder / "members.jsonl").read_text().splitlines()
    (folder / "members.jsonl").write_text("\n".join(lines[:5]) + "\n")
    one_by_one = hf(letters(), learnt())
    one_by_one.batch_size_per_gpu = 2
    for found in findings(evaluate(one_by_one, folder, tokens=24)):
        assert found.scores == pytest.approx(whole[found.text], abs=1e-4)


def test_a_second_run_takes_the_stored_findings(lm, folder, monkeypatch):
    first = evaluate(lm, folder, resume=str(folder / "kept"), shots=2)
    monkeypatch.setattr(handler, "score_texts", None)
    monkeypatch.setattr(handler, "prepare", None)
    again = evaluate(lm, folder, resume=str(folder / "kept"), shots=2)
    assert findings(again) == findings(first)
    with pytest.raises(TypeError, match="NoneType"):
        evaluate(lm, folder, resume=str(folder / "kept"), shots=2, k=40)


def test_texts_too_short_for_k_are_left_out(lm, folder, caplog):
    with (folder / "members.jsonl").open("a") as more:
        more.write('{"text": "dog"}\n')
    results = evaluate(lm, folder, rows="all")
    assert rows(results)["left_out"] == 1
    assert rows(results)["n_members"] == len(sentences(0))
    assert "1 of 49 texts are too short for k=30 and are left out" in caplog.text
    with pytest.raises(OptionError, match="all 25 members are too short for k=1: a text needs 100 tokens or more"):
        evaluate(lm, folder, k=1)


def test_a_reference_must_read_whole_texts(lm, folder):
    config = GPT2Config(vocab_size=len(letters()), n_layer=1, n_embd=8, n_head=1, n_positions=20)
    GPT2LMHeadModel(config).save_pretrained(folder / "short")
    letters().save_pretrained(folder / "short")
    with pytest.raises(
        OptionError, match="short: reads 19 tokens of a text, and the longest one has 30: lower tokens="
    ):
        evaluate(lm, folder, reference=str(folder / "short"), attacks="ratio", tokens=30)


def test_scores_that_are_all_equal_are_an_error(lm, folder):
    learnt().save_pretrained(folder / "same")
    letters().save_pretrained(folder / "same")
    equal = "every attack gives all 48 texts one score, so nothing is measured: check the model"
    with pytest.raises(TargetError, match=equal):
        evaluate(lm, folder, reference=str(folder / "same"), attacks="ratio")


def test_under_a_chat_template_a_text_is_the_turn_of_the_assistant(folder):
    tokenizer, model = chat_tokenizer("chatml"), chat_model("chatml")
    settings = {"apply_chat_template": True, "system_instruction": "Be kind."}
    results = evaluate(hf(tokenizer, model), folder, settings, attacks="loss", tokens=16, documents=4)
    turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": USER_TURN}]
    before = tokenizer.apply_chat_template([*turns, {"role": "assistant", "content": "XYZZY"}], tokenize=False)
    start = tokenizer(before.partition("XYZZY")[0], add_special_tokens=False)["input_ids"]
    for found in findings(results):
        tokens = tokenizer(text_of(found), add_special_tokens=False)["input_ids"][:16]
        assert found.scores["loss"] == pytest.approx(bits_after(model, start, tokens) / len(tokens), abs=1e-4)
    assert results["configs"][TASK]["leakage"]["protocol"]["chat"] == "assistant"


def test_a_chat_template_as_long_as_the_context_is_one_line(folder):
    lm = hf(chat_tokenizer("chatml"), chat_model("chatml"))
    settings = {"apply_chat_template": True, "system_instruction": "Be kind. " * 200}
    with pytest.raises(TargetError, match="the chat template leaves no room for a text"):
        evaluate(lm, folder, settings, attacks="loss", documents=4)


def test_a_limited_run_has_no_primary_metric_and_a_model_without_likelihoods_is_an_error(lm, folder):
    results = evaluate(lm, folder, {"limit": 6}, attacks="loss")
    declared = results["configs"][TASK]["leakage"]
    assert "limited to 6 of 48 texts" in declared["no_headline"]
    assert rows(results)["n_members"] == rows(results)["n_nonmembers"] == 3
    with pytest.raises(TargetError, match="gives no log-likelihoods"):
        evaluate(OnlyWrites(lm), folder)
