"""The group ``leakage``: what the model or the options at hand cannot answer is null there, and an error by itself."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table
from transformers import BertForSequenceClassification

from adapters.classifier_scorer import ClassifierScorerLM
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import LeakageError, ManifestError, MissingOption, OptionError, TargetError
from leakage_tasks.harness.api import Instance
from leakage_tasks.harness.generation import request
from leakage_tasks.metrics.aggregates import count, mean
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.report.load.results_file import every_row as row
from leakage_tasks.tasks.base_task import LocalTask
from leakage_tasks.tasks.dispatch import answer_by_group
from tests.conftest import ROOT
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece
from tests.report.saved import Writer

CANARIES = ["canary_exposure", "canary_extraction"]
SUFFIXES = "suffix_extraction"


@pytest.fixture
def lm() -> HFLM:
    return HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2, label="mid"), tmp_path / "c.jsonl")
    return str(tmp_path / "c.jsonl")


def evaluate(lm: LM, tasks: Sequence[str], include: Sequence[Path] = (), **options: Any) -> dict[str, Any]:
    metadata = options.pop("metadata", {})
    paths = [str(ROOT / "task_configs"), *map(str, include)]
    known = TaskManager(include_path=paths, include_defaults=False, metadata=metadata)  # type: ignore[arg-type]
    found = lm_eval.simple_evaluate(lm, tasks=list(tasks), task_manager=known, **options)
    assert found is not None
    json.dumps(found["results"], allow_nan=False)
    return found  # type: ignore[return-value]


@contextmanager
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Warnings that a task is null."""
    said: list[str] = []
    with caplog.at_level(logging.WARNING, logger="lm_eval"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("lm_eval"), "propagate", True)
        yield said
        said.extend(line for record in caplog.records if " is null: " in (line := record.getMessage()))


# -- the group itself ---------------------------------------------------------------------------------------


