"""Word vectors for the NLU studies: published ones, or random ones in which the values of one slot are alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.canary_inversion.experiment import TaggerExperiment
from leakage_tasks.research.framework.shared import data_folder, sole_maker


def vectors_of(
    ground: TaggerExperiment, words: Iterable[str], alphabets: Sequence[Sequence[str]], shared: Path
) -> str | None:
    """The file of word vectors a ground asks for, None where embeddings are learnt.

    With ``alike`` it is made: see :func:`alike_vectors`. Raises LeakageError where a published one is not there.
    """
    if ground.alike:
        known = sorted({*words}.union(*alphabets))
        name = hashlib.sha256("\n".join([*known, *map(str, alphabets), str(ground.config())]).encode()).hexdigest()
        path = shared / f"vectors-{name[:16]}.txt"
        with sole_maker(path) as missing:
            if missing:
                with replacing(path) as beside:
                    lines = alike_vectors(known, alphabets, ground)
                    beside.write_text("".join(lines), encoding="utf-8")
        return str(path)
    if not ground.vectors:
        return None
    published = data_folder() / ground.vectors
    if not published.is_file():
        raise LeakageError(f"{published}: not there: put FastText's English vectors there, or take --scale small")
    return str(published)


def alike_vectors(words: Sequence[str], alphabets: Sequence[Sequence[str]], ground: TaggerExperiment) -> Iterable[str]:
    """Lines of a vector file: normal random vectors, those of one alphabet with the ground's cosine between them.

    So are digits, and names of colours, in vectors learnt from much text; what tells them apart is small.
    """
    import numpy as np

    stream, size, cosine = np.random.default_rng(0), ground.embedding_size, ground.alike
    centres = {value: place for place, alphabet in enumerate(alphabets) for value in alphabet}
    common = stream.standard_normal((len(alphabets), size))
    for word, own in zip(words, stream.standard_normal((len(words), size)), strict=True):
        place = centres.get(word)
        vector = own if place is None else np.sqrt(cosine) * common[place] + np.sqrt(1 - cosine) * own
        yield f"{word} {' '.join(f'{ground.spread * value:.6f}' for value in vector)}\n"
