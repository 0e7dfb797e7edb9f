"""The command of a results file: the harness reads it as what ran, and running it gives the same figures."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval._cli.harness import HarnessCLI
from lm_eval.config.evaluate_config import EvaluatorConfig

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.command_words import HIDDEN
from leakage_tasks.report.load.command_line import CommandLine, command_of
from tests.oracles import letters, tiny_gpt2
from tests.report.made import STAMP, declaration, leaking, results, write

NAMES = st.from_regex(r"[a-z][a-z_]{0,9}x", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
PLAIN = st.one_of(
    TEXTS, st.sampled_from(["1", "1e5", "nan", "True", "None", "a=b", "a,b", "./x", "[1]", "-1", "'", '"', "{"])
)
VALUES = st.one_of(PLAIN, st.integers(-(10**6), 10**6), st.booleans(), st.none(), st.lists(st.integers(), max_size=3))
OPTIONS = st.dictionaries(NAMES, VALUES, max_size=4)


def read_by_the_harness(command: CommandLine) -> EvaluatorConfig:
    """The command as the harness' own parser reads it, after a shell has split it."""
    words = shlex.split(str(command))
    assert tuple(words) == command.words
    parser = HarnessCLI()._parser
    return EvaluatorConfig.from_cli(parser.parse_args(["run", *words[1:]]))


def of(folder: Path, **changed: object) -> CommandLine:
    content = results(leaking())
    content["configs"] = {
        task: {**config, "metadata": {"version": 1.0, "config_source": f"/x/task_configs/{task}.yaml"}}
        for task, config in content["configs"].items()
    }
    command = command_of(write(folder, {**content, **changed}))
    assert command is not None
    return command


@given(arguments=OPTIONS, metadata=OPTIONS)
def test_the_harness_reads_back_the_arguments_and_the_metadata(tmp_path_factory, arguments, metadata):
    merged = {**arguments, **metadata, "version": 1.0, "config_source": "/x/task_configs/canary_exposure.yaml"}
    command = of(
        tmp_path_factory.mktemp("run"),
        config={"model": "hf", "model_args": arguments},
        configs={"canary_exposure": {"metadata": merged}},
    )
    read = read_by_the_harness(command)
    assert read.model_args == arguments
    assert read.metadata == {**arguments, **metadata}


def test_the_harness_reads_back_how_it_ran(tmp_path):
    config = {
        "model": "hf",
        "model_args": {"pretrained": "m"},
        "batch_size": "auto:4",
        "device": "cuda:1",
        "limit": 7.0,
        "gen_kwargs": {"temperature": 0.5, "until": ["a b", "\n"]},
        **{"random_seed": 3, "numpy_seed": None, "torch_seed": 1234, "fewshot_seed": 1234},
    }
    rest = {"chat_template": "{{ x }}", "fewshot_as_multiturn": False, "system_instruction": "Say 'no' to `rm`;\n$HOME"}
    read = read_by_the_harness(of(tmp_path, config=config, **rest))
    assert (read.batch_size, read.device, read.limit) == ("auto:4", "cuda:1", 7)
    assert read.gen_kwargs == config["gen_kwargs"]
    assert read.seed == [3, None, 1234, 1234]
    assert read.apply_chat_template is True
    assert read.fewshot_as_multiturn is False
    assert read.system_instruction == rest["system_instruction"]


def test_the_name_of_the_chat_template_is_in_it(tmp_path):
    configs = {"canary_exposure": {"leakage": declaration("canary_exposure", protocol={"chat_template": "rag"})}}
    command = of(tmp_path, chat_template="{{ messages }}", configs=configs)
    assert read_by_the_harness(command).apply_chat_template == "rag"


def test_what_is_as_usual_is_left_out(tmp_path):
    usual = {"batch_size": 1, "limit": None, "gen_kwargs": {}, "random_seed": 0, "numpy_seed": 1234}
    command = of(tmp_path, config={"model": "hf", "model_args": {"pretrained": "m"}, **usual})
    assert str(command) == (
        "lm_eval --model hf --model_args pretrained=m --tasks canary_exposure,canary_extraction --output_path results"
    )


def test_samples_beside_the_results_are_logged_again(tmp_path):
    (tmp_path / f"samples_canary_exposure_{STAMP}.jsonl").write_text("")
    assert of(tmp_path).words[-1] == "--log_samples"


@pytest.mark.parametrize(
    ("groups", "asked"),
    [
        ({"leakage": ["canary_exposure", "canary_extraction"]}, "leakage"),
        ({"all": ["leakage"], "leakage": ["canary_exposure", "canary_extraction"]}, "all"),
        ({"leakage": ["canary_exposure"]}, "leakage,canary_extraction"),
        ({"canary_exposure": [], "canary_extraction": []}, "canary_exposure,canary_extraction"),
    ],
)
def test_a_group_is_asked_for_by_its_name(tmp_path, groups, asked):
    words = of(tmp_path, group_subtasks=groups).words
    assert words[words.index("--tasks") + 1] == asked


def test_tasks_from_elsewhere_are_included_again(tmp_path):
    configs = {"mine": {"metadata": {"config_source": "/home/me/tasks/mine.yaml"}}}
    assert read_by_the_harness(of(tmp_path, configs=configs)).include_path == "/home/me/tasks"


