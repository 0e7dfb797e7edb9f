"""The items of a benchmark and their rewritten twins, as the texts that a model reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError

from leakage_tasks.canaries.chat import Chat
from leakage_tasks.canaries.context import unescaped
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import read_named
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.benchmark import Benchmark, Item
from leakage_tasks.targets.harness.chat import template_of

NUMBER = "item"
"""Field of a twin with the number of its item, from 0."""
TEXT = "text"


@dataclass(frozen=True)
class Items:
    """The tested items of a benchmark, and their twins; ``available`` is the number of items of the benchmark."""

    benchmark: str
    items: tuple[Item, ...]
    available: int
    separator: str
    twins: tuple[tuple[int, Item], ...] = ()
    """Number of an item and its twin."""

    @property
    def digest(self) -> str:
        """SHA-256 of all texts."""
        content = json.dumps([self.items, self.twins, self.separator], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def shown(self, lm: LM, chat: Chat | None) -> ItemTexts:
        """Return the texts that a model reads.

        Raises TargetError if its chat template refuses them, and OptionError if a twin is a whole text, but its item a
        question with an answer: turns that only one of them has would decide which costs less.
        """
        if chat is None:
            twins = {number: twin.text for number, twin in self.twins}
            return ItemTexts([item.text for item in self.items], twins, self.separator)
        for number, twin in self.twins:
            if _has_both(self.items[number]) and not _has_both(twin):
                raise OptionError(
                    f"the twin of item {number} (from 0) is a whole text, but with --apply_chat_template its item is a "
                    "question with an answer: give twins the fields of the benchmark's documents, or pass template=…"
                )
        render = template_of(lm, chat.template)

        def turns(item: Item) -> str:
            question, answer = (item.question, item.answer) if item.answer else ("", item.question)
            plain = Chat(system=chat.system, template=chat.template)
            return render((replace(plain, prompt=question) if question else plain).conversation(answer))

        return ItemTexts([*map(turns, self.items)], {number: turns(twin) for number, twin in self.twins}, "")


def _has_both(item: Item) -> bool:
    """Return True if an item has a question and an answer."""
    return bool(item.question and item.answer)


@dataclass(frozen=True)
class ItemTexts:
    """The items and twins as texts. A chat template itself separates its conversations."""

    items: Sequence[str]
    twins: Mapping[int, str]
    separator: str


_READ: dict[str, Items] = {}
"""Items of the run's tasks by their digest, because requests do not hold them."""


def remember(items: Items) -> str:
    """Keep items for the model's requests; return their digest."""
    digest = items.digest
    _READ[digest] = items
    return digest


def remembered(digest: str) -> Items:
    """Return the items with a digest. Raises OptionError if this process has not read them."""
    if digest not in _READ:
        raise OptionError("contamination_test: another process read other items of the benchmark: use equal files")
    return _READ[digest]


def read_items(
    benchmark: Benchmark,
    most: int | None,
    split: str | None = None,
    template: str | None = None,
    separator: str | None = None,
    twins: str | None = None,
) -> Items:
    """Return the first ``most`` items of a benchmark.

    Args:
        benchmark: The benchmark.
        most: Maximum number of items; None reads all.
        split: A split of the benchmark.
        template: Jinja template of an item; None shows it as a few-shot example.
        separator: Text between two items; None takes the text between two few-shot examples.
        twins: JSON Lines file of rewritten items.

    Raises:
        OptionError: There are fewer than two items, or an item or a twin cannot be read.
    """
    docs, available = benchmark.documents(split, most)
    if len(docs) < 2:
        raise OptionError(
            f"of={benchmark.given}: {'1 document' if docs else 'no documents'}, but an order needs 2 or more: name "
            "another benchmark or split, or raise items"
        )
    show = _show(benchmark, template)
    items = tuple(show(doc, f"of={benchmark.given}: item {number} (from 0)") for number, doc in enumerate(docs))
    between = benchmark.separator if separator is None else unescaped(separator)
    rewritten = () if twins is None else _twins(twins, len(items), show)
    return Items(benchmark.name, items, available, between, rewritten)


def _show(benchmark: Benchmark, template: str | None) -> Any:
    """Return a function of a document and its name in messages that returns its text."""
    if template is None:
        shown = benchmark.item
    else:
        environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
        try:
            compiled = environment.from_string(unescaped(template))
        except TemplateError as error:
            raise OptionError(
                f"template={template}: no Jinja template ({error}): as in template={{{{question}}}}"
            ) from None

        def shown(doc: Mapping[str, Any], where: str) -> Item:
            try:
                return Item("", compiled.render(**doc), "")
            except Exception as error:  # a template can raise any exception
                fields = ", ".join(map(str, doc))
                raise OptionError(f"{where}: template={template} fails ({error}): its fields are {fields}") from None

    def checked(doc: Mapping[str, Any], where: str) -> Item:
        item = shown(doc, where)
        if not item.text.strip():
            raise OptionError(f"{where}: its text is empty: pass template=… with fields of the documents")
        return item

    return checked


def _twins(path: str, items: int, show: Any) -> tuple[tuple[int, Item], ...]:
    """Return the twins of a file with the numbers of their items. Raises OptionError."""
    twins: dict[int, Item] = {}
    numbered: set[bool] = set()
    rows = 0
    try:
        for line, row in read_json_lines(read_named(path, "rewritten items of twins=", OptionError).split("\n")):
            where = f"{path}:{line}"
            if not isinstance(row, dict):
                raise OptionError(f"{where}: expected a JSON object with the text of a rewritten item")
            numbered.add(NUMBER in row)
            number = row.get(NUMBER, rows)
            rows += 1
            if len(numbered) > 1 or not isinstance(number, int) or isinstance(number, bool):
                raise OptionError(f"{where}: expected a whole number in {NUMBER!r}, in all rows or in none")
            if number in twins or (NUMBER in row and not 0 <= number < items):
                raise OptionError(f"{where}: {NUMBER}={number}: expected each number from 0 to {items - 1} once")
            twins[number] = _twin(row, where, show)
    except LineError as error:
        raise OptionError(f"{path}:{error.number}: not JSON: write one JSON object per line") from None
    if rows != items and True not in numbered:
        raise OptionError(
            f"twins={path}: {rows:,} twins for {items:,} items: write one per item in their order, or add the field "
            f"{NUMBER!r} with the item's number"
        )
    if rows < 2:
        raise OptionError(f"twins={path}: {rows} twins, but a test needs 2 or more")
    return tuple(sorted(twins.items()))


def _twin(row: Mapping[str, Any], where: str, show: Any) -> Item:
    text = row.get(TEXT)
    if len(row.keys() - {NUMBER, TEXT}) or text is None:
        return show({name: value for name, value in row.items() if name != NUMBER}, where)
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"{where}: expected text in {TEXT!r}")
    return Item("", text, "")
