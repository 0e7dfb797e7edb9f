"""Folders of ``seq.in``, ``seq.out`` and ``label``, as Snips and ATIS come: line n of each is utterance n."""

from __future__ import annotations

import shutil
from pathlib import Path

from leakage_tasks.data.base import TEXT, Columns, Layout, Points
from leakage_tasks.data.lines import check_rows, open_source, splice
from leakage_tasks.data.tagged import LABEL, TAGS, TaggedFormat
from leakage_tasks.data.utterances import FILES

_COLUMNS = dict(zip(FILES, (TEXT, TAGS, LABEL), strict=True))


class NLUFolderFormat(TaggedFormat):
    """The three files of a folder; whatever else stands there is not copied."""

    name = "nlu"

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy each file line by line, with the canaries' lines in the same gaps of all three."""
        output.mkdir()
        for name, column in _COLUMNS.items():
            facts = check_rows(source / name)
            lines = [(gap, row[column].encode()) for gap, row in points]
            with open_source(source / name) as stream, (output / name).open("wb") as out:
                stream.seek(len(facts.head))
                splice(facts.head, ((line, True) for line in stream), lines, facts.newline, out)
            shutil.copymode(source / name, output / name)


def may_be_replaced(folder: Path) -> bool:
    """Whether a folder holds nothing but the three files, or nothing at all."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= set(FILES)
