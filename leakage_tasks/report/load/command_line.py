"""The ``lm_eval`` command of a results file: as the run noted it, else put together again from what it wrote down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.command_words import HIDDEN, masked, masked_settings, quoted, settings
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.report.load.run import STAMP

SEEDS = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
"""The harness' own, in the order of ``--seed``."""


@dataclass(frozen=True)
class CommandLine:
    """A command's words, the first of them ``lm_eval``; ``notes`` say what the results do not tell about it."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The command as a POSIX shell takes it: on one line, unless a word of it has several."""
        return " ".join(map(quoted, self.words))


def command_of(path: Path) -> CommandLine | None:
    """The command that gives the figures of a results file again; None for a model that was no model of ``lm_eval``'s.

    Passwords and keys are hidden. Where no task of ours has noted the command, what the results do not hold is not
    there: ``--max_batch_size``, caches, and the number of processes, which change no figure of ours.
    """
    data = parse_json(read_text(path, "utf-8-sig"))
    noted = _noted(data)
    if noted:
        return CommandLine(("lm_eval", *noted), tuple(_hidden(noted)))
    config = data.get("config") or {}
    if not isinstance(config.get("model"), str) or data.get("model_source") == "CUSTOM":
        return None
    options = [*_model(config), *_tasks(data), *_running(data, config), *_sampling(data, config)]
    stamp = STAMP.search(path.name)
    logged = stamp is not None and any(path.parent.glob(f"samples_*_{stamp[1]}.jsonl"))
    output = ["--output_path", "results", *(["--log_samples"] if logged else [])]
    words = ("lm_eval", *options, *output)
    return CommandLine(words, (*_notes(data, config), *_hidden(words)))


def _noted(data: Mapping[str, Any]) -> list[str]:
    """The words after ``lm_eval`` that the first task of ours noted; none in results of other or older tasks."""
    for config in _configs(data):
        own = config.get("leakage")
        words = own.get("command") if isinstance(own, dict) else None
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return words
    return []


def _hidden(words: Sequence[str]) -> Iterator[str]:
    if any(HIDDEN in word for word in words):
        yield f"a password or key is left out: put yours where {HIDDEN} stands"


def _model(config: Mapping[str, Any]) -> Iterator[str]:
    yield from ("--model", config["model"])
    given = config.get("model_args")
    if isinstance(given, str) and given:
        yield from ("--model_args", masked_settings(given))
    elif given:
        yield from ("--model_args", settings(masked("", given)))


def _tasks(data: Mapping[str, Any]) -> Iterator[str]:
    groups = data.get("group_subtasks") or {}
    asked = dict.fromkeys(_asked(task, groups) for task in data["results"])
    yield from ("--tasks", ",".join(asked))
    elsewhere = dict.fromkeys(str(source.parent) for source in _sources(data) if not _shipped(source))
    if elsewhere:
        yield from ("--include_path", next(iter(elsewhere)))
    metadata = _metadata(data)
    if metadata:
        yield from ("--metadata", settings(masked("", metadata)))


def _asked(task: str, groups: Mapping[str, Any]) -> str:
    """The outermost group of a task, which is what was asked for; the task where it is in none."""
    seen = {task}
    while above := [group for group, members in groups.items() if task in (members or ()) and group not in seen]:
        task = above[0]
        seen.add(task)
    return task


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """What all tasks share, without what the harness merged in: the model's arguments, the task's file and version."""
    given = (data.get("config") or {}).get("model_args")
    merged = given if isinstance(given, dict) else {}
    each = [config["metadata"] for config in _configs(data) if "config_source" in (config.get("metadata") or {})]
    if not each:
        return {}
    return {
        name: value
        for name, value in each[0].items()
        if name not in ("version", "config_source")
        and all(name in other and other[name] == value for other in each[1:])
        and not (name in merged and merged[name] == value)
        and not (isinstance(given, str) and f"{name}={value}" in given.split(","))
    }


def _template_names(data: Mapping[str, Any]) -> list[str]:
    """Return the name of the chat template, if a task of ours says that one was asked for."""
    declared = [config.get("leakage") for config in _configs(data)]
    protocols = [each.get("protocol") for each in declared if isinstance(each, dict)]
    names = [protocol.get("chat_template") for protocol in protocols if isinstance(protocol, dict)]
    return [name for name in names if isinstance(name, str)][:1]


def _running(data: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    if str(config.get("batch_size") or 1) != "1":
        yield from ("--batch_size", str(config["batch_size"]))
    if config.get("device") is not None:
        yield from ("--device", str(config["device"]))
    shots = _shots(data)
    if len(shots) == 1:
        yield from ("--num_fewshot", str(min(shots)))
    if data.get("chat_template") is not None:
        yield from ("--apply_chat_template", *_template_names(data))
        if data.get("fewshot_as_multiturn") is False:
            yield from ("--fewshot_as_multiturn", "false")
    if data.get("system_instruction"):
        yield from ("--system_instruction", str(data["system_instruction"]))
    if any(each.get("unsafe_code") for each in _configs(data)):
        yield "--confirm_run_unsafe_code"


def _sampling(data: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    given = config.get("gen_kwargs")
    if given:
        yield from ("--gen_kwargs", given if isinstance(given, str) else settings(given))
    limit = config.get("limit")
    if limit is not None:
        yield from ("--limit", repr(int(limit) if float(limit).is_integer() else limit))
    seeds = [config.get(name, usual) for name, usual in SEEDS.items()]
    if seeds != list(SEEDS.values()):
        yield from ("--seed", ",".join(map(str, seeds)))


def _notes(data: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    counts = [each for each in (data.get("n-samples") or {}).values() if isinstance(each, dict)]
    if config.get("limit") is None and any(count.get("effective") != count.get("original") for count in counts):
        yield "only some documents were used (--samples); the results do not tell which"
    shots = _shots(data)
    if len(shots) == 2 and 0 in shots:
        yield f"some tasks ran with {max(shots)} examples; the results do not tell whether --num_fewshot asked for them"
    if len(dict.fromkeys(source.parent for source in _sources(data) if not _shipped(source))) > 1:
        yield "tasks came from several folders; --include_path names the first"


def _shots(data: Mapping[str, Any]) -> set[int]:
    """How many examples the harness' own tasks were given; where that is one number, --num_fewshot gives it again."""
    configs, numbers = data.get("configs") or {}, data.get("n-shot") or {}
    theirs = (task for task, config in configs.items() if not _is_ours(_source(config)))
    return {numbers[task] for task in theirs if isinstance(numbers.get(task), int)}


def _configs(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in (data.get("configs") or {}).values() if isinstance(each, dict)]


def _sources(data: Mapping[str, Any]) -> list[Path]:
    return [source for source in map(_source, _configs(data)) if source is not None]


def _source(config: Any) -> Path | None:
    """The YAML file of a task; None for a task without one."""
    metadata = config.get("metadata") if isinstance(config, dict) else None
    named = metadata.get("config_source") if isinstance(metadata, dict) else None
    return Path(named) if isinstance(named, str) and named.endswith((".yaml", ".yml")) else None


def _shipped(source: Path) -> bool:
    return _is_ours(source) or "lm_eval/tasks/" in source.as_posix()


def _is_ours(source: Path | None) -> bool:
    return source is not None and source.parent.name == "task_configs"
