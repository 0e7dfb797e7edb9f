"""Results put into a card's front matter, where every byte that is not theirs stays."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.card.file import CardParts
from leakage_tasks.report.card.index import KEY, is_ours, one_line
from leakage_tasks.report.card.yaml import Node, edited, line_start, next_line, read_yaml

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

Edit = tuple[int, int, str]


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
    first = next((place for place, each in enumerate(results) if is_ours(each)), len(results))
    others = [[each for each in part if not is_ours(each)] for part in (results[:first], results[first:])]
    models[place]["results"] = [*others[0], *model["results"], *others[1]]
    return data


def _place(models: Sequence[Any], name: str) -> int | None:
    named = (place for place, each in enumerate(models) if isinstance(each, dict) and each.get("name") == name)
    return next(named, None)


def _has_ours(data: Mapping[str, Any], name: str) -> bool:
    models: Any = data.get(KEY)
    place = _place(models, name) if isinstance(models, list) else None
    results = None if place is None else models[place].get("results")
    return isinstance(results, list) and any(map(is_ours, results))


class _Splice:
    """The front matter ``card.front``, which says ``data``, with the results of ``model`` put in."""

    def __init__(self, card: CardParts, data: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        self.card, self.text, self.data, self.model = card, card.front, data, model

    def front(self) -> str:
        """The text. Raises OptionError."""
        root, end = read_yaml(self.text)
        if root is None:
            return edited(self.text, [(end, end, self._lines({KEY: [self.model]}, 0))])
        self._check(root, "mapping", "the front matter")
        key, value = self._entry(root, KEY)
        if key is None or value is None:
            return edited(self.text, [(end, end, self._lines({KEY: [self.model]}, root.column))])
        if _is_empty(value, self.data[KEY]):
            return edited(self.text, self._instead(value, [self.model], key.column))
        self._check(value, "sequence", KEY)
        return edited(self.text, self._into_models(value, self.data[KEY], key.column))

    def _into_models(self, models: Node, data: Sequence[Any], key_column: int) -> list[Edit]:
        column = self._dash_column(models.children[0])
        place = _place(data, self.model["name"])
        if place is None:
            return [self._after(models.children[-1], [self.model], column)]
        model = models.children[place]
        self._check(model, "mapping", f"the model in {KEY}")
        key, results = self._entry(model, "results")
        if key is None or results is None:
            raise self._refusal(model, f"the model in {KEY} has no results", "add 'results: []' to it")
        if _is_empty(results, data[place]["results"]):
            return self._instead(results, self.model["results"], key.column + max(0, column - key_column))
        self._check(results, "sequence", f"results in {KEY}")
        return self._into_results(results.children, data[place]["results"])

    def _into_results(self, results: Sequence[Node], data: Sequence[Any]) -> list[Edit]:
        column = self._dash_column(results[0])
        ours = [node for node, each in zip(results, data, strict=True) if is_ours(each)]
        if not ours:
            return [self._after(results[-1], self.model["results"], column)]
        parts = [(line_start(self.text, node.dash), next_line(self.text, node.end)) for node in ours]
        new = self._lines(self.model["results"], column)
        if not new and len(ours) == len(results):
            new = f"{' ' * (column + 2)}[]{self.card.newline}"
        return [(start, end, "" if number else new) for number, (start, end) in enumerate(parts)]

    def _after(self, last: Node, items: Sequence[Any], column: int) -> Edit:
        place = next_line(self.text, last.end)
        return place, place, self._lines(items, column)

    def _instead(self, value: Node, items: Sequence[Any], column: int) -> list[Edit]:
        """Items on the lines after that of a value which is nothing: null, [] or no text at all."""
        key_end = len(self.text[: value.start].rstrip(" \t"))
        start = key_end if self.text[:key_end].endswith(":") else value.start
        place = next_line(self.text, value.end)
        nothing = [(start, value.end, "")] if value.end > value.start else []
        return [*nothing, (place, place, self._lines(items, column))]

    def _lines(self, data: Any, column: int) -> str:

        if not data:
            return ""
        lines = yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=float("inf")).split("\n")[:-1]
        return "".join(f"{' ' * column}{line}{self.card.newline}" for line in lines)

    def _entry(self, mapping: Node, name: str) -> tuple[Node, Node] | tuple[None, None]:
        found = [(key, value) for key, value in mapping.pairs() if key.kind == "scalar" and key.value == name]
        if len(found) > 1:
            raise self._refusal(found[1][0], f"a second '{name}:'", "leave one of them")
        return found[0] if found else (None, None)

    def _dash_column(self, item: Node) -> int:
        return item.dash - line_start(self.text, item.dash)

    def _check(self, node: Node, kind: str, what: str) -> None:
        if node.kind == kind and not node.flow:
            return
        lines = "'- ' lines" if kind == "sequence" else "'name: value' lines"
        raise self._refusal(node, f"{what} is not written as {lines}", "write it so, without brackets and aliases")

    def _refusal(self, node: Node, what: str, remedy: str) -> OptionError:
        return OptionError(f"{self.card.path}:{self.card.line_of_front(node.line)}: {what}: {remedy}")


def _is_empty(node: Node, data: Any) -> bool:
    return node.kind != "alias" and (data is None or data == [])