def test_what_the_model_can_answer_is_what_it_answers_by_itself(
    lm: HFLM, manifest: str, caplog: pytest.LogCaptureFixture
) -> None:
    with warned(caplog) as said:
        group = evaluate(lm, ["leakage"], metadata={"canaries": manifest})
    alone = evaluate(lm, CANARIES, metadata={"canaries": manifest})
    for task in CANARIES:
        assert row(group, task) == row(alone, task)
        assert group["versions"][task] == alone["versions"][task] == 1.0
        samples = [[json.loads(each["resps"][0][0]) for each in run["samples"][task]] for run in (group, alone)]
        assert [found["settings"] for found in samples[0]] == [found["settings"] for found in samples[1]]
    assert group["group_subtasks"]["leakage"] == [*CANARIES, SUFFIXES]
    assert set(row(group, SUFFIXES).values()) == {None}
    (line,) = said
    assert line.startswith(
        "leakage: suffix_extraction is null: suffix_extraction needs pairs of prefix and suffix: pass"
    )


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Pairs of tokens that the small models know."""
    pairs = [{"prefix": [5 + n, 6, 7, 8], "suffix": [9, 10 + n, 11]} for n in range(4)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    return str(tmp_path / "pairs.jsonl")


def test_a_model_that_can_answer_all_answers_all(
    lm: HFLM, manifest: str, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"data": data, "split": "all", "samples": 20}
    with warned(caplog) as said:
        group = evaluate(lm, ["leakage"], metadata={"canaries": manifest, **options})
    assert row(group, SUFFIXES) == row(evaluate(lm, [SUFFIXES], metadata=options), SUFFIXES)
    assert row(group, SUFFIXES)["n"] == 4
    assert row(group, CANARIES[0])["n_planted"] == 3
    assert said == []


def test_pairs_the_model_has_no_tokens_for_leave_the_canaries(
    lm: HFLM, manifest: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"prefix": [5], "suffix": [60000]}\n')
    options = {"data": str(tmp_path / "pairs.jsonl"), "split": "all"}
    with warned(caplog) as said:
        results = evaluate(lm, ["leakage"], metadata={"canaries": manifest, **options})
    assert set(row(results, SUFFIXES).values()) == {None}
    assert row(results, CANARIES[0])["exposure"] is not None
    assert [line.split(": pair")[0] for line in said] == ["leakage: suffix_extraction is null"]
    with pytest.raises(TargetError, match="pair 0 has token 60000"):
        evaluate(lm, [SUFFIXES], metadata=options)


def test_a_confidence_that_nothing_can_be_learnt_for_leaves_the_canaries(
    lm: HFLM, manifest: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [{"prefix": [5, 6, 7], "suffix": [1 + n, 9, 30, 12, 2, 40, 3]} for n in range(30)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    options = {"data": str(tmp_path / "pairs.jsonl"), "confidence": "trained", "samples": 3}
    with warned(caplog) as said:
        results = evaluate(lm, ["leakage"], metadata={"canaries": manifest, **options})
    assert row(results, SUFFIXES) == {"recall": None, "recall_early_stop": None, "p_z": None}
    assert row(results, CANARIES[0])["exposure"] is not None
    (line,) = said
    assert line.startswith("leakage: suffix_extraction is null: confidence=trained cannot be fitted: 0 of")


def test_a_damaged_file_of_pairs_stays_an_error(lm: HFLM, manifest: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"prefix": [5]}\n')
    with pytest.raises(OptionError, match="pairs.jsonl:1: field 'suffix' is missing"):
        evaluate(lm, ["leakage"], metadata={"canaries": manifest, "data": str(tmp_path / "pairs.jsonl")})


def test_the_group_stands_beside_other_tasks(lm: HFLM, manifest: str, tmp_path: Path) -> None:
    (tmp_path / "held.txt").write_text("the pin is lost\n")
    metadata = {"canaries": manifest, "text": str(tmp_path / "held.txt")}
    results = evaluate(lm, ["leakage", "heldout_bits_per_byte"], metadata=metadata)
    assert row(results, "heldout_bits_per_byte")["bits_per_byte"] > 0
    assert row(results, "canary_exposure")["exposure"] is not None


# -- what the model cannot answer ---------------------------------------------------------------------------


def test_a_task_the_model_cannot_answer_is_null_and_the_others_are_not(
    manifest: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = {"canaries": manifest, "canary_extraction": {"attack": "greedy"}}
    with warned(caplog) as said:
        results = evaluate(Writer(), ["leakage"], metadata=metadata)
    assert set(row(results, "canary_exposure").values()) == {None}
    assert {"exposure", "control_exposure", "n_planted"} <= set(row(results, "canary_exposure"))
    assert row(results, "canary_extraction")["n_planted"] == 3
    (line,) = [line for line in said if SUFFIXES not in line]
    assert line.startswith("leakage: canary_exposure is null: canary 'canary-0': Writer gives no log-likelihoods")
    assert "canary_exposure" in make_table(results)
    answers = [sample["resps"][0][0] for sample in results["samples"]["canary_exposure"]]
    assert {json.loads(answer)["unanswered"] for answer in answers} == {line.split(" is null: ")[1]}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> ClassifierScorerLM:
    folder = tmp_path_factory.mktemp("classifier")
    model: BertForSequenceClassification = tiny_bert()
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return ClassifierScorerLM(str(folder), device="cpu")


def test_a_classifier_has_no_label_for_built_in_canaries_and_no_suffixes(
    classifier: ClassifierScorerLM, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    with warned(caplog) as said:
        results = evaluate(classifier, ["leakage"], metadata={"data": data, "split": "all"})
    for task in (*CANARIES, SUFFIXES):
        assert set(row(results, task).values()) == {None}
    for task in CANARIES:
        assert sum(f"leakage: {task} is null: canary 'control-0': has no label" in line for line in said) == 1
    assert len(said) == 3
    with pytest.raises(TargetError, match="has no label"):
        evaluate(classifier, ["canary_extraction"])


def test_an_unknown_label_of_one_canary_makes_the_task_null(classifier: ClassifierScorerLM, tmp_path: Path) -> None:
    items = [make_canaries("the {digits:1}", 1, label=label, id_prefix=label)[0] for label in ("mid", "none")]
    for name, some in (("known", items[:1]), ("one", items)):
        write_manifest(some, tmp_path / f"{name}.jsonl")
    known = evaluate(classifier, ["leakage"], metadata={"canaries": str(tmp_path / "known.jsonl")})
    assert row(known, "canary_exposure")["exposure"] is not None
    one = evaluate(classifier, ["leakage"], metadata={"canaries": str(tmp_path / "one.jsonl")})
    assert set(row(one, "canary_exposure").values()) == {None}


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"canaries": "missing.jsonl"}, ManifestError, "missing.jsonl: cannot read the manifest"),
        ({"attack": "magic"}, OptionError, "attack='magic' is unknown"),
        ({"budgt": 3}, OptionError, "did you mean 'budget'"),
        ({"budget": 0}, OptionError, "budget=0 must be 1 or more"),
        ({"rows": "some"}, OptionError, "rows='some' is unknown: use brief, all"),
    ],
)
def test_mistakes_stay_errors(lm: HFLM, metadata: dict[str, Any], error: type[LeakageError], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(lm, ["leakage"], metadata=metadata)


# -- an option that is not given ----------------------------------------------------------------------------


class NeedsFile(LocalTask):
    """A task that cannot do without an option."""

    OUTPUT_TYPE = "attack"
    DOCUMENTS, SOURCE = "things", "files"
    METRICS = [
        MetricSpec("size", "a size").row(lambda found: None, mean),
        MetricSpec("n", "things").row(lambda found: 1.0, count),
    ]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        with self.may_lack_options():
            if "file" not in self.metadata:
                raise MissingOption("needs_file needs a file: pass --metadata file=…")
            raise OptionError("needs_file: the file is damaged: mend it")

    def doc_to_text(self, doc: Any) -> str:
        return ""

    def doc_to_target(self, doc: Any) -> str:
        return ""

    def construct_requests(self, doc: Any, ctx: str, **settings: Any) -> Instance:
        raise AssertionError("there are no documents")

    def process_results(self, doc: Any, results: Any) -> dict[str, None]:
        assert self.is_null
        return self.nulls()


@pytest.fixture
def needing(tmp_path: Path) -> Path:
    """A folder with that task and a group of it and another."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "needing.py").write_text("from tests.test_group import NeedsFile\n")
    (folder / "needs_file.yaml").write_text("task: needs_file\nclass: !function needing.NeedsFile\n")
    members = "".join(f"  - {{task: {name}, optional: true}}\n" for name in ("needs_file", "canary_exposure"))
    (folder / "two.yaml").write_text(f"group: two\ntask:\n{members}")
    return folder


