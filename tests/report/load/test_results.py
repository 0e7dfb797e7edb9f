from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.load.results import read_runs
from tests.report.made import leaking, results, write


def test_reads_values_errors_and_counts_by_task_and_column(tmp_path: Path):
    tasks = {"gsm": {"exact_match,strict": 0.5, "exact_match_stderr,strict": 0.1, "exact_match,loose": 0.75}}
    (run,) = read_runs([write(tmp_path, results(tasks, samples=8))])
    found = run.tasks["gsm"]
    assert found.values == {"strict": {"exact_match": 0.5}, "loose": {"exact_match": 0.75}}
    assert found.errors == {"strict": {"exact_match": 0.1}}
    assert (found.samples, found.declared, found.is_leakage) == (8, None, False)


@pytest.mark.parametrize("value", ["N/A", None, float("nan"), float("inf"), True, "pass"])
def test_what_is_no_number_is_none(tmp_path: Path, value: object):
    (run,) = read_runs([write(tmp_path, results({"arc": {"acc": value}}))])
    assert run.tasks["arc"].values == {"none": {"acc": None}}


def test_reads_what_a_task_declares(tmp_path: Path):
    (run,) = read_runs([write(tmp_path, results(leaking()))])
    declared = run.tasks["canary_exposure"].declared
    assert declared is not None
    assert declared.rows["exposure"].interval == ("exposure_ci_low", "exposure_ci_high")
    alarm = declared.rows["control_p"].check
    assert alarm is not None
    assert alarm.fault
    assert run.tasks["canary_exposure"].is_leakage


def test_a_group_without_figures_is_no_task(tmp_path: Path):
    content = results(leaking())
    content["results"]["leakage"] = {"alias": "leakage", "name": "leakage"}
    (run,) = read_runs([write(tmp_path, content)])
    assert sorted(run.tasks) == ["canary_exposure", "canary_extraction"]


def test_members_of_groups_know_all_of_them(tmp_path: Path):
    content = results({"all": {"acc": 0.5}, "part": {"acc": 0.5}, "leaf": {"acc": 0.5}})
    content["group_subtasks"] = {"all": ["part"], "part": ["leaf"], "leaf": []}
    (run,) = read_runs([write(tmp_path, content)])
    assert run.tasks["leaf"].parents == ("all", "part")


def test_finds_the_samples_of_the_same_run(tmp_path: Path):
    path = write(tmp_path, results(leaking()))
    logged = path.with_name(path.name.replace("results_", "samples_canary_exposure_").replace(".json", ".jsonl"))
    logged.write_text("")
    (run,) = read_runs([path])
    assert run.tasks["canary_exposure"].logged == logged
    assert run.tasks["canary_extraction"].logged is None


def test_a_folder_stands_for_all_results_below_it_and_nothing_else(tmp_path: Path):
    write(tmp_path / "a", results(leaking(), model="a"))
    write(tmp_path / "deep" / "b", results(leaking(), model="b"))
    (tmp_path / "a" / "tokenizer.json").write_text("{}")
    assert [run.name for run in read_runs([tmp_path, tmp_path / "a"])] == ["a", "b"]


def test_a_pipe_among_results_is_not_waited_for(tmp_path: Path):
    path = write(tmp_path / "real", results(leaking()))
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / path.name)
    assert [run.files for run in read_runs([tmp_path])] == [(path.resolve(),)]


def test_files_of_one_model_with_different_tasks_are_one_run(tmp_path: Path):
    write(tmp_path / "a", results(leaking(), date=1.0))
    write(tmp_path / "b", results({"arc": {"acc": 0.5}}, date=2.0))
    (run,) = read_runs([tmp_path])
    assert sorted(run.tasks) == ["arc", "canary_exposure", "canary_extraction"]
    assert len(run.files) == 2
    assert run.date == 2.0


