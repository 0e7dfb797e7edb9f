"""The first-order order of values against gradients taken with plain `transformers`."""

import numpy as np
import pytest
import torch

from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.attacks.classifier.shortlist import first_order
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.targets import ClassifierTarget
from tests.oracles import WORDS, tiny_bert, wordpiece

TWO = Canary(
    "c", "the {words} sat on {words}", ("cat", "mat"), alphabets={"words": word_list("words", WORDS)}, label="mid"
)


def scores(**options) -> ClassScores:
    return ClassScores(AttackRequest(ClassifierTarget(tiny_bert(), wordpiece(), **options), TWO, 100, ""))


def direct(text: str, slot: int, start: torch.Tensor, values: torch.Tensor, seed: int = 0) -> np.ndarray:
    """loss(start) + gradient·(value − start), by ``inputs_embeds``; the slot's token is the mask."""
    encoded = wordpiece()(text, return_tensors="pt")
    column = int((encoded["input_ids"][0] == wordpiece().mask_token_id).nonzero()[slot, 0])
    matrix = tiny_bert(seed).get_input_embeddings().weight.detach()
    embedded = matrix[encoded["input_ids"]].clone()
    embedded[0, column] = start
    embedded.requires_grad_(True)
    logits = tiny_bert(seed)(inputs_embeds=embedded, attention_mask=encoded["attention_mask"]).logits.double()
    loss = -logits.log_softmax(-1)[0, 1] / np.log(2)
    (gradient,) = torch.autograd.grad(loss, embedded)
    return (loss.detach() + (values - start).double() @ gradient[0, column].double()).numpy()


@pytest.mark.parametrize("at", ["mean", "mask"])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_each_heads_values_are_judged_by_its_own_gradient(at, batch_size):
    matrix = tiny_bert().get_input_embeddings().weight.detach()
    values = matrix[wordpiece().convert_tokens_to_ids(WORDS)]
    start = values.mean(0) if at == "mean" else matrix[wordpiece().mask_token_id]
    heads = np.array([[0], [3], [7]])
    found = first_order(scores(batch_size=batch_size, max_length=12), heads, at)
    for row, head in zip(found, heads, strict=True):
        expected = direct(f"the {WORDS[head[0]]} sat on [MASK]", 0, start, values)
        assert row == pytest.approx(expected, abs=1e-4)


def test_a_calibrated_score_is_approximated_on_both_classifiers():
    one = scores(reference=ClassifierTarget(tiny_bert(5), wordpiece()))
    calibrated = ClassScores(AttackRequest(one.target, TWO, 100, ""), "calibrated")
    numbers, expected = wordpiece().convert_tokens_to_ids(WORDS), []
    for seed in (0, 5):
        values = tiny_bert(seed).get_input_embeddings().weight.detach()[numbers]
        expected.append(direct("the cat sat on [MASK]", 0, values.mean(0), values, seed))
    found = first_order(calibrated, np.array([[WORDS.index("cat")]]), "mean")
    assert found[0] == pytest.approx(expected[0] - expected[1], abs=1e-4)
    assert calibrated.calls == 2


def test_from_several_points_the_nearest_counts_most():
    matrix = tiny_bert().get_input_embeddings().weight.detach()
    values = matrix[wordpiece().convert_tokens_to_ids(WORDS)]
    judged = np.stack([direct("the [MASK] sat on", 0, start, values) for start in values])
    distance = np.linalg.norm(values[:, None].double().numpy() - values[None].double().numpy(), axis=-1)
    weights = np.exp(-distance / (0.1 * distance.mean()))
    expected = (weights / weights.sum(0) * judged).sum(0)
    found = first_order(scores(), np.zeros((1, 0), dtype=np.int64), "points")
    assert found == pytest.approx(expected[None], abs=1e-3)


def test_several_heads_have_a_point_each():
    heads = np.array([[0], [3]])
    assert (first_order(scores(), heads, "points") == first_order(scores(), heads, "mean")).all()


def test_at_a_values_own_embedding_it_is_exact():
    one = scores()
    tokens = wordpiece().convert_tokens_to_ids(WORDS)
    mask = wordpiece().mask_token_id
    weight = one.target.model.get_input_embeddings().weight
    before = weight.detach()[mask].clone()
    try:
        with torch.no_grad():
            weight[mask] = weight[tokens[4]]
        likely = first_order(one, np.zeros((1, 0), dtype=np.int64), "mask")
    finally:
        with torch.no_grad():
            weight[mask] = before
    assert likely[0, 4] == pytest.approx(one.of(np.array([[4]]))[0], abs=1e-5)


def test_a_head_costs_two_calls():
    one = scores()
    first_order(one, np.array([[0], [3], [7]]), "mean")
    assert one.calls == 6