@pytest.mark.parametrize("settings", [{}, {"limit": 1}, {"samples": {"needs_file": [3], "canary_exposure": [0]}}])
def test_a_task_without_its_option_is_null(
    lm: HFLM, manifest: str, needing: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    with warned(caplog) as said:
        results = evaluate(lm, ["two"], [needing], metadata={"canaries": manifest}, **settings)
    assert row(results, "needs_file") == {"size": None, "n": None}
    assert row(results, "canary_exposure")["exposure"] is not None or settings
    assert said == ["leakage: needs_file is null: needs_file needs a file: pass --metadata file=…"]
    assert "needs_file" in make_table(results)


def test_by_itself_a_missing_option_is_an_error(lm: HFLM, needing: Path) -> None:
    with pytest.raises(MissingOption, match="needs_file needs a file"):
        evaluate(lm, ["needs_file"], [needing])


def test_a_damaged_file_stays_an_error(lm: HFLM, needing: Path) -> None:
    with pytest.raises(OptionError, match="the file is damaged"):
        evaluate(lm, ["two"], [needing], metadata={"file": "x"})


def test_more_processes_than_stand_ins_are_no_error() -> None:
    task = NeedsFile({"task": "needs_file", "optional": True})
    for rank in range(3):
        task.build_all_requests(rank=rank, world_size=3, limit=1)
        assert len(task.instances) == 1
        assert len(list(task.doc_iterator(rank=rank, limit=1, world_size=3, samples=None))) == 1


# -- several processes --------------------------------------------------------------------------------------


class Process:
    """One of several threads that stand for processes; they exchange tensors as the harness' models do."""

    device = "cpu"

    def __init__(self, rank: int, shared: list[Any], meeting: threading.Barrier) -> None:
        self.rank, self.world_size = rank, len(shared)
        self._shared, self._meeting = shared, meeting

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        self._shared[self.rank] = tensor
        self._meeting.wait(20)
        return torch.cat(self._shared)


def asked(task: str, number: int) -> Instance:
    kind: Any = "attack"
    task_settings = {"task": task, "optional": True}
    return request(kind, {"n": number}, ("", task_settings), number, task)


def run_processes(unable: Sequence[tuple[int, str]], number: int = 3) -> list[list[Any]]:
    """The answers of each process to two tasks; those of ``unable`` (process, task) cannot answer."""
    shared, meeting = [None] * number, threading.Barrier(number)
    answers: list[list[Any]] = [[] for _ in range(number)]

    def run(rank: int) -> None:
        def answer(task_settings: Any, group: Sequence[Instance]) -> list[str]:
            if (rank, task_settings["task"]) in unable:
                raise TargetError(f"process {rank} cannot")
            return [json.dumps({"n": each.doc["n"], "order": sorted(task_settings)}) for each in group]

        lm: Any = Process(rank, shared, meeting)
        requests = [asked("a", rank), asked("b", rank), asked("b", rank + 10)]
        answers[rank] = [json.loads(each) for each in answer_by_group(lm, [*requests, requests[-1]], answer)]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_what_one_process_cannot_answer_no_process_answers(caplog: pytest.LogCaptureFixture) -> None:
    with warned(caplog) as said:
        answers = run_processes([(1, "b"), (2, "b")])
    assert [found[0] for found in answers] == [{"n": rank, "order": ["task"]} for rank in range(3)]
    reasons = [[each["unanswered"] for each in found[1:]] for found in answers]
    assert reasons[1:] == [[f"process {rank} cannot"] * 3 for rank in (1, 2)]
    assert set(reasons[0]) == {"another process could not answer: see its warning"}
    assert said == ["leakage: b is null: process 1 cannot"]


def test_what_all_can_answer_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    with warned(caplog) as said:
        answers = run_processes([])
    assert [[each["n"] for each in found] for found in answers] == [[r, r, r + 10, r + 10] for r in range(3)]
    assert said == []
