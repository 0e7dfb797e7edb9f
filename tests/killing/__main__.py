"""``python -m tests.killing --rounds N --state FOLDER``: end every command at many moments, and see what that leaves.

Each command is ended by KILL, TERM and INT: at ``N`` moments, half of them and more after the first byte of output, the
others over the whole run, and before and after each call that writes, syncs, renames or changes rights. It prints a
table, and exits with 1 if anything was left half-written, stale, changed, readable by others, or was not mended by
running again. A second call goes on where the first was stopped; for another version of the code, take another folder.
With 20 rounds that is some 3,300 ends, which take an idle core about three hours.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.killing.commands import COMMANDS, Command
from tests.killing.judging import SIGNALS, Moment, Outcome, Place, Undisturbed

WRONG = ("partial", "stale", "changed", "readable", "differs", "status")
HEAD = ("command", "signal", "kills", "after first byte", "too late", *WRONG)


def moments(rounds: int, calls: int, most_calls: int | None = None) -> Iterator[Moment]:
    """When to end a command: ``rounds`` moments in time and every call, or ``most_calls`` spread over all."""
    late = (rounds + 1) // 2
    yield from (Moment("after", round((place + 0.3) / late, 4)) for place in range(late))
    yield from (Moment("whole", round((place + 0.5) / (rounds - late), 4)) for place in range(rounds - late))
    step = 1 if most_calls is None else max(1, -(-calls // max(1, most_calls)))
    yield from (Moment("call", place) for place in range(1, calls + 1, step))


class State:
    """What was found so far, one JSON line an end, in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "outcomes.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.found = {self._key(each): each for each in (Outcome(**json.loads(line)) for line in lines)}

    def has(self, command: str, signal: str, moment: str) -> bool:
        """Whether a moment was tried already."""
        return (command, signal, moment) in self.found

    def add(self, outcome: Outcome) -> None:
        """Note an outcome, for good."""
        self.found[self._key(outcome)] = outcome
        with self.file.open("a") as out:
            out.write(json.dumps(outcome.to_json()) + "\n")

    def usual(self, place: Place) -> Undisturbed:
        """What an undisturbed run of a command is like: found out once."""
        file = self.folder / "undisturbed" / f"{_plain(place.command.name)}.json"
        if not file.exists() or not place.start.exists():
            usual = place.undisturbed()
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(asdict(usual)))
        return Undisturbed(**json.loads(file.read_text()))

    @staticmethod
    def _key(outcome: Outcome) -> tuple[str, str, str]:
        return outcome.command, outcome.signal, outcome.moment


def kill(
    commands: Sequence[Command], rounds: int, state: State, most_calls: int | None = None, signals: Sequence[str] = ()
) -> list[Outcome]:
    """End ``commands`` at all moments that ``state`` does not hold yet; all outcomes it then holds of them."""
    from tests.killing.child import import_as, warm_up
    from tests.killing.inputs import make_inputs

    warm_up()
    inputs = state.folder / "inputs"
    if not inputs.exists():
        make_inputs(inputs)
    for command in commands:
        work = state.folder / "work" / _plain(command.name)
        work.mkdir(parents=True, exist_ok=True)
        place = Place(command, inputs, work)
        usual = state.usual(place)
        import_as(work / "log.modules")
        for name in signals or SIGNALS:
            for number, moment in enumerate(moments(rounds, usual.calls, most_calls)):
                if not state.has(command.name, name, moment.name):
                    # The first is a process from the start, imports and all.
                    state.add(place.end(usual, name, moment, over=number % 2 == 1, fork=number > 0))
                    print(f"{command.name} {name} {moment.name}", file=sys.stderr)
        shutil.rmtree(work / "out", ignore_errors=True)
    names = {each.name for each in commands}
    return [each for each in state.found.values() if each.command in names]


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row a command and signal: how often it was ended, and how often each thing went wrong."""
    rows = [list(HEAD)]
    for command, signal in dict.fromkeys((each.command, each.signal) for each in outcomes):
        own = [each for each in outcomes if (each.command, each.signal) == (command, signal)]
        counts = [sum(each.ended for each in own), sum(each.ended and each.after_first for each in own)]
        counts += [sum(not each.ended for each in own)]
        rows.append([command, signal, *map(str, counts + [sum(bool(getattr(each, w)) for each in own) for w in WRONG])])
    return rows


def is_wrong(outcome: Outcome) -> bool:
    """Whether an end showed anything that must not be."""
    return any(getattr(outcome, each) for each in WRONG)


def _plain(name: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in name)


def main() -> int:
    """Read the options, end commands, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.killing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="moments in time a command and signal")
    parser.add_argument("--state", type=Path, required=True, help="folder to go on in")
    parser.add_argument("--only", nargs="*", help="names of commands")
    parser.add_argument("--signals", nargs="*", choices=list(SIGNALS), default=[], help="these alone")
    parser.add_argument("--calls", type=int, help="the most calls to end a command at (default: all)")
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    commands = [each for each in COMMANDS if not given.only or each.name in given.only]
    outcomes = kill(commands, given.rounds, State(given.state.resolve()), given.calls, given.signals)
    rows = table(outcomes)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)).rstrip())
    wrong = [each for each in outcomes if is_wrong(each)]
    for each in wrong:
        print(json.dumps(each.to_json()))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
