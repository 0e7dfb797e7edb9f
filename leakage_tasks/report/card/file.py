"""A model card's parts: its front matter, and the section of ours between two marks in its body."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.core.errors import OptionError

LINE_END = re.compile(r"\r\n|\n|\r")
START = "<!-- leakage:start -->"
END = "<!-- leakage:end -->"
_EMPTY = re.compile(r"\s*---(?:\r\n|\r|\n)(?=---[ \t]*(?:\r|\n|$))")


@dataclass(frozen=True)
class CardParts:
    """``before`` ends with the line that opens the front matter, ``front`` is YAML, ``after`` starts with that which
    closes it; without front matter everything is in ``after``. Line ends are as in the file; new ones are ``newline``.
    """

    path: Path
    before: str
    front: str
    after: str
    newline: str

    @property
    def text(self) -> str:
        """The card."""
        return self.before + self.front + self.after

    def line_of_front(self, line: int) -> int:
        """The file's number, from 1, of a line of the front matter, from 0."""
        return len(LINE_END.findall(self.before)) + line + 1

    def with_front(self, front: str) -> CardParts:
        """The card with another front matter, or with one where it had none."""
        if self.before:
            return replace(self, front=front)
        fence = f"---{self.newline}"
        # The hub's library finds no front matter that a bare carriage return ends.
        end = "---\n" if self.newline == "\r" else fence
        return replace(self, before=fence, front=front, after=end + self.after)

    def with_section(self, section: str) -> CardParts:
        """The card with another section, at its end where it had none. Raises OptionError for marks that do not fit."""
        lines = section.strip("\n").replace("\n", self.newline) + self.newline
        place = self._section()
        if place is not None:
            return replace(self, after=self.after[: place[0]] + lines + self.after[place[1] :])
        ended = not self.after or self.after[-1] in "\r\n"
        gap = self.newline * (0 if not self.after or _ends_blank(self.after) else 1 if ended else 2)
        return replace(self, after=f"{self.after}{gap}{START}{self.newline}{lines}{END}{self.newline}")

    def _section(self) -> tuple[int, int] | None:
        """From the line after the opening mark to the line of the closing one."""
        found: dict[str, list[tuple[int, int, int]]] = {START: [], END: []}
        begin, number = 0, len(LINE_END.findall(self.before + self.front)) + 1
        for line in _lines(self.after):
            if line.strip() in found:
                found[line.strip()].append((number, begin, begin + len(line)))
            begin, number = begin + len(line), number + 1
        for mark, other, where in ((START, END, "where the section ends"), (END, START, "where it begins")):
            if len(found[mark]) > 1:
                told = " and ".join(str(each[0]) for each in found[mark])
                raise OptionError(f"{self.path}: '{mark}' stands in lines {told}: leave one of each mark")
            if found[mark] and not found[other]:
                at = found[mark][0][0]
                raise OptionError(f"{self.path}:{at}: '{mark}' without '{other}': add that {where}, or remove this")
        if not found[START]:
            return None
        if found[END][0][0] < found[START][0][0]:
            raise OptionError(f"{self.path}:{found[END][0][0]}: '{END}' stands before '{START}': exchange them")
        return found[START][0][2], found[END][0][1]


def split_card(text: str, path: Path) -> CardParts:
    """A card's text in its parts, as ``huggingface_hub`` finds them."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    first = LINE_END.search(text)
    newline = first[0] if first else "\n"
    # The hub's library does not see that nothing may stand between the two lines.
    if empty := _EMPTY.match(text):
        return CardParts(path, empty[0], "", text[empty.end() :], newline)
    block = REGEX_YAML_BLOCK.match(text)
    if block is None:
        return CardParts(path, "", "", text, newline)
    closing = LINE_END.match(text, block.start(3))
    assert closing is not None
    return CardParts(path, block[1], text[block.end(1) : closing.end()], text[closing.end() :], newline)


def _lines(text: str) -> list[str]:
    ends = [found.end() for found in LINE_END.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _ends_blank(text: str) -> bool:
    last = _lines(text)
    return text[-1] in "\r\n" and len(last) > 1 and not last[-2].strip()
