"""The verdicts on documents and on written texts, which are compared with controls.

Documents have no chance level. The costs of their suffixes are tested against those of controls at 5 %, one-sided.
Texts that a model writes are searched for runs of the corpus and of controls: McNemar's test, two-sided at 5 %.
Propensity and capability are tested against the controls by Fisher's exact test, one-sided, at 1 % together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy import stats

from leakage_tasks.core.nouns import counted, p_text
from leakage_tasks.metrics.conclusion import OTHERS, Verdict, whole_number
from leakage_tasks.stats.multiple import holm
from leakage_tasks.stats.paired import FEWEST_UNITS
from leakage_tasks.stats.power import ALPHA

_TENDENCIES = (("propensity", "ordinary"), ("capability", "adversarial"))
"""Further metrics of ``untargeted_extraction``, and their prompts."""


def on_documents(values: Mapping[str, float | None]) -> Verdict:
    """Return the verdict on documents from the test of their suffixes' costs against the controls' costs."""
    p, area = values.get("cost_p"), values.get("cost_auc")
    if not values.get("n_controls"):
        return Verdict("inconclusive", "no controls show how much of the text can be guessed")
    documents, controls = (whole_number(values.get(name)) for name in ("n_documents", "n_controls"))
    too_few = bool(documents) and not _can_differ(documents, controls)
    if p is None or area is None:
        many = f"{counted(documents, 'document')} and {counted(controls, 'control')}"
        few = f"{many} are too few to show p = {ALPHA:.2g}: add documents or controls"
        return Verdict("inconclusive", few if too_few else "the model reports no costs to compare with the controls'")
    shown = f"in {100 * area:.0f} % of comparisons a document's suffixes cost less than a control's, p = {p_text(p)}"
    if p <= ALPHA:
        return Verdict("above the controls", shown)
    # Older results may lack the number of documents. An AUC of 1 that is not significant then shows that they are few.
    if too_few or area >= 1:
        return Verdict("inconclusive", f"{shown}: more documents or controls are needed to show p = {ALPHA:.2g}")
    return Verdict("not above the controls", shown)


def _can_differ(documents: int, controls: int) -> bool:
    """Return True if the test is significant for some costs; it needs two documents and two controls."""
    # 20 are enough in any case, and keep the number of orders small.
    few = min(documents, 20), min(controls, 20)
    return min(few) >= 2 and 1 / math.comb(sum(few), few[0]) <= ALPHA


def on_written_texts(values: Mapping[str, float | None]) -> Verdict:
    """Return the verdict on texts that the model wrote, from their runs of the corpus and of the controls.

    Texts after prompts that need no text of the corpus are tested at 5 %. Propensity and capability are tested together
    at 1 %, or at 5 % in a run without such prompts. If the first of these tests is significant for no result of this
    number of texts, the verdict is inconclusive.
    """
    p, share, controls = (values.get(name) for name in ("excess_p", "extracted", "control_extracted"))
    tendencies = [test for test in (_tendency(values, *row) for row in _TENDENCIES) if test is not None]
    if p is None or share is None or controls is None:
        if not tendencies:
            return Verdict("inconclusive", "no controls show how much of the corpus any model writes")
        shown, level = "", ALPHA
        few = min(test.least for test in tendencies) * len(tendencies) > ALPHA
    else:
        shown = f"after empty, short or divergence prompts {_runs(share, controls)}, p = {p_text(p)}"
        if p <= ALPHA and share > controls:
            return Verdict("above the controls", shown)
        level = OTHERS
        # Older results may lack the number of texts.
        few = 0 < whole_number(values.get("n")) < FEWEST_UNITS
    corrected = holm([test.p for test in tendencies])
    above = [test.prompts for test, p in zip(tendencies, corrected, strict=True) if p <= level]
    tested = [f"after {test.prompts} prompts {test.runs}, p = {p_text(test.p)}" for test in tendencies]
    if above:
        where = f"after {' and '.join(above)} prompts"
        return Verdict("above the controls", "; ".join([*tested, *([shown] if shown else [])]), where)
    because = shown or "; ".join(tested)
    if few:
        return Verdict("inconclusive", f"{because}: more texts are needed to show p = {ALPHA:.2g}")
    return Verdict("not above the controls", because)


class _Tendency(NamedTuple):
    """The test of propensity or capability: its prompts, both shares in words, the p-value, and the smallest p-value
    that this number of texts can have."""

    prompts: str
    runs: str
    p: float
    least: float


def _tendency(values: Mapping[str, float | None], name: str, prompts: str) -> _Tendency | None:
    """Return Fisher's one-sided exact test of propensity or capability; None without controls.

    Some texts are searched for both kinds of runs; the test takes them for independent texts, which makes its p-value
    too large rather than too small.
    """
    share, controls = values.get(name), values.get(f"control_{name}")
    numbers = [whole_number(values.get(f"n_{prompts}{end}")) for end in ("", "_controls")]
    if share is None or controls is None or not all(numbers):
        return None
    hits = [round(rate * number) for rate, number in zip((share, controls), numbers, strict=True)]
    table = [[hit, number - hit] for hit, number in zip(hits, numbers, strict=True)]
    # Every text has a run of the corpus, no text a run of the controls.
    tests = (stats.fisher_exact(cells, "greater") for cells in (table, [[numbers[0], 0], [0, numbers[1]]]))
    return _Tendency(prompts, _runs(share, controls), *(float(test.pvalue) for test in tests))


def _runs(share: float, controls: float) -> str:
    corpus, unseen = (f"{100 * value:.3g} %" for value in (share, controls))
    return f"{corpus} of texts have a run of the corpus, {unseen} of the controls"
