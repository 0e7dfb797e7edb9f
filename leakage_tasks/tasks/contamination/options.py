"""Options of the task ``contamination_test``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal

from leakage_tasks.attacks.contamination.attack import SCHEME
from leakage_tasks.attacks.contamination.request import CONTINUATION, MOST_ITEMS, ORDER_OPTIONS, OrderRequest
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.task_names import CONTAMINATION as TASK
from leakage_tasks.harness.benchmark import load_benchmark
from leakage_tasks.tasks.contamination.items import Items, read_items
from leakage_tasks.tasks.options import TASKS, RunOptions, declared_values, picked, typed_options


@dataclass(frozen=True)
class ContaminationOptions(RunOptions):
    """The settings of one run; ``given`` holds the values as the user gave them, for the requests.

    ``request`` decides the orders, and ``halves`` how the probability of second halves is computed.
    """

    given: Mapping[str, Any]
    request: OrderRequest
    halves: SuffixRequest
    of: str = declared(MISSING, "the benchmark: the name of a task of the harness, or the path of its YAML file")
    items: int | None = declared(
        None, "number of items, from the first; at most all", minimum=1, usual=f"{MOST_ITEMS:,}, at most all"
    )
    of_split: Literal["test", "validation", "training"] | None = declared(
        None, "the documents of the benchmark to read", usual="those that it is scored on"
    )
    template: str | None = declared(
        None, "Jinja template of an item's text, with the fields of a document", usual="question and answer"
    )
    separator: str | None = declared(
        None, r"text between two items; \n is a line break", usual="that of few-shot examples"
    )
    twins: str | None = declared(
        None, "rewritten items: JSON Lines with 'text', or with the fields of the benchmark's documents"
    )
    continuation: int = declared(
        CONTINUATION, "with twins, largest number of tokens of a second half whose probability is computed", minimum=1
    )
    near: float = declared(
        0.0,
        "with twins, edit distance up to which a second half is nearly written, in tokens or, below 1, as a share of "
        "its tokens; 0 leaves it out",
        minimum=0,
    )

    def read(self) -> Items:
        """Return the items of the benchmark. Raises OptionError if they cannot be read."""
        most = MOST_ITEMS if self.items is None else self.items
        return read_items(load_benchmark(self.of), most, self.of_split, self.template, self.separator, twins=self.twins)


CONTAMINATION_OPTIONS = TASKS.register(
    TASK, {**ORDER_OPTIONS, **options_of(ContaminationOptions)}, ContaminationOptions
)


def read_contamination_options(metadata: Mapping[str, Any]) -> ContaminationOptions:
    """Return the options given for all tasks or under the task's name.

    Raises OptionError for an invalid value, and MissingOption without a benchmark.
    """
    of_task, values = typed_options(metadata, TASK, CONTAMINATION_OPTIONS)
    if "near" not in of_task and "twins" not in values:
        # Given for all tasks, it is meant for suffix_extraction.
        values.pop("near", None)
    if "of" not in values:
        raise MissingOption(f"{TASK} needs a benchmark: pass --metadata of=TASK, a task of the harness such as gsm8k")
    return contamination_options(values)


def contamination_options(values: Mapping[str, Any]) -> ContaminationOptions:
    """Return the options from typed values by name. Raises OptionError for an invalid value."""
    request = OrderRequest(**picked(values, ORDER_OPTIONS))
    for name in ("near", "continuation"):
        if name in values and "twins" not in values:
            raise OptionError(f"{name} has no use without twins: pass twins=FILE, or leave it out")
    halves = SuffixRequest(SCHEME, near=values.get("near", 0.0))
    return ContaminationOptions(values, request, halves, **declared_values(values, ContaminationOptions))
