"""Options of the task ``membership``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from leakage_tasks.attacks.membership.request import REQUEST_OPTIONS, MembershipRequest
from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.task_names import MEMBERSHIP as TASK
from leakage_tasks.pairs.document_texts import hold_chats
from leakage_tasks.pairs.documents import DocumentSource
from leakage_tasks.pairs.rendering import Rendering
from leakage_tasks.pairs.source import PAIR_OPTIONS
from leakage_tasks.tasks.membership.texts import TestedTexts, TextSource, read_tested
from leakage_tasks.tasks.options import TASKS, SearchOptions, declared_values, own_options, picked, typed_options

SPLIT = options_of(DocumentSource)["split"]
_READING = (
    "members",
    "nonmembers",
    "suspected",
    "canaries",
    "documents",
    "cluster",
    "text_column",
    "split",
    "rendering",
)


@dataclass(frozen=True)
class MembershipOptions(SearchOptions):
    """The settings of one run; ``given`` holds the values as the user gave them, for the requests."""

    given: Mapping[str, Any]
    request: MembershipRequest
    members: str | None = declared(
        None, "texts that the model was trained on: a file, a folder, a saved data set or hub:NAME"
    )
    nonmembers: str | None = declared(None, "texts of the same kind that it was not trained on; as members")
    suspected: str | None = declared(
        None, "texts of the same kind of which an unknown share is in the training data, to estimate it; as members"
    )
    canaries: str | None = declared(
        None, "manifest in place of members and nonmembers: planted canaries are members, controls are not"
    )
    documents: int = declared(1000, "maximum number of texts of each class, drawn by the seed", minimum=2)
    cluster: str | None = declared(
        None, "column that names the group of a text, such as its author; intervals are then by group"
    )
    tokenizer: str | None = declared(
        None, "the tokenizer that counts the tokens of a text", of_model=True, usual="the model's"
    )
    text_column: str = declared("text", PAIR_OPTIONS["text_column"].help)
    split: str = declared(SPLIT.default, SPLIT.help, usual=SPLIT.usual)

    rendering: Rendering | None = None

    def hold_chats(self) -> bool:
        """Return True if rows of some of the data are conversations."""
        named = [data for data in (self.members, self.nonmembers, self.suspected) if data is not None]
        return any(hold_chats(data, self.text_column, self.split) for data in named)

    def rendered(self, rendering: Rendering | None) -> Self:
        """Return the options with a rendering of the conversations of all data; None joins their turns."""
        return replace(self, rendering=rendering)

    def tested(self) -> TestedTexts:
        """Return the texts of the run. Raises OptionError if they are not usable."""
        chosen = {name: getattr(self, name) for name in _READING}
        return read_tested(TextSource(**chosen, seed=self.request.seed, context_texts=self.request.context_texts))


MEMBERSHIP_OPTIONS = TASKS.register(TASK, {**REQUEST_OPTIONS, **options_of(MembershipOptions)}, MembershipOptions)


def read_membership_options(metadata: Mapping[str, Any]) -> MembershipOptions:
    """Return the options given for all tasks or under the task's name.

    Raises OptionError, and MissingOption without texts of both classes.
    """
    of_task, values = typed_options(metadata, TASK, MEMBERSHIP_OPTIONS)
    if "members" in values and "canaries" not in own_options(metadata, TASK):
        # Canaries given for all tasks are meant for the canary tasks.
        values.pop("canaries", None)
    if "tokenizer" not in values and isinstance(metadata.get("pretrained"), str):
        values["tokenizer"] = metadata["pretrained"]
    return membership_options(values)


def membership_options(values: Mapping[str, Any]) -> MembershipOptions:
    """Return the options from typed values by name. Raises OptionError for an invalid value."""
    request = MembershipRequest(**picked(values, REQUEST_OPTIONS))
    _check_sources(values)
    for name, need, attack in (("reference", "reference", "ratio"), ("frequencies", "frequencies", "dc-pdd")):
        if name in values and not any(need in each.needs for each in request.chosen()):
            raise OptionError(f"{name}={values[name]} has no use without the attack {attack}: add it to attacks=")
    return MembershipOptions(values, request, **declared_values(values, MembershipOptions))


def _check_sources(values: Mapping[str, Any]) -> None:
    named = [name for name in ("members", "nonmembers", "suspected") if name in values]
    if "canaries" in values:
        if named:
            raise OptionError(f"canaries and {named[0]} both name texts: give a manifest, or members and nonmembers")
        if "cluster" in values:
            raise OptionError(f"cluster={values['cluster']} has no use with canaries=: leave it out")
        return
    lacking = next((name for name in ("members", "nonmembers") if name not in named), None)
    if lacking is not None:
        raise MissingOption(
            f"{TASK} needs texts that the model was trained on and others of the same kind: pass --metadata "
            f"members=…,nonmembers=… (files, folders, saved data sets or hub:NAME), or canaries=MANIFEST; {lacking} is "
            "missing"
        )