def test_a_run_of_two_files_names_the_versions_behind_all_its_values(tmp_path: Path):
    """The values of the older file were not measured with the newer version."""
    write(tmp_path / "a", results(leaking(), date=1.0, lm_eval_version="0.4.9", transformers_version="5.0"))
    write(tmp_path / "b", results({"arc": {"acc": 0.5}}, date=2.0, transformers_version="5.0"))
    (run,) = read_runs([tmp_path])
    assert run.versions == {"lm_eval": "0.4.9, 0.4.13", "transformers": "5.0"}


def test_the_same_task_twice_makes_two_runs_with_names_of_their_own(tmp_path: Path):
    write(tmp_path / "a", results(leaking(), date=1.0))
    write(tmp_path / "b", results(leaking(), date=2.0))
    assert [run.name for run in read_runs([tmp_path])] == ["one (1970-01-01 00:00:01)", "one (1970-01-01 00:00:02)"]


DAY = 86400.0


def test_a_file_joins_the_newest_run_that_lacks_its_tasks(tmp_path: Path):
    for day in (1, 2):
        write(tmp_path / str(day), results(leaking(), date=day * DAY))
    write(tmp_path / "3", results({"arc": {"acc": 0.5}}, date=3 * DAY))
    assert [(run.name, "arc" in run.tasks) for run in read_runs([tmp_path])] == [
        ("one (1970-01-02)", False),
        ("one (1970-01-04)", True),
    ]


@pytest.mark.parametrize("first", ["null", "answered"])
def test_a_task_that_is_null_gives_way_to_one_that_is_not(tmp_path: Path, first: str):
    null = {"canary_exposure": {"exposure": None}, "canary_extraction": {"extracted": 0.5}}
    found = {"canary_exposure": {"exposure": 9.0}}
    write(tmp_path / "a", results(null if first == "null" else found, date=1.0))
    write(tmp_path / "b", results(found if first == "null" else null, date=2.0))
    (run,) = read_runs([tmp_path])
    assert run.tasks["canary_exposure"].values == {"none": {"exposure": 9.0}}
    assert run.tasks["canary_extraction"].values == {"none": {"extracted": 0.5}}


def test_runs_of_one_model_are_named_by_the_arguments_that_differ(tmp_path: Path):
    for name, arguments in (("a", {"dtype": "float16"}), ("b", {}), ("c", {"dtype": "float16", "api_key": "hush"})):
        given = {"pretrained": "models/one", "revision": "main", **arguments}
        write(tmp_path / name, results(leaking(), config={"model": "hf", "model_args": given}))
    assert sorted(run.name for run in read_runs([tmp_path])) == [
        "one",
        "one (api_key=HIDDEN, dtype=float16)",
        "one (dtype=float16)",
    ]


def test_runs_that_nothing_tells_apart_are_numbered(tmp_path: Path):
    for name in ("a", "b"):
        write(tmp_path / name, results(leaking()))
    names = ["one (1970-01-01 00:00:01) #1", "one (1970-01-01 00:00:01) #2"]
    assert [run.name for run in read_runs([tmp_path / "b", tmp_path / "a"])] == names


def test_a_name_is_one_line_that_can_be_shown(tmp_path: Path):
    (run,) = read_runs([write(tmp_path, results(leaking(), model="a\x1b[31m\nb\ud800"))])
    assert run.name == run.source == "a\ufffd[31m b\ufffd"


def test_a_task_of_ours_without_a_declaration_is_left_out_and_named_once(tmp_path: Path, caplog):
    content = results({**leaking(), "arc": {"acc": 0.5}})
    del content["configs"]["canary_exposure"]["leakage"]
    path = write(tmp_path, content)
    for _ in range(2):
        assert sorted(read_runs([path])[0].tasks) == ["arc", "canary_extraction"]
    message = f"{path}: canary_exposure: an earlier version wrote it without a declaration: run the task again"
    assert [record.message for record in caplog.records] == [message]


