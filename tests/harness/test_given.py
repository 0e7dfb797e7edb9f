"""What was said for the model counts for tasks only where an option is of both."""

from __future__ import annotations

from typing import Any

import pytest
from lm_eval._cli.utils import handle_cli_value_string
from lm_eval.config.evaluate_config import EvaluatorConfig

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option, by_name
from leakage_tasks.harness import given
from leakage_tasks.harness.given import forgotten_after, full_metadata, names_of_model, noted
from leakage_tasks.harness.plugin import install
from leakage_tasks.tasks.options import TASKS, read_options, typed_options
from leakage_tasks.tasks.suffix.options import SUFFIX_OPTIONS

install()


@pytest.mark.parametrize(
    ("model_args", "metadata", "names"),
    [
        ({"pretrained": "x", "seed": 1}, {"seed": 2}, {"pretrained"}),
        ("pretrained=x,budget=3", "canaries=c.jsonl", {"pretrained", "budget"}),
        (None, None, set()),
        ("pretrained=x", {"pretrained": "x"}, set()),
    ],
)
def test_names_that_only_the_model_has(model_args: Any, metadata: Any, names: set[str]) -> None:
    with forgotten_after(), noted("other=1", None):
        with noted(model_args, metadata):
            assert names_of_model() == names
        assert names_of_model() == {"other"}
    assert names_of_model() == frozenset()


def test_an_option_of_the_model_alone_is_none_of_the_task() -> None:
    merged = {"pretrained": "x", "budget": 3, "seed": 5, "width": 9}
    with noted({"pretrained": "x", "budget": 3, "seed": 5, "width": 9}, {}):
        options = read_options(merged, "canary_exposure")
    assert (options.budget, options.seed, dict(options.values)) == (None, 0, {})
    with noted({"pretrained": "x", "seed": 5}, {"budget": 3, "width": 9}):
        options = read_options(merged, "canary_extraction")
    assert (options.budget, options.seed, dict(options.values)) == (3, 0, {"width": 9})
    with noted({"pretrained": "x", "seed": 5}, {"seed": 2}):
        assert read_options({"pretrained": "x", "seed": 2}, "canary_exposure").seed == 2


def test_what_the_model_is_told_is_no_misspelt_option() -> None:
    with noted({"budgets": 3}, {}):
        assert read_options({"budgets": 3}, "canary_exposure").budget is None


def test_every_task_reads_like_that() -> None:
    options = by_name([Option("text", str, None, "a text"), Option("both", int, 0, "a number", of_model=True)])
    with noted("text=public.txt,both=1", {}):
        assert typed_options({"text": "public.txt", "both": 1}, "toy", options)[1] == {"both": 1}
    # The tokenizer of a model is that of its tasks; the seed of a model is not.
    assert {name for options in TASKS.values() for name, option in options.items() if option.of_model} == {"tokenizer"}


def test_a_command_line_is_noted_before_it_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EvaluatorConfig(tasks=["canary_exposure"], model_args={"pretrained": "x", "data": 1}, metadata={"seed": 2})
    with noted(None, None):
        config._configure()
        assert config.metadata == {"pretrained": "x", "data": 1, "seed": 2}
        assert names_of_model() == {"pretrained", "data"}


def test_a_call_from_python_is_noted_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval

    seen = []

    class Manager:
        def __init__(self, metadata: Any = None) -> None:
            seen.append((metadata, names_of_model()))
            raise InterruptedError

    monkeypatch.setattr("lm_eval.evaluator.TaskManager", Manager)
    with forgotten_after(), pytest.raises(InterruptedError):
        lm_eval.simple_evaluate(model="dummy", model_args="pretrained=x,text=y", metadata={"seed": 1}, tasks=["a"])
    assert seen == [({"pretrained": "x", "text": "y", "seed": 1}, {"pretrained", "text"})]
    assert names_of_model() == frozenset()


@pytest.mark.parametrize("metadata", [{"canaries": "mine.jsonl"}, "canaries=mine.jsonl"])
@pytest.mark.parametrize("held", [None, {"canaries": "others.jsonl"}])
def test_metadata_beside_a_task_manager_that_lacks_them_are_refused(held: Any, metadata: Any) -> None:
    with pytest.raises(OptionError, match=r"^metadata=\{'canaries': …\}: the harness ignores .*: make"):
        run_with_manager(metadata, held)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"canaries": "builtin"}, "canaries=builtin,seed=1", '{"seed": 1, "canaries": "builtin"}']
)
def test_metadata_that_the_task_manager_holds_are_taken(metadata: Any) -> None:
    with pytest.raises(InterruptedError):
        run_with_manager(metadata, {"canaries": "builtin", "seed": 1})


def run_with_manager(metadata: Any, held: Any) -> None:
    """Start a run with metadata, with a task manager that holds other metadata and stops after it made a task."""
    import lm_eval

    class Manager:
        metadata = held

        def load(self, tasks: Any) -> None:
            full_metadata(held or {})
            raise InterruptedError

    with forgotten_after():
        lm_eval.simple_evaluate(model="dummy", tasks=["a"], task_manager=Manager(), metadata=metadata)  # type: ignore[arg-type]


WORDS = ("007", "7", "1e5", "True", "false", "0x10", "1_000", "nan", "inf", "-0", "٣", "3.0")


@pytest.mark.parametrize("word", [*WORDS, "'5'", "a.jsonl", "./007", "[1,2]"])
def test_words_read_as_the_harness_reads_them(word: str) -> None:
    assert repr(given._read(word)) == repr(handle_cli_value_string(word)) or word.startswith("[")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", ["canaries", "planted", "preflight", "resume", "model_id", "source_language"])
def test_a_name_that_reads_as_a_number_is_taken_as_it_was_typed(name: str, word: str) -> None:
    with forgotten_after():
        metadata = parsed("--metadata", f"budget=100,{name}={word}")
        options = read_options(metadata, "canary_exposure")
    assert getattr(options, name) == word
    assert options.budget == 100


@pytest.mark.parametrize("name", ["data", "tokenizer", "controls", "comparing_lm", "guesses", "resume", "untuned"])
def test_names_of_suffix_extraction_are_taken_as_they_were_typed(name: str) -> None:
    with forgotten_after():
        given = typed_options(parsed("--metadata", f"samples=1e2,{name}=007"), "suffix_extraction", SUFFIX_OPTIONS)
    assert given[1] == {"samples": 100, name: "007"}


def test_a_number_before_a_canary_is_a_text() -> None:
    with forgotten_after():
        assert read_options(parsed("--metadata", "context=007"), "canary_exposure").context.before == "007"


def test_an_option_under_a_task_s_name_is_none_of_the_words() -> None:
    with forgotten_after():
        metadata = parsed("--metadata", "canaries=007")
        assert read_options(metadata | {"canary_exposure": {"canaries": 7}}, "canary_exposure").canaries == "7"
        assert read_options(metadata, "canary_extraction").canaries == "007"


def test_what_a_program_gives_is_not_what_was_typed_before() -> None:
    with forgotten_after():
        parsed("--metadata", "canaries=007")
        with noted(None, {"canaries": 7}):
            assert read_options({"canaries": 7}, "canary_exposure").canaries == "7"
        with noted(None, "canaries=0007"):
            assert read_options({"canaries": 7}, "canary_exposure").canaries == "0007"


def parsed(*words: str) -> dict[str, Any]:
    """What the harness' command line makes of these words, as tasks get it."""
    from lm_eval._cli.harness import HarnessCLI

    found = HarnessCLI()._parser.parse_args(["run", "--tasks", "canary_exposure", *words])
    return dict(found.metadata)
