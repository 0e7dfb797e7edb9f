"""The handler of ``test_contamination`` requests: converts numbers of shards and items to texts, findings to JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.access import LIKELIHOOD, NEXT_TOKEN
from leakage_tasks.attacks.contamination.attack import check_fit, score_orders, score_twins
from leakage_tasks.attacks.contamination.finding import (
    ContaminationFinding,
    contamination_finding_from_json,
)
from leakage_tasks.canaries.chat import Chat, chat_in
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.core.task_names import CONTAMINATION as TASK
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.harness.whole_texts import WholeTexts
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.target import CausalSuffixes
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.contamination.items import ItemTexts, remembered
from leakage_tasks.tasks.contamination.options import ContaminationOptions, contamination_options
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.resume import Findings, Resume
from leakage_tasks.tasks.sharing import check_others, rank_of
from leakage_tasks.tasks.suffix.suffix_handler import suffix_target

ORDER, TWINS = "order", "twins"
"""Kinds of documents: a shard, and an item with its twin."""
NAMES = {ORDER: "shards", TWINS: "items and their twins"}
DIGEST = "digest"
"""Setting of a request with the digest of the items."""
TWINS_AT_ONCE = 128


def answering(lm: LM) -> Answer:
    """Return a function that answers a group of ``test_contamination`` requests with findings as JSON."""
    resume = Resume(lm)

    def answer(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        options, spoken = contamination_options(task_settings), chat_in(task_settings)
        texts = remembered(task_settings[DIGEST]).shown(lm, spoken)
        run = _Run(lm, options, texts, settings_hash(options, task_settings[DIGEST], spoken), spoken is not None)
        documents = [(str(each.doc["kind"]), int(each.doc["number"])) for each in group]
        decisive, items = {"settings": run.digest}, [list(document) for document in documents]
        stored = resume.findings(
            options.resume, options.model_id, TASK, decisive, items, contamination_finding_from_json
        )
        return [finding.to_json() for finding in run.findings(documents, stored)]

    return answer


def settings_hash(options: ContaminationOptions, digest: str, chat: Chat | None) -> str:
    """Return a SHA-256 of all settings that determine the finding of a document."""
    request = dataclasses.asdict(options.request)
    return fingerprint(
        {
            **request,
            "continuation": options.continuation,
            "near": options.near,
            "items": digest,
            "chat": None if chat is None else chat.to_json(),
            "version": __version__,
        }
    )


@dataclasses.dataclass(frozen=True)
class _Run:
    lm: LM
    options: ContaminationOptions
    texts: ItemTexts
    digest: str
    chat: bool

    def findings(
        self, documents: Sequence[tuple[str, int]], stored: Findings[ContaminationFinding]
    ) -> list[ContaminationFinding]:
        """Return a finding for each document, given as kind and number."""
        known = {documents[index]: finding for index, finding in stored.known.items()}
        missing = {document: index for index, document in enumerate(documents) if document not in known}
        if missing:
            kinds = Counter(kind for kind, _ in missing)
            counted = " and ".join(f"{kinds[kind]} {name}" for kind, name in NAMES.items() if kinds[kind])
            what = f"Testing {counted} of {self.options.of}"
            with progress(len(missing), what, unit="document", shown=rank_of(self.lm) == 0) as bar:
                for findings in self._made(list(missing)):
                    check_others(self.lm)
                    for finding in findings:
                        document = finding.kind, finding.number
                        known[document] = finding
                        stored.add(missing[document], finding.scheme, finding.to_json())
                    bar.update(len(findings))
        return [known[document] for document in documents]

    def _made(self, documents: Sequence[tuple[str, int]]) -> Iterator[list[ContaminationFinding]]:
        """Yield the findings of documents that are scored together."""
        model = WholeTexts(self.lm)
        shards = [number for kind, number in documents if kind == ORDER]
        twins = [number for kind, number in documents if kind == TWINS]
        parts = self.options.request.parts(len(self.texts.items)) if shards else []
        numbers = [item for shard in shards for item in parts[shard]]
        check_fit(model, [self.texts.items[number] for number in numbers], numbers, f"of={self.options.of}: item")
        texts = [(shard, [self.texts.items[item] for item in parts[shard]]) for shard in shards]
        for findings in score_orders(model, texts, self.texts.separator, self.options.request):
            yield self._stamped(findings, LIKELIHOOD)
        yield from self._twins(model, twins)

    def _stamped(self, findings: Sequence[ContaminationFinding], access: str) -> list[ContaminationFinding]:
        return [dataclasses.replace(finding, access=access, settings_hash=self.digest) for finding in findings]

    def _twins(self, model: WholeTexts, numbers: Sequence[int]) -> Iterator[list[ContaminationFinding]]:
        pairs = [(number, self.texts.items[number], self.texts.twins[number]) for number in numbers]
        check_fit(model, [pair[1] for pair in pairs], numbers, f"of={self.options.of}: item")
        check_fit(model, [pair[2] for pair in pairs], numbers, f"twins={self.options.twins}: the twin of item")
        target = self._target(pairs) if pairs else None
        access = LIKELIHOOD if target is None else NEXT_TOKEN
        for first in range(0, len(pairs), TWINS_AT_ONCE):
            part = pairs[first : first + TWINS_AT_ONCE]
            findings = score_twins(model, part, target, self.options.continuation, self.options.halves)
            yield self._stamped(findings, access)

    def _target(self, pairs: Sequence[tuple[int, str, str]]) -> DrawsSuffixes | None:
        """Return the model for the probability of second halves; None for a model that reads only text."""
        target = self._causal(pairs) if isinstance(self.lm, HFLM) else None
        if target is None and self.options.near:
            raise OptionError(
                "near needs the probabilities of next tokens, and this model takes only text: leave it out, or use "
                "--model hf"
            )
        return target

    def _causal(self, pairs: Sequence[tuple[int, str, str]]) -> CausalSuffixes | None:
        lm: Any = self.lm
        rows = [lm.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (pairs[0][1], pairs[-1][2])]
        # A chat template writes its own start token.
        target = suffix_target(lm, [Pair(0, tuple(row), ()) for row in rows], before="" if self.chat else None)
        return target if isinstance(target, CausalSuffixes) else None