def test_a_group_has_the_documents_of_its_own_row(tmp_path: Path):
    content = results({"mmlu": {"acc": 0.5}}, samples=14042)
    del content["n-samples"]["mmlu"]
    assert read_runs([write(tmp_path, content)])[0].tasks["mmlu"].samples == 14042


def test_models_of_one_name_are_told_apart_by_their_place(tmp_path: Path):
    write(tmp_path / "a", results(leaking(), model="x/last"))
    write(tmp_path / "b", results(leaking(), model="y/last"))
    assert [run.name for run in read_runs([tmp_path])] == ["x/last", "y/last"]


def test_one_model_under_two_adapters_is_told_apart_by_them(tmp_path: Path):
    for kind in ("classifier-scorer", "frankenstein-mlm"):
        config = {"model": kind, "model_args": {"pretrained": "models/one"}}
        write(tmp_path / kind, results(leaking(), config=config))
    assert [run.name for run in read_runs([tmp_path])] == ["one (classifier-scorer)", "one (frankenstein-mlm)"]


def test_a_tuned_prompt_is_in_the_name(tmp_path: Path):
    config = {"model": "hf", "model_args": "pretrained=models/one,peft=./prompt"}
    (run,) = read_runs([write(tmp_path, results(leaking(), config=config))])
    assert run.name == "one + prompt"


def test_an_adapter_is_named_after_its_base_where_the_harness_names_the_adapter(tmp_path: Path):
    config = {"model": "hf", "model_args": "pretrained=models/base,peft=runs/adapter"}
    (run,) = read_runs([write(tmp_path, results(leaking(), model="runs/adapter", config=config))])
    assert (run.name, run.source, run.whole) == ("base + adapter", "models/base", "models/base + runs/adapter")


def test_two_adapters_of_one_name_are_told_apart_by_their_whole_names(tmp_path: Path):
    for place in ("a", "b"):
        config = {"model": "hf", "model_args": f"pretrained=base,peft={place}/adapter"}
        write(tmp_path / place, results(leaking(), model=f"{place}/adapter", config=config))
    assert [run.name for run in read_runs([tmp_path])] == ["base + a/adapter", "base + b/adapter"]


def test_a_name_of_another_kind_is_shown_as_text(tmp_path: Path):
    config = {"model": "hf", "model_args": "pretrained=base,peft=a"}
    (run,) = read_runs([write(tmp_path, results(leaking(), config=config, model_name=["a"]))])
    assert run.source == "['a']"


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ('{"base_model_name_or_path": "models/base"}', ["models/base", "adapter"]),
        ('{"base_model_name_or_path": null}', ["adapter"]),
        ("{", ["adapter"]),
        ("[]", ["adapter"]),
    ],
)
def test_an_adapter_given_as_the_model_is_named_after_the_base_in_its_config(tmp_path: Path, config: str, parts):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text(config)
    place = str(tmp_path / "adapter")
    told = {"model": "hf", "model_args": f"pretrained={place}"}
    (run,) = read_runs([write(tmp_path, results(leaking(), model=place, config=told))])
    assert [part.rpartition("/")[2] for part in run.parts] == [part.rpartition("/")[2] for part in parts]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "not JSON"),
        ("[]", "field 'results': missing"),
        ('{"results": 3}', "field 'results': missing"),
        ('{"results": {"arc": 3}}', "field 'results.arc': expected an object, found a number"),
        ('{"results": {}, "configs": []}', "field 'configs': expected an object"),
    ],
)
def test_a_file_that_is_no_results_file_is_named_with_what_is_wrong(tmp_path: Path, content: str, part: str):
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(ResultsError) as caught:
        read_runs([path])
    assert str(caught.value).startswith(f"{path}: ")
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "broken", [{"rows": 3}, {"measures": None}, {"attacks": [{}]}, {"rows": {"a": {"description": 3}}}]
)
def test_a_broken_declaration_is_named_with_its_field(tmp_path: Path, broken: dict[str, object]):
    content = results(leaking())
    content["configs"]["canary_exposure"]["leakage"].update(broken)
    with pytest.raises(ResultsError, match=r"field 'configs\.canary_exposure\.leakage': not a task's declaration"):
        read_runs([write(tmp_path, content)])


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"interval": ["a"]}, "interval"),
        ({"interval": "ab"}, "interval"),
        ({"chance": 3}, "chance"),
        ({"control": []}, "control"),
        ({"count": {}}, "count"),
        ({"direction": "sideways"}, "direction"),
        ({"check": 3}, "check"),
        ({"check": {"below": "x", "words": "w"}}, "check.below"),
        ({"check": {"below": 1}}, "check.words"),
    ],
)
def test_a_row_that_declares_what_it_may_not_is_named_with_its_field(tmp_path: Path, row: dict, field: str):
    content = results(leaking())
    content["configs"]["canary_exposure"]["leakage"]["rows"]["exposure"].update(row)
    with pytest.raises(ResultsError, match=rf"canary_exposure\.leakage': .*\(rows\.exposure\.{field}: expected"):
        read_runs([write(tmp_path, content)])


