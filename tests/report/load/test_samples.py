"""Reading logged samples: what is in them, and one clear line for what is wrong with them."""

import json

import pytest

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.load.sample_files import find_samples
from leakage_tasks.report.load.samples import read_samples

NAME = "samples_canary_exposure_2026-01-02T03-04-05.678901.jsonl"
TASK_SETTINGS = {"goal": "exposure", "attack": "auto", "seed": 0}


def sample(place, **changed):
    found = Finding(f"c{place}", "exposure", place % 2 == 0, place % 2, "random", 10.0, rank=4.0, method="exact")
    usual = {
        "doc_id": place,
        "filter": "none",
        "resps": [[found.to_json()]],
        "arguments": {"gen_args_0": {"arg_0": "pin", "arg_1": TASK_SETTINGS}},
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not ...}


def write(folder, lines, name=NAME):
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_answers_columns_and_orders_are_read(tmp_path):
    lines = [sample(0), sample(1), sample(0, filter="zlib"), sample(1, filter="zlib")]
    found = read_samples(write(tmp_path, lines))
    assert (found.task, found.documents, found.lines) == ("canary_exposure", 2, (1, 2, 3, 4))
    assert [each.column for each in found.answered] == ["none", "none", "zlib", "zlib"]
    assert all(each.task_settings == TASK_SETTINGS for each in found.answered)
    assert [each.canary for each in found.findings()] == ["c0", "c1", "c0", "c1"]
    assert found.unanswered is None


def test_line_separators_within_a_line_and_empty_lines_are_no_line_ends(tmp_path):
    found = read_samples(write(tmp_path, [json.dumps(sample(0, doc="a\u2028b\x85c"), ensure_ascii=False), "\n\n"]))
    assert found.lines == (1,)


def test_a_null_task_has_a_reason_and_no_findings(tmp_path):
    found = read_samples(write(tmp_path, [sample(0, resps=[['{"unanswered": "no log-likelihoods"}']])]))
    assert found.unanswered == "no log-likelihoods"
    assert found.findings() == []


def test_the_results_of_the_same_run_are_found_whatever_their_name_begins_with(tmp_path):
    found = read_samples(write(tmp_path, [sample(0)]))
    assert found.results is None
    (tmp_path / "results_2026-01-02T03-04-06.678901.json").write_text("{}")
    assert found.results is None
    (tmp_path / "mine_2026-01-02T03-04-05.678901.json").write_text("{}")
    assert found.results == tmp_path / "mine_2026-01-02T03-04-05.678901.json"


REMEDY = "give the file as lm_eval wrote it, or run lm_eval again with --log_samples"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "holds no samples: run lm_eval again with --log_samples"),
        (["\n"], "holds no samples"),
        ([sample(0), "{magic}\n"], "jsonl:2: not JSON (Expecting property name"),
        ([sample(0), '{"doc_id": 1, "resps"'], "jsonl:2: the line is cut off, the file incomplete"),
        ([sample(0), "[1]\n"], "jsonl:2: expected an object, found a list"),
        ([sample(0, resps=...)], "jsonl:1: field 'resps': missing or empty"),
        ([sample(0, resps=[[]])], "jsonl:1: field 'resps': missing or empty"),
        ([sample(0, resps=[[[1.5, True]]])], "jsonl:1: field 'resps': expected a finding, found a list"),
        ([sample(0, filter=...)], "jsonl:1: field 'filter': expected text, found nothing"),
        ([sample(0, doc_id=None)], "jsonl:1: field 'doc_id': expected a number, found nothing"),
        ([sample(0, arguments={})], "jsonl:1: field 'arguments': no settings of an attack in it"),
        ([sample(0), sample(1), sample(0)], "jsonl:3: field 'doc_id': the document of line 1 again"),
        (
            [sample(0), sample(1, arguments={"gen_args_0": {"arg_1": {**TASK_SETTINGS, "seed": 1}}})],
            "jsonl:2: field 'arguments': other settings than in line 1: lines of several runs",
        ),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, lines, message):
    with pytest.raises(ResultsError) as caught:
        read_samples(write(tmp_path, lines))
    assert message in str(caught.value)
    assert str(caught.value).endswith(REMEDY) or "holds no samples" in message


@pytest.mark.parametrize(
    "answer",
    [
        "I am a text",
        "{}",
        '{"canary": "c"}',
        "[1, 2]",
        json.dumps({**json.loads(sample(0)["resps"][0][0]), "rank": "x"}),
    ],
)
def test_an_answer_that_is_no_finding_is_named_by_its_line(tmp_path, answer):
    found = read_samples(write(tmp_path, [sample(0), "\n", sample(1, resps=[[answer]])]))
    with pytest.raises(ResultsError, match="jsonl:3: field 'resps': no finding of canary_exposure"):
        found.scores()


@pytest.mark.parametrize("rank", ["NaN", "-Infinity", "1e999", "-1.5E+400", "1" + "0" * 400, "1" * 310])
def test_a_number_that_is_not_finite_is_named_by_its_line(tmp_path, rank):
    answer = sample(1)["resps"][0][0].replace('"rank": 4.0', f'"rank": {rank}')
    with pytest.raises(ResultsError, match="jsonl:2: field 'resps': a number in it is not finite"):
        read_samples(write(tmp_path, [sample(0), sample(1, resps=[[answer]])]))


