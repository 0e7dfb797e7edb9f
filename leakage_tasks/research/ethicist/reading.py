"""A lab model that has read other text since it learnt its pairs, as real models have.

What it knew by heart is then partly covered, not gone: there is something for a soft prompt to bring back. A model
fresh from its pairs says them best after the bare prefix, so that tuning adds nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing

if TYPE_CHECKING:
    from leakage_tasks.research.victims.pair_corpus import PairCorpus

BATCH, CLIP = 16, 1.0


def make_lab(victim: dict[str, Any], folder: Path, data: Path | None) -> None:
    """Make ``model``, ``pairs`` and ``record.json`` in ``folder``, which is replaced whole.

    ``victim`` has the fields of a :class:`~leakage_tasks.research.victims.pair_lm.PairRecipe` as ``recipe``, and
    ``reading``: how many batches of other text the model reads after its pairs, at the learning rate ``reading_rate``.
    ``data`` is the folder of the public pairs. ``record.json`` has the greedy recall of the first pairs before and
    after.
    """
    from leakage_tasks.research.victims.pair_lm import PairRecipe
    from leakage_tasks.research.victims.pair_training import PROBE, greedy_recall, train_pair_lm

    # JSON has no tuples.
    recipe_fields: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in victim["recipe"].items()
    }
    recipe = PairRecipe(**recipe_fields)
    corpus = recipe.corpus(0, data)
    trained = train_pair_lm(corpus, recipe, device="cpu")
    read_on(trained.model, corpus, victim["reading"], victim["reading_rate"])
    after = greedy_recall(trained.model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
    with replacing(folder) as beside:
        beside.mkdir()
        trained.save(beside / "model")
        corpus.save(beside / "pairs")
        record = {**victim, "recipe": asdict(recipe), "recalls": trained.recalls, "after": after}
        (beside / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_on(model: Any, corpus: PairCorpus, steps: int, learning_rate: float, seed: int = 0) -> None:
    """Train on ``steps`` batches of 16 rows of the corpus' other text, all of whose tokens are learnt; AdamW.

    The model is left in evaluation mode, the caller's random state alone.
    """
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    from leakage_tasks.research.victims.pair_training import has_bf16, plain_attention

    stream = np.random.default_rng([seed, steps])
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    half = torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bf16(model.device))
    model.train()
    with plain_attention(model, model.device):
        for _ in range(steps):
            ids = torch.from_numpy(corpus.filler[stream.integers(len(corpus.filler), size=BATCH)])
            with half:
                logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            loss = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
    model.eval()
