"""Insertion of results into a card's front matter, with every other byte unchanged."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.card.file import LINE_END, CardParts
from leakage_tasks.report.card.index import KEY, is_ours, one_line

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

Edit = tuple[int, int, str]
"""Start and end of a part of the text, and its replacement."""
_ALIAS = "alias"


def front_data(card: CardParts) -> dict[str, Any]:
    """Return the front matter as a dict. Raises OptionError if it is not a YAML mapping."""
    try:
        data = yaml.safe_load(card.front)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or one_line(str(error))
        line = f":{card.line_of_front(mark.line)}" if mark else ""
        raise OptionError(f"{card.path}{line}: the front matter is not YAML ({problem}): correct it") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{card.path}: the front matter is not YAML ({one_line(str(error))}): correct it") from None
    if data is not None and not isinstance(data, dict):
        raise OptionError(
            f"{card.path}:{card.line_of_front(0)}: the text between the two '---' is not front matter: write "
            "'name: value' lines there, or begin the file with another line if it is not meant as front matter"
        )
    return data or {}


def with_results(card: CardParts, name: str, results: Sequence[EvalResult]) -> CardParts:
    """Return the card with ``results`` as the only results of this package for the model ``name``.

    They replace earlier results, or follow the results of others. Raises OptionError if the form of the front matter
    does not allow it.
    """
    from huggingface_hub import ModelCardData

    old = front_data(card)
    if not results and not _has_ours(old, name):
        return card
    [model] = ModelCardData(model_name=name, eval_results=list(results)).to_dict()[KEY]
    changed = card.with_front(_Splice(card, old, model).front())
    if front_data(changed) != _expected(old, model):
        raise OptionError(
            f"{card.path}: results cannot be added to the front matter without changing the rest of it: write its "
            f"'{KEY}:' without anchors and aliases, or remove it"
        )
    return changed


def _expected(old: Mapping[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = copy.deepcopy(dict(old))
    models: list[Any] = data.get(KEY) or []
    data[KEY] = models
    index = _model_index(models, model["name"])
    if index is None:
        models.append(model)
        return data
    results = models[index]["results"] or []
    first = next((index for index, result in enumerate(results) if is_ours(result)), len(results))
    others = [[result for result in part if not is_ours(result)] for part in (results[:first], results[first:])]
    models[index]["results"] = [*others[0], *model["results"], *others[1]]
    return data


def _model_index(models: Sequence[Any], name: str) -> int | None:
    named = (index for index, model in enumerate(models) if isinstance(model, dict) and model.get("name") == name)
    return next(named, None)


def _has_ours(data: Mapping[str, Any], name: str) -> bool:
    models: Any = data.get(KEY)
    index = _model_index(models, name) if isinstance(models, list) else None
    results = None if index is None else models[index].get("results")
    return isinstance(results, list) and any(map(is_ours, results))


class _AliasLoader(yaml.SafeLoader):
    """A YAML loader that returns each alias as a separate node with its position."""

    def parse_node(self, *args: Any, **kwargs: Any) -> yaml.Event:
        """Return the next event; an alias becomes a scalar."""
        event: yaml.Event = super().parse_node(*args, **kwargs)
        if isinstance(event, yaml.AliasEvent):
            return yaml.ScalarEvent(None, _ALIAS, (True, False), "", event.start_mark, event.end_mark)
        return event


class _Splice:
    """Insertion of the results of ``model`` into the front matter ``card.front``, whose content is ``data``."""

    def __init__(self, card: CardParts, data: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        self.card, self.text, self.data, self.model = card, card.front, data, model
        tokens = yaml.scan(self.text, yaml.SafeLoader)
        self.dashes = [token.start_mark.index for token in tokens if isinstance(token, yaml.BlockEntryToken)]

    def front(self) -> str:
        """Return the new front matter. Raises OptionError."""
        for start, end, new in sorted(self._edits(), reverse=True):
            self.text = self.text[:start] + new + self.text[end:]
        return self.text

    def _edits(self) -> list[Edit]:
        loader = _AliasLoader(self.text)
        loader.get_event()
        whole = {KEY: [self.model]}
        if loader.check_event(yaml.StreamEndEvent):
            return [(len(self.text), len(self.text), self._lines(whole, 0))]
        loader.get_event()
        root = loader.compose_node(None, None)
        end = loader.peek_event().start_mark.index
        self._check(root, yaml.MappingNode, "the front matter")
        key, value = self._entry(root, KEY)
        if key is None or value is None:
            return [(end, end, self._lines(whole, root.start_mark.column))]
        if _is_empty(value, self.data[KEY]):
            return self._instead(value, [self.model], key.start_mark.column)
        self._check(value, yaml.SequenceNode, KEY)
        return self._into_models(value.value, self.data[KEY], key.start_mark.column)

    def _into_models(self, models: Sequence[yaml.Node], data: Sequence[Any], key_column: int) -> list[Edit]:
        column = self._dash_column(models[0])
        index = _model_index(data, self.model["name"])
        if index is None:
            return [self._after(models[-1], [self.model], column)]
        model = models[index]
        self._check(model, yaml.MappingNode, f"the model in {KEY}")
        key, results = self._entry(model, "results")
        if key is None or results is None:
            raise self._refusal(model, f"the model in {KEY} has no results", "add 'results: []' to it")
        if _is_empty(results, data[index]["results"]):
            return self._instead(results, self.model["results"], key.start_mark.column + max(0, column - key_column))
        self._check(results, yaml.SequenceNode, f"results in {KEY}")
        return self._into_results(results.value, data[index]["results"])

    def _into_results(self, results: Sequence[yaml.Node], data: Sequence[Any]) -> list[Edit]:
        column = self._dash_column(results[0])
        ours = [node for node, result in zip(results, data, strict=True) if is_ours(result)]
        if not ours:
            return [self._after(results[-1], self.model["results"], column)]
        parts = [(self._line_start(self._dash(node)), self._next_line(_end(node))) for node in ours]
        new = self._lines(self.model["results"], column)
        if not new and len(ours) == len(results):
            new = f"{' ' * (column + 2)}[]{self.card.newline}"
        return [(start, end, "" if number else new) for number, (start, end) in enumerate(parts)]

    def _after(self, last: yaml.Node, items: Sequence[Any], column: int) -> Edit:
        position = self._next_line(_end(last))
        return position, position, self._lines(items, column)

    def _instead(self, value: yaml.Node, items: Sequence[Any], column: int) -> list[Edit]:
        """Return edits that replace an empty value (null, [] or no text) by items on the lines after it."""
        start, end = value.start_mark.index, _end(value)
        key_end = len(self.text[:start].rstrip(" \t"))
        position = self._next_line(end)
        removal = [(key_end if self.text[:key_end].endswith(":") else start, end, "")] if end > start else []
        return [*removal, (position, position, self._lines(items, column))]

    def _lines(self, data: Any, column: int) -> str:
        if not data:
            return ""
        lines = yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=float("inf")).split("\n")[:-1]
        return "".join(f"{' ' * column}{line}{self.card.newline}" for line in lines)

    def _entry(self, mapping: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | tuple[None, None]:
        pairs = [pair for pair in mapping.value if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == name]
        if len(pairs) > 1:
            raise self._refusal(pairs[1][0], f"a second '{name}:'", "keep only one")
        return pairs[0] if pairs else (None, None)

    def _dash(self, item: yaml.Node) -> int:
        before = bisect_left(self.dashes, item.start_mark.index)
        return self.dashes[before - 1] if before else -1

    def _dash_column(self, item: yaml.Node) -> int:
        return self._dash(item) - self._line_start(self._dash(item))

    def _line_start(self, index: int) -> int:
        return max(self.text.rfind(end, 0, index) for end in "\r\n") + 1

    def _next_line(self, index: int) -> int:
        """Return the start of the next line, or ``index`` itself if a line starts there, as after a block literal."""
        if index and self.text[index - 1] in "\r\n":
            return index
        end = LINE_END.search(self.text, index)
        return end.end() if end else len(self.text)

    def _check(self, node: yaml.Node, kind: type[yaml.CollectionNode], part: str) -> None:
        if isinstance(node, kind) and not node.flow_style:
            return
        lines = "'- ' lines" if kind is yaml.SequenceNode else "'name: value' lines"
        raise self._refusal(
            node, f"{part} is not written as {lines}", "write it in this form, without brackets and aliases"
        )

    def _refusal(self, node: yaml.Node, problem: str, remedy: str) -> OptionError:
        return OptionError(f"{self.card.path}:{self.card.line_of_front(node.start_mark.line)}: {problem}: {remedy}")


def _is_empty(node: yaml.Node, data: Any) -> bool:
    return node.tag != _ALIAS and (data is None or data == [])


def _end(node: yaml.Node) -> int:
    """Return the position after a node's last character, comments excluded."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.index