def test_a_declaration_of_a_newer_version_asks_for_an_update(tmp_path: Path):
    content = results(leaking())
    content["configs"]["canary_exposure"]["leakage"]["schema"] = 3
    with pytest.raises(ResultsError, match="written by a newer lm-eval-leakage: update"):
        read_runs([write(tmp_path, content)])


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"group_subtasks": {"mmlu": None}}, "group_subtasks.mmlu"),
        ({"higher_is_better": {"canary_exposure": []}}, "higher_is_better.canary_exposure"),
        ({"higher_is_better": {"canary_exposure": {"exposure": "no"}}}, "higher_is_better.canary_exposure.exposure"),
        ({"config": {"model_args": 3}}, "config.model_args"),
        ({"config": {"model_args": ["pretrained=a"]}}, "config.model_args"),
        ({"config": {"limit": "all"}}, "config.limit"),
        ({"date": 1e20}, "date"),
        ({"date": -1}, "date"),
        ({"results": {"arc": {"acc,none": 10**400}}}, "results.arc.acc,none"),
        ({"results": {"canary_exposure": {"exposure,none": True}}}, "results.canary_exposure.exposure,none"),
        (
            {"results": {"canary_exposure": {"exposure_stderr,none": "0.5"}}},
            "results.canary_exposure.exposure_stderr,none",
        ),
        ({"n-samples": {"canary_exposure": {"effective": 10**400}}}, "n-samples.canary_exposure.effective"),
        ({"n-shot": {"canary_exposure": 10**400}}, "n-shot.canary_exposure"),
    ],
)
def test_a_field_of_another_kind_is_named(refused, tmp_path: Path, changed: dict, field: str):
    path = write(tmp_path, results(leaking()) | changed)
    assert refused("leaderboard", path).startswith(f"leakage: {path}: field '{field}': expected ")


@pytest.mark.parametrize("count", [-1, -1e300])
def test_a_negative_number_of_documents_is_refused(tmp_path: Path, count: float):
    with pytest.raises(ResultsError, match="n_planted,none': expected a number of documents"):
        read_runs([write(tmp_path, results(leaking(n_planted=count)))])


def test_bytes_that_are_no_text_are_refused(tmp_path: Path):
    path = tmp_path / "file.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ResultsError, match="not a JSON file"):
        read_runs([path])


def test_a_folder_without_results_says_how_to_get_some(tmp_path: Path):
    (tmp_path / "some.json").write_text(json.dumps({}))
    with pytest.raises(ResultsError, match="--output_path"):
        read_runs([tmp_path])


def test_a_path_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ResultsError, match="no such file or folder"):
        read_runs([tmp_path / "nowhere"])
