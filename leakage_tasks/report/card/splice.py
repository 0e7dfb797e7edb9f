"""Results put into a card's front matter, where every byte that is not theirs stays."""

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
"""A part of the text, from where to where, and what takes its place."""
_ALIAS = "alias"


def front_data(card: CardParts) -> dict[str, Any]:
    """What the front matter says. Raises OptionError if it is no YAML mapping."""
    try:
        data = yaml.safe_load(card.front)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or one_line(str(error))
        place = f":{card.line_of_front(mark.line)}" if mark else ""
        raise OptionError(f"{card.path}{place}: the front matter is no YAML ({what}): correct it") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{card.path}: the front matter is no YAML ({one_line(str(error))}): correct it") from None
    if data is not None and not isinstance(data, dict):
        raise OptionError(
            f"{card.path}:{card.line_of_front(0)}: what stands between the two '---' is no front matter: write "
            "'name: value' lines there, or begin the file with another line if it is none"
        )
    return data or {}


def with_results(card: CardParts, name: str, results: Sequence[EvalResult]) -> CardParts:
    """The card with ``results`` as all there are of ours of the model ``name``.

    They take the place of the first of ours, or come after the results of others. Raises OptionError where the front
    matter is written in a way that leaves no place for them.
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
    place = _place(models, model["name"])
    if place is None:
        models.append(model)
        return data
    results = models[place]["results"] or []
    first = next((index for index, result in enumerate(results) if is_ours(result)), len(results))
    others = [[each for each in part if not is_ours(each)] for part in (results[:first], results[first:])]
    models[place]["results"] = [*others[0], *model["results"], *others[1]]
    return data


def _place(models: Sequence[Any], name: str) -> int | None:
    named = (index for index, model in enumerate(models) if isinstance(model, dict) and model.get("name") == name)
    return next(named, None)


def _has_ours(data: Mapping[str, Any], name: str) -> bool:
    models: Any = data.get(KEY)
    place = _place(models, name) if isinstance(models, list) else None
    results = None if place is None else models[place].get("results")
    return isinstance(results, list) and any(map(is_ours, results))


class _AliasLoader(yaml.SafeLoader):
    """Gives aliases as nodes of their own, with the place where they stand."""

    def parse_node(self, *given: Any, **named: Any) -> yaml.Event:
        """The next event, a scalar for an alias."""
        event: yaml.Event = super().parse_node(*given, **named)
        if isinstance(event, yaml.AliasEvent):
            return yaml.ScalarEvent(None, _ALIAS, (True, False), "", event.start_mark, event.end_mark)
        return event


class _Splice:
    """The front matter ``card.front``, which says ``data``, with the results of ``model`` put in."""

    def __init__(self, card: CardParts, data: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        self.card, self.text, self.data, self.model = card, card.front, data, model
        tokens = yaml.scan(self.text, yaml.SafeLoader)
        self.dashes = [token.start_mark.index for token in tokens if isinstance(token, yaml.BlockEntryToken)]

    def front(self) -> str:
        """The text. Raises OptionError."""
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
        place = _place(data, self.model["name"])
        if place is None:
            return [self._after(models[-1], [self.model], column)]
        model = models[place]
        self._check(model, yaml.MappingNode, f"the model in {KEY}")
        key, results = self._entry(model, "results")
        if key is None or results is None:
            raise self._refusal(model, f"the model in {KEY} has no results", "add 'results: []' to it")
        if _is_empty(results, data[place]["results"]):
            return self._instead(results, self.model["results"], key.start_mark.column + max(0, column - key_column))
        self._check(results, yaml.SequenceNode, f"results in {KEY}")
        return self._into_results(results.value, data[place]["results"])

    def _into_results(self, results: Sequence[yaml.Node], data: Sequence[Any]) -> list[Edit]:
        column = self._dash_column(results[0])
        ours = [node for node, each in zip(results, data, strict=True) if is_ours(each)]
        if not ours:
            return [self._after(results[-1], self.model["results"], column)]
        parts = [(self._line_start(self._dash(node)), self._next_line(_end(node))) for node in ours]
        new = self._lines(self.model["results"], column)
        if not new and len(ours) == len(results):
            new = f"{' ' * (column + 2)}[]{self.card.newline}"
        return [(start, end, "" if number else new) for number, (start, end) in enumerate(parts)]

    def _after(self, last: yaml.Node, items: Sequence[Any], column: int) -> Edit:
        place = self._next_line(_end(last))
        return place, place, self._lines(items, column)

    def _instead(self, value: yaml.Node, items: Sequence[Any], column: int) -> list[Edit]:
        """Items on the lines after that of a value which is nothing: null, [] or no text at all."""
        start, end = value.start_mark.index, _end(value)
        key_end = len(self.text[:start].rstrip(" \t"))
        place = self._next_line(end)
        nothing = [(key_end if self.text[:key_end].endswith(":") else start, end, "")] if end > start else []
        return [*nothing, (place, place, self._lines(items, column))]

    def _lines(self, data: Any, column: int) -> str:
        if not data:
            return ""
        lines = yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=float("inf")).split("\n")[:-1]
        return "".join(f"{' ' * column}{line}{self.card.newline}" for line in lines)

    def _entry(self, mapping: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | tuple[None, None]:
        found = [pair for pair in mapping.value if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == name]
        if len(found) > 1:
            raise self._refusal(found[1][0], f"a second '{name}:'", "leave one of them")
        return found[0] if found else (None, None)

    def _dash(self, item: yaml.Node) -> int:
        before = bisect_left(self.dashes, item.start_mark.index)
        return self.dashes[before - 1] if before else -1

    def _dash_column(self, item: yaml.Node) -> int:
        return self._dash(item) - self._line_start(self._dash(item))

    def _line_start(self, index: int) -> int:
        """Where the line begins that ``index`` is in."""
        return max(self.text.rfind(end, 0, index) for end in "\r\n") + 1

    def _next_line(self, index: int) -> int:
        """Where the line after that of ``index`` begins; ``index`` itself if one begins there, as after a literal."""
        if index and self.text[index - 1] in "\r\n":
            return index
        end = LINE_END.search(self.text, index)
        return end.end() if end else len(self.text)

    def _check(self, node: yaml.Node, kind: type[yaml.CollectionNode], what: str) -> None:
        if isinstance(node, kind) and not node.flow_style:
            return
        lines = "'- ' lines" if kind is yaml.SequenceNode else "'name: value' lines"
        raise self._refusal(node, f"{what} is not written as {lines}", "write it so, without brackets and aliases")

    def _refusal(self, node: yaml.Node, what: str, remedy: str) -> OptionError:
        return OptionError(f"{self.card.path}:{self.card.line_of_front(node.start_mark.line)}: {what}: {remedy}")


def _is_empty(node: yaml.Node, data: Any) -> bool:
    return node.tag != _ALIAS and (data is None or data == [])


def _end(node: yaml.Node) -> int:
    """Where its last character stands, comments aside."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.index
