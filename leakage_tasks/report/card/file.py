"""Parts of a model card: its front matter, and the section of this package between two marks in its body."""

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
    """A card split into three texts; line ends are as in the file, new lines end with ``newline``.

    ``before`` ends with the line that opens the front matter, ``front`` is YAML, ``after`` starts with the closing
    line. Without front matter, the whole card is in ``after``.
    """

    path: Path
    before: str
    front: str
    after: str
    newline: str

    @property
    def text(self) -> str:
        """The card's text."""
        return self.before + self.front + self.after

    def line_of_front(self, line: int) -> int:
        """Return the line number in the file (from 1) of a line of the front matter (from 0)."""
        return len(LINE_END.findall(self.before)) + line + 1

    def with_front(self, front: str) -> CardParts:
        """Return the card with this front matter, replaced or added."""
        if self.before:
            return replace(self, front=front)
        fence = f"---{self.newline}"
        # The hub's library finds no front matter that ends with a bare carriage return.
        end = "---\n" if self.newline == "\r" else fence
        return replace(self, before=fence, front=front, after=end + self.after)

    def with_section(self, section: str) -> CardParts:
        """Return the card with this section, replaced or appended. Raises OptionError for marks that do not match."""
        lines = section.strip("\n").replace("\n", self.newline) + self.newline
        span = self._section()
        if span is not None:
            return replace(self, after=self.after[: span[0]] + lines + self.after[span[1] :])
        ended = not self.after or self.after[-1] in "\r\n"
        gap = self.newline * (0 if not self.after or _ends_blank(self.after) else 1 if ended else 2)
        return replace(self, after=f"{self.after}{gap}{START}{self.newline}{lines}{END}{self.newline}")

    def _section(self) -> tuple[int, int] | None:
        """Return the span between the two marks, or None without marks. Raises OptionError."""
        marks: dict[str, list[tuple[int, int, int]]] = {START: [], END: []}
        begin, number = 0, len(LINE_END.findall(self.before + self.front)) + 1
        for line in _lines(self.after):
            if line.strip() in marks:
                marks[line.strip()].append((number, begin, begin + len(line)))
            begin, number = begin + len(line), number + 1
        for mark, other, remedy in ((START, END, "after the section"), (END, START, "before the section")):
            if len(marks[mark]) > 1:
                lines = " and ".join(str(number) for number, _, _ in marks[mark])
                raise OptionError(f"{self.path}: '{mark}' is in lines {lines}: keep one of each mark")
            if marks[mark] and not marks[other]:
                number = marks[mark][0][0]
                raise OptionError(
                    f"{self.path}:{number}: '{mark}' without '{other}': add '{other}' {remedy}, or remove '{mark}'"
                )
        if not marks[START]:
            return None
        if marks[END][0][0] < marks[START][0][0]:
            raise OptionError(f"{self.path}:{marks[END][0][0]}: '{END}' is before '{START}': exchange them")
        return marks[START][0][2], marks[END][0][1]


def split_card(text: str, path: Path) -> CardParts:
    """Split a card's text as ``huggingface_hub`` does."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    first = LINE_END.search(text)
    newline = first[0] if first else "\n"
    # The hub's library does not recognize front matter without lines.
    if empty := _EMPTY.match(text):
        return CardParts(path, empty[0], "", text[empty.end() :], newline)
    block = REGEX_YAML_BLOCK.match(text)
    if block is None:
        return CardParts(path, "", "", text, newline)
    closing = LINE_END.match(text, block.start(3))
    assert closing is not None
    return CardParts(path, block[1], text[block.end(1) : closing.end()], text[closing.end() :], newline)


def _lines(text: str) -> list[str]:
    ends = [match.end() for match in LINE_END.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _ends_blank(text: str) -> bool:
    last = _lines(text)
    return text[-1] in "\r\n" and len(last) > 1 and not last[-2].strip()