@pytest.mark.parametrize(
    ("shots", "asked", "noted"),
    [
        ({"a": 5, "b": 5}, 5, False),
        ({"a": 0}, 0, False),
        ({"a": 0, "b": 5}, None, True),
        ({"a": 3, "b": 5}, None, False),
    ],
)
def test_examples_are_asked_for_where_one_number_gives_them_all(tmp_path, shots, asked, noted):
    ours = {"canary_exposure": {"metadata": {"config_source": "/x/task_configs/canary_exposure.yaml"}}}
    theirs = {task: {"metadata": {"config_source": f"/x/lm_eval/tasks/{task}.yaml"}} for task in shots}
    command = of(tmp_path, configs=ours | theirs, **{"n-shot": {**shots, "canary_exposure": 0, "a_group": 0}})
    assert read_by_the_harness(command).num_fewshot == asked
    assert ("num_fewshot" in "".join(command.notes)) is noted


def test_documents_that_were_picked_are_noted(tmp_path):
    counts = {"canary_exposure": {"original": 9, "effective": 3}}
    assert "--samples" in of(tmp_path, **{"n-samples": counts}).notes[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"pretrained": "m", "token": "mysecret"},
        {"pretrained": "m", "api_key": "mysecret"},
        {"model": "m", "header": {"Authorization": "Bearer mysecret"}},
        {"model": "m", "base_url": "https://me:mysecret@host/v1"},
        {"model": "m", "other": "hf_mysecretmysecretmysecret"},
        "model=m,token=mysecret",
    ],
)
def test_passwords_and_keys_are_hidden(tmp_path, arguments):
    command = of(tmp_path, config={"model": "hf", "model_args": arguments})
    assert "mysecret" not in str(command)
    assert HIDDEN in str(command)
    assert HIDDEN in command.notes[-1]


@pytest.mark.parametrize("name", ["tokenizer", "add_bos_token", "max_length", "monkey", "eos_token"])
def test_what_is_called_nearly_like_a_password_is_not(tmp_path, name):
    assert f"{name}=abc" in str(of(tmp_path, config={"model": "hf", "model_args": {name: "abc"}}))


def test_a_model_made_in_python_has_no_command(tmp_path):
    assert command_of(write(tmp_path, results(leaking(), model_source="CUSTOM"))) is None


def test_a_shell_gives_back_the_words(tmp_path):
    given = CommandLine(("a", "", "b c", "d'e", 'f"g', "$HOME `x`", "two\nlines\n", "*?[]{}!#~&;|<>\\", "é→"))
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {given}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == list(given.words)


def test_a_noted_command_is_taken_as_it_is(tmp_path):
    words = ["--model", "hf", "--tasks", "canary_exposure", "--samples", "{}", "--system_instruction", "two\nlines"]
    content = results(leaking())
    content["configs"]["canary_exposure"] = {"leakage": {"command": words}}
    command = command_of(write(tmp_path, content))
    assert command == CommandLine(("lm_eval", *words))


@pytest.mark.parametrize("noted", [[], "--model hf", [1], None, {"a": 1}])
def test_what_is_no_command_is_passed_over(tmp_path, noted):
    rebuilt = of(tmp_path)
    content = json.loads(next(tmp_path.rglob("results_*.json")).read_text())
    for config in content["configs"].values():
        config["leakage"] = {"command": noted}
    assert command_of(write(tmp_path, content)) == rebuilt


@pytest.mark.slow
def test_running_it_gives_the_same_figures(tmp_path, monkeypatch, capsys):
    from lm_eval.__main__ import cli_evaluate

    def run(words: list[str]) -> Path:
        folder = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", words)
        cli_evaluate()
        return next(folder.rglob("results_*.json"))

    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    # Or the command would give the harness' logger a handler, for all tests that come after.
    monkeypatch.setattr("lm_eval.utils._LOGGING_CONFIGURED", True)
    tiny_gpt2(letters()).save_pretrained(tmp_path / "a model")
    letters().save_pretrained(tmp_path / "a model")
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2), tmp_path / "the canaries.jsonl")
    arguments = json.dumps({"pretrained": str(tmp_path / "a model"), "dtype": "float32"})
    metadata = json.dumps(
        {"canaries": str(tmp_path / "the canaries.jsonl"), "canary_exposure": {"attack": "rank-sample"}}
    )
    options = ["--tasks", "canary_extraction,canary_exposure", "--device", "cpu", "--batch_size", "3", "--seed", "7"]
    given = ["--model_args", arguments, "--metadata", metadata, "--output_path", "results", "--log_samples"]
    first = run(["lm_eval", *options, *given])
    assert command_of(first) == CommandLine(("lm_eval", *options, *given))
    again = [run(shlex.split(str(command_of(first))))]
    content = json.loads(first.read_text())
    for config in content["configs"].values():
        del config["leakage"]["command"]
    first.write_text(json.dumps(content))
    again.append(run(shlex.split(str(command_of(first)))))
    old, *others = (json.loads(path.read_text()) for path in (first, *again))
    for new in others:
        assert new["results"] == old["results"]
        assert new["config"] == old["config"]
        assert new["task_hashes"] == old["task_hashes"]
        assert list(new["configs"]) == list(old["configs"])
        assert all(new["configs"][task]["metadata"] == old["configs"][task]["metadata"] for task in new["configs"])