@pytest.mark.parametrize("resps", [["my secret"], [[["my secret"]]], [["my secret"]], [['{"my secret": 1}']]])
def test_what_cannot_be_read_is_not_shown(tmp_path, resps):
    with pytest.raises(ResultsError) as caught:
        read_samples(write(tmp_path, [sample(0, resps=resps)])).scores()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "canaries.jsonl",
            "not named samples_TASK_TIME.jsonl: give samples that lm_eval wrote with --log_samples, under",
        ),
        (
            NAME.replace("canary_exposure", "arc_easy"),
            "arc_easy: its requests name no scoring",
        ),
    ],
)
def test_a_file_of_another_task_is_refused(tmp_path, name, message):
    line = sample(0, arguments={"gen_args_0": {"arg_0": "a question", "arg_1": {"until": []}}})
    with pytest.raises(ResultsError, match=message):
        read_samples(write(tmp_path, [line], name))


ODD = NAME.replace("canary_exposure", "odd_task")


def asked(**task_settings):
    return sample(0, arguments={"gen_args_0": {"arg_0": "pin", "arg_1": task_settings}})


@pytest.mark.parametrize("task_settings", [TASK_SETTINGS, {**TASK_SETTINGS, "scoring": "canary_exposure"}])
def test_a_task_of_another_name_is_scored_as_its_requests_say(tmp_path, task_settings):
    found = read_samples(write(tmp_path, [asked(**task_settings)], ODD))
    assert (found.task, found.scoring.task) == ("odd_task", "canary_exposure")
    assert found.scores()["none"]["exposure"] == 8.0


def test_a_scoring_that_is_not_installed_is_named(tmp_path):
    path = write(tmp_path, [asked(**TASK_SETTINGS, scoring="odd_scoring")], ODD)
    with pytest.raises(ResultsError) as error:
        read_samples(path)
    assert str(error.value) == (
        f"{path}: odd_task is scored by 'odd_scoring', which no installed package registers: install the package of "
        "the task, which registers it in the entry-point group lm_eval_leakage.scorings"
    )


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / NAME).write_bytes(b"\xff\xfe{}\n")
    with pytest.raises(ResultsError, match="jsonl:1: not JSON"):
        read_samples(tmp_path / NAME)


# -- which files --------------------------------------------------------------------------------------------

OLD, NEW = "2026-01-02T03-04-05.678901", "2026-02-02T03-04-05"


def folder_of(place, stamps, tasks=("canary_exposure", "canary_extraction", "arc_easy")):
    place.mkdir(exist_ok=True)
    for stamp in stamps:
        (place / f"results_{stamp}.json").write_text("{}")
        for task in tasks:
            (place / f"samples_{task}_{stamp}.jsonl").write_text("")
    return place


def names(found):
    return sorted(f"{file.parent.name}/{file.name}" for file in found.files)


def test_of_a_folder_the_newest_of_each_task_and_model_are_taken_and_named(tmp_path):
    folder_of(tmp_path / "a", [OLD, NEW])
    folder_of(tmp_path / "b", [OLD], ["canary_exposure"])
    found = find_samples([tmp_path])
    assert names(found) == [
        f"a/samples_canary_exposure_{NEW}.jsonl",
        f"a/samples_canary_extraction_{NEW}.jsonl",
        f"b/samples_canary_exposure_{OLD}.jsonl",
    ]
    assert "not scored: arc_easy: its requests name no scoring, so only the harness computes its metrics" in found.notes
    assert sum("is the newest of 2 of its task" in note for note in found.notes) == 2


def test_of_a_results_file_those_of_its_own_run_are_taken(tmp_path):
    folder = folder_of(tmp_path / "a", [OLD, NEW])
    assert names(find_samples([folder / f"results_{OLD}.json"])) == [
        f"a/samples_canary_exposure_{OLD}.jsonl",
        f"a/samples_canary_extraction_{OLD}.jsonl",
    ]


def test_a_file_named_twice_is_taken_once(tmp_path):
    folder = folder_of(tmp_path / "a", [OLD])
    file = folder / f"samples_canary_exposure_{OLD}.jsonl"
    assert len(find_samples([file, file, folder, folder / f"results_{OLD}.json"]).files) == 2


@pytest.mark.parametrize(
    ("tasks", "path", "message"),
    [
        ((), f"results_{OLD}.json", "its run left no samples_.* run lm_eval again with --log_samples"),
        ((), ".", "no samples in it or below, .* run lm_eval again with --log_samples"),
        (("arc_easy",), ".", "no samples that can be scored: arc_easy: its requests name no scoring"),
        ((), "missing.jsonl", "no such file or folder: give samples, a results file, or their folder"),
    ],
)
def test_where_there_is_nothing_to_score_the_remedy_is_said(tmp_path, tasks, path, message):
    folder = folder_of(tmp_path / "a", [OLD], tasks)
    with pytest.raises(ResultsError, match=message):
        find_samples([folder / path])
