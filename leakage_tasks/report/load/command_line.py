"""The ``lm_eval`` command of a results file: as this package's tasks recorded it, or reconstructed from the
settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.command_words import HIDDEN, join_values, masked, masked_values, quoted
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.report.load.run import STAMP

SEEDS = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
"""The harness' default seeds, in the order of ``--seed``."""


@dataclass(frozen=True)
class CommandLine:
    """A command as words, the first of them ``lm_eval``; ``notes`` list settings that the results do not contain."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the command quoted for a POSIX shell: one line, unless a word contains line breaks."""
        return " ".join(map(quoted, self.words))


def command_of(path: Path) -> CommandLine | None:
    """Return the command that reproduces a results file, or None for a model object that ``lm_eval`` did not create.

    Passwords and keys are hidden. If none of our tasks recorded the command, it is reconstructed without the options
    that results do not contain (``--max_batch_size``, caches, number of processes). These options do not change the
    results of this package's tasks.
    """
    data = parse_json(read_text(path, "utf-8-sig"))
    noted = _recorded_words(data)
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


def _recorded_words(data: Mapping[str, Any]) -> list[str]:
    """Return the words after ``lm_eval`` as this package's first task recorded them, or [] for other or older tasks."""
    for declaration in declarations(data):
        words = declaration.get("command")
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return words
    return []


def _hidden(words: Sequence[str]) -> Iterator[str]:
    if any(HIDDEN in word for word in words):
        yield f"a password or key is left out: replace {HIDDEN} with yours"


def _model(config: Mapping[str, Any]) -> Iterator[str]:
    yield from ("--model", config["model"])
    arguments = config.get("model_args")
    if isinstance(arguments, str) and arguments:
        yield from ("--model_args", masked_values(arguments))
    elif arguments:
        yield from ("--model_args", join_values(masked("", arguments)))


def _tasks(data: Mapping[str, Any]) -> Iterator[str]:
    groups = data.get("group_subtasks") or {}
    names = dict.fromkeys(_requested(task, groups) for task in data["results"])
    yield from ("--tasks", ",".join(names))
    elsewhere = dict.fromkeys(str(source.parent) for source in _sources(data) if not _shipped(source))
    if elsewhere:
        yield from ("--include_path", next(iter(elsewhere)))
    metadata = _metadata(data)
    if metadata:
        yield from ("--metadata", join_values(masked("", metadata)))


def _requested(task: str, groups: Mapping[str, Any]) -> str:
    """Return the outermost group of a task, as named in ``--tasks``, or the task itself if it is in no group."""
    seen = {task}
    while above := [group for group, members in groups.items() if task in (members or ()) and group not in seen]:
        task = above[0]
        seen.add(task)
    return task


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that all tasks share, without the harness' additions (model arguments, file, version)."""
    arguments = (data.get("config") or {}).get("model_args")
    merged = arguments if isinstance(arguments, dict) else {}
    metadata = [config["metadata"] for config in _configs(data) if "config_source" in (config.get("metadata") or {})]
    if not metadata:
        return {}
    return {
        name: value
        for name, value in metadata[0].items()
        if name not in ("version", "config_source")
        and all(name in other and other[name] == value for other in metadata[1:])
        and not (name in merged and merged[name] == value)
        and not (isinstance(arguments, str) and f"{name}={value}" in arguments.split(","))
    }


def _template_names(data: Mapping[str, Any]) -> list[str]:
    """Return the name of the chat template in a list, or [] if no task of this package recorded a name."""
    protocols = [declaration.get("protocol") for declaration in declarations(data)]
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
    if any(task.get("unsafe_code") for task in _configs(data)):
        yield "--confirm_run_unsafe_code"


def _sampling(data: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    generation = config.get("gen_kwargs")
    if generation:
        yield from ("--gen_kwargs", generation if isinstance(generation, str) else join_values(generation))
    limit = config.get("limit")
    if limit is not None:
        yield from ("--limit", repr(int(limit) if float(limit).is_integer() else limit))
    seeds = [config.get(name, usual) for name, usual in SEEDS.items()]
    if seeds != list(SEEDS.values()):
        yield from ("--seed", ",".join(map(str, seeds)))


def _notes(data: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    counts = [count for count in (data.get("n-samples") or {}).values() if isinstance(count, dict)]
    if config.get("limit") is None and any(count.get("effective") != count.get("original") for count in counts):
        yield "only some documents were used (--samples); the results do not record which"
    shots = _shots(data)
    if len(shots) == 2 and 0 in shots:
        yield f"some tasks ran with {max(shots)} examples; the results do not record if --num_fewshot set them"
    if len(dict.fromkeys(source.parent for source in _sources(data) if not _shipped(source))) > 1:
        yield "tasks came from several folders; --include_path names the first"


def _shots(data: Mapping[str, Any]) -> set[int]:
    """Return the numbers of few-shot examples of the harness' own tasks; a single number is ``--num_fewshot``."""
    configs, numbers = data.get("configs") or {}, data.get("n-shot") or {}
    theirs = (task for task, config in configs.items() if not _is_ours(_source(config)))
    return {numbers[task] for task in theirs if isinstance(numbers.get(task), int)}


def declarations(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the declarations of this package's tasks in a results file, as they are."""
    entries = [config.get("leakage") for config in _configs(data)]
    return [entry for entry in entries if isinstance(entry, dict)]


def _configs(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [config for config in (data.get("configs") or {}).values() if isinstance(config, dict)]


def _sources(data: Mapping[str, Any]) -> list[Path]:
    return [source for source in map(_source, _configs(data)) if source is not None]


def _source(config: Any) -> Path | None:
    """Return the YAML file of a task, or None if it has no file."""
    metadata = config.get("metadata") if isinstance(config, dict) else None
    named = metadata.get("config_source") if isinstance(metadata, dict) else None
    return Path(named) if isinstance(named, str) and named.endswith((".yaml", ".yml")) else None


def _shipped(source: Path) -> bool:
    return _is_ours(source) or "lm_eval/tasks/" in source.as_posix()


def _is_ours(source: Path | None) -> bool:
    return source is not None and source.parent.name == "task_configs"
