"""Help pages and usage errors of ``leakage``: commands by stage, options in panels, an example for each command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from leakage_tasks.core.errors import OptionError, one_line

START = "Get started"
PREPARE = "Prepare"
CHECK = "Check before training"
AUDIT = "Audit"
REPORT = "Report"
DEFEND = "Defend"
RESEARCH = "Research"
STAGES = (START, PREPARE, CHECK, AUDIT, REPORT, DEFEND, RESEARCH)
"""Panels of ``leakage --help``, in the order shown. Panels of other packages follow."""
LAST_PANEL = "Other options"
"""Panel for options that few users need; ``--help`` is listed in the last panel of a command."""
_ATTRIBUTE = "leakage_help"
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(frozen=True)
class CommandHelp:
    """The declaration of a command's function for its help page.

    ``stage`` is the panel of ``leakage --help`` that lists the command. ``renamed`` maps old spellings of options,
    still accepted but not shown, to the present ones.
    """

    stage: str | None = None
    example: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)


def command_help(
    stage: str | None = None, *, example: str | None = None, renamed: Mapping[str, str] | None = None
) -> Callable[[AnyFunction], AnyFunction]:
    """Return a decorator that declares the stage, an example and renamed options of a command's function.

    Functions of other packages may use it too; a stage that is not in ``STAGES`` becomes a panel of its own.
    """

    def declare(function: AnyFunction) -> AnyFunction:
        setattr(function, _ATTRIBUTE, CommandHelp(stage, example, dict(renamed or {})))
        return function

    return declare


def in_panel(panel: str, words: str, *names: str, **more: Any) -> Any:
    """Return a command's option that its help page lists in ``panel``; ``words`` describe it, ``names`` spell it."""
    return typer.Option(*names, help=words, rich_help_panel=panel, **more)


def declared_help(function: Any) -> CommandHelp:
    """Return the declaration of a command's function, by default an empty declaration."""
    declared = getattr(function, _ATTRIBUTE, None)
    return declared if isinstance(declared, CommandHelp) else CommandHelp()


class LeakageCommand(TyperCommand):
    """A command with options in panels, an example, and old spellings of options that are accepted but not shown."""

    @property
    def declared(self) -> CommandHelp:
        """The declaration of the command's function."""
        return declared_help(self.callback)

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that also accepts the old spellings of renamed options."""
        parser = super().make_parser(ctx)
        for option in self.params:
            old = [before for before, now in self.declared.renamed.items() if now in option.opts]
            if old:
                shown, option.opts = option.opts, old
                try:
                    option.add_to_parser(parser, ctx)
                finally:
                    option.opts = shown
        return parser

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Errors name its options as the user types them."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            flags = {option.name: option.opts[0] for option in self.params if option.param_type_name == "option"}
            error.args = (with_flags(str(error), flags),)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each panel as a section; ``--help`` ends the last one."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            is_help = not set(ctx.help_option_names).isdisjoint(parameter.opts)
            panel = list(panels)[-1] if is_help else _text(parameter, "rich_help_panel")
            panels.setdefault(panel or usual, []).append(record)
        _write_sections(formatter, panels.items())

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example."""
        if self.declared.example:
            with formatter.section("Example"):
                formatter.write(f"{'':{formatter.current_indent}}{self.declared.example}\n")
        super().format_epilog(ctx, formatter)


class CommandList(TyperGroup):
    """A group of commands whose help has one line for each command, by stage at the top level."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each stage, one line for each command: its name and the first sentence of its help."""
        panels: dict[str, list[tuple[str, str]]] = {stage: [] for stage in STAGES}
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        for name in names:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = _text(command, "rich_help_panel") or "Commands"
                panels.setdefault(panel, []).append((name.ljust(width), first_sentence(command.help or "")))
        _write_sections(formatter, panels.items())


class LeakageGroup(CommandList):
    """The commands of ``leakage``; a usage error ends with an example of the command."""

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Parse the group's own options."""
        with _readable_errors():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the options of a command and run it."""
        with _readable_errors():
            return super().invoke(ctx)


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Replace Python names of options by their flags: ``batch_size is 0`` becomes ``--batch-size is 0``.

    A name is replaced at the start of ``message`` before "is", "needs" or "=". Names with an underscore are replaced
    everywhere, except in quoted text, in paths and before "=", as in ``--model_args batch_size=8``.
    """
    start = re.match(r"(\w+)(?=(?: is | needs |=))", message)
    if start and start[1] in flags:
        message = f"{flags[start[1]]}{message[start.end() :]}"
    return re.sub(r"(?<![\w'\"`./-])\w+_\w+(?![\w'\"`./=-])", lambda word: flags.get(word[0], word[0]), message)


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, of its first paragraph at most."""
    words = text.partition("\n\n")[0].split()
    end = next((index for index, word in enumerate(words, 1) if word.endswith(".")), len(words))
    return " ".join(words[:end])


def _write_sections(formatter: Any, panels: Iterable[tuple[str, list[tuple[str, str]]]]) -> None:
    for title, records in panels:
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _text(thing: Any, name: str) -> str | None:
    """Return an attribute if it is a text: Typer has placeholders for values that nobody set."""
    value = getattr(thing, name, None)
    return value if isinstance(value, str) else None


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Escape unprintable characters in usage errors, and add an example of the command."""
    try:
        yield
    except Exception as error:
        # Only errors of the command line's parser have a message and a context.
        if isinstance(vars(error).get("message"), str) and type(error).__name__ != "NoArgsIsHelpError":
            _improve(error)
        raise


def _improve(error: Any) -> None:
    error.message = one_line(error.message)
    command = getattr(getattr(error, "ctx", None), "command", None)
    if command is None or not hasattr(error, "format_message"):
        return
    renamed = declared_help(command.callback).renamed
    if vars(error).get("possibilities"):
        error.possibilities = list(dict.fromkeys(renamed.get(name, name) for name in error.possibilities))
    example = _example(command)
    if example:
        words = error.format_message()
        error.format_message = lambda: f"{words}\nExample: {example}"


def _example(command: Any) -> str | None:
    """Return a command's example; for a group the first example among its commands."""
    candidates = (command, *getattr(command, "commands", {}).values())
    examples = [declared_help(candidate.callback).example for candidate in candidates]
    return next((example for example in examples if example), None)
