"""Train a small model on the first half of each of two texts, for the page on whole documents.

    python examples/whole_document.py FOLDER

It writes the model, ``books.jsonl`` (the two texts, of which the model saw half), and ``unseen.jsonl`` (texts that the
model never saw). It takes a minute on two CPU cores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stand_in import english, train

LINES = 30


def main(folder: Path) -> None:
    """Make the example in ``folder``."""
    lines = english(6 * LINES)
    texts = [" ".join(lines[start : start + LINES]) for start in range(0, 4 * LINES, LINES)]
    seen = [text[at : at + 400] for text in texts[:2] for at in range(0, len(text) // 2 - 400, 40)]
    model, tokenizer = train(seen, epochs=40)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    for name, part in (("books", texts[:2]), ("unseen", texts[2:])):
        rows = (json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
