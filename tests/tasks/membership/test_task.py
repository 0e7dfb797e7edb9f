"""The task ``membership`` inside the real harness, on texts of which the model is trained on half."""

from __future__ import annotations

import json
import random
from functools import lru_cache

import lm_eval
import pytest
import torch
from lm_eval.tasks import TaskManager

from leakage_tasks.attacks.membership.finding import membership_finding_from_json
from tests.conftest import ROOT
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import hf

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
    model = tiny_gpt2(letters()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rows = [[letters().bos_token_id, *ids(text)] for text in sentences(0)]
    for _ in range(40):
        optimizer.zero_grad()
        for row in rows:
            tokens = torch.tensor([row])
            model(tokens, labels=tokens).loss.div(len(rows)).backward()
        optimizer.step()
    return model.eval()


def ids(text):
    return letters()(text, add_special_tokens=False)["input_ids"]


@pytest.fixture
def folder(tmp_path):
    """Members, non-members, a reference corpus, and a reference model with its tokenizer."""
    for name, seed in {"members": 0, "nonmembers": 1, "corpus": 2}.items():
        rows = [json.dumps({"text": text, "author": f"a{place // 3}"}) for place, text in enumerate(sentences(seed))]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return tmp_path


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
    manager = TaskManager(include_path=str(ROOT / "task_configs"), include_defaults=False, metadata=given)
    return lm_eval.simple_evaluate(lm, tasks=[TASK], task_manager=manager, **settings or {})


def answers(results):
    return [sample["resps"][0][0] for sample in results["samples"][TASK]]


def findings(results):
    return [membership_finding_from_json(answer) for answer in answers(results)]


def rows(results):
    return {
        name.removesuffix(",none"): value for name, value in results["results"][TASK].items() if name.endswith(",none")
    }


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


def test_every_auc_is_that_of_scikit_learn_and_equals_the_score_of_the_samples(lm, folder):
    results = evaluate(lm, folder, rows="all")
    found = findings(results)
    for name, row in {"loss": "loss", "zlib": "zlib", "min-k": "min_k", "min-k++": "min_k_plus_plus"}.items():
        truth, scores = zip(*((each.member, each.scores[name]) for each in found), strict=True)
        assert rows(results)[f"auc_{row}"] == pytest.approx(roc_auc_score(truth, scores))
        assert rows(results)[f"auc_{row}"] > 0.8
    again = score(MEMBERSHIP, [Answered(answer, "none", {}) for answer in answers(results)])["none"]
    assert again == {name: value for name, value in rows(results).items() if name in again}
