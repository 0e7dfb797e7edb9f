"""Questions from held-out text, and tasks that the harness reads as they are meant."""

from __future__ import annotations

import json
import random

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.corpus import pydoc_topics
from leakage_tasks.research.victims.docstrings import docstring_corpus
from leakage_tasks.research.victims.multiple_choice_tasks import (
    Question,
    continuation_questions,
    module_questions,
    write_task,
)
from tests.targets.text_models import Limited


@pytest.fixture(scope="module")
def corpus():
    return pydoc_topics(characters=20_000)


@pytest.fixture(scope="module")
def questions(corpus):
    return continuation_questions(corpus.held_out, corpus.training, count=200)


@pytest.fixture(scope="module")
def labelled():
    return docstring_corpus(classes=6, samples=200, held_out=220)


def test_the_right_continuation_stands_in_the_text_and_no_other_does(questions, corpus):
    assert len(questions) == 200
    for question in questions:
        known = question.text + question.choices[question.answer]
        assert known in corpus.held_out
        wrong = [choice for place, choice in enumerate(question.choices) if place != question.answer]
        assert all(choice in corpus.held_out for choice in wrong)
        assert all(question.text + choice not in corpus.held_out for choice in wrong)


def test_continuations_are_of_one_length_and_differ(questions):
    assert all(len(set(question.choices)) == 4 for question in questions)
    assert {len(choice) for question in questions for choice in question.choices} == {12}


def test_nothing_of_the_training_text_is_asked_about(questions, corpus):
    assert all(question.text not in corpus.training for question in questions)
    assert not any(choice in corpus.training for question in questions for choice in question.choices)


def test_lines_of_the_training_text_are_left_out(corpus):
    mixed = corpus.held_out + corpus.training
    asked = continuation_questions(mixed, corpus.training, count=200)
    assert all(question.text in corpus.held_out for question in asked)


def test_no_question_is_asked_twice_and_answers_stand_in_every_place(questions):
    assert len({question.text for question in questions}) == 200
    places = [question.answer for question in questions]
    assert all(30 <= places.count(place) <= 70 for place in range(4))


def test_the_same_seed_asks_the_same(corpus, questions):
    assert continuation_questions(corpus.held_out, corpus.training, count=200) == questions
    assert continuation_questions(corpus.held_out, corpus.training, count=200, seed=1) != questions


def test_too_little_text_is_refused(corpus):
    with pytest.raises(OptionError, match=r"count is 200: the held-out text yields \d+ questions"):
        continuation_questions(corpus.held_out[:1000], count=200)


@pytest.mark.slow
def test_the_right_module_is_the_row_s_label(labelled):
    rows = dict(labelled.validation)
    asked = module_questions(labelled.validation, labelled.labels, count=200)
    assert len({question.text for question in asked}) == 200
    for question in asked:
        assert question.choices[question.answer] == rows[question.text]
        assert len(set(question.choices)) == 4
        assert set(question.choices) <= set(labelled.labels)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "labels"), [(10, 6), (220, 3)])
def test_too_few_rows_or_labels_are_refused(labelled, rows, labels):
    with pytest.raises(OptionError, match=rf"count is 20: there are {rows} rows and {labels} labels"):
        module_questions(labelled.validation[:rows], labelled.labels[:labels], count=20)


class ShortestFirst(Limited):
    """A stand-in for a model: the likelier a continuation, the shorter it is; notes what it is asked."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def loglikelihood(self, requests):
        self.seen += [request.args for request in requests]
        return [(-float(len(request.args[1])), False) for request in requests]


@pytest.mark.parametrize("delimiter", ["", " "])
def test_the_harness_asks_each_choice_after_the_text_and_scores_the_answers(tmp_path, delimiter, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    stream = random.Random(0)
    asked = [
        Question(f"text {n}", tuple("x" * length for length in stream.sample(range(1, 9), 4)), stream.randrange(4))
        for n in range(30)
    ]
    write_task(tmp_path / "tasks", "shortest", asked, delimiter=delimiter)
    model, manager = ShortestFirst(), TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    (found,) = simple_evaluate(model, tasks=["shortest"], task_manager=manager, bootstrap_iters=0)["results"].values()
    right = [min(question.choices, key=len) == question.choices[question.answer] for question in asked]
    assert found["acc,none"] == pytest.approx(sum(right) / 30)
    assert "acc_norm,none" in found
    expected = {(question.text, delimiter + choice) for question in asked for choice in question.choices}
    assert set(model.seen) == expected


def test_a_task_replaces_an_older_one_whole(tmp_path):
    one, two = Question("a", ("b", "c"), 0), Question("d", ("e", "f"), 1)
    write_task(tmp_path, "asked", [one, one, one])
    path = write_task(tmp_path, "asked", [two])
    lines = path.with_suffix(".jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"text": "d", "choices": ["e", "f"], "answer": 1}]
    assert sorted(place.name for place in tmp_path.iterdir()) == ["asked.jsonl", "asked.yaml"]
