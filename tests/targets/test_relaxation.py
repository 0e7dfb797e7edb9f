"""Relaxed canaries: at whole values the model's own loss, elsewhere gradients as finite differences have them."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    ConvBertConfig,
    DistilBertConfig,
    GPT2Config,
    RobertaConfig,
    T5Config,
)

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.models import loading
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.targets import ClassifierTarget, Relaxation, TaggerTarget
from tests.oracles import tiny_bert, wordpiece
from tests.taggers import ALPHABETS, DIGITS, pin, tiny_tagger, words_tokenizer

LN2 = math.log(2)


@dataclasses.dataclass
class Case:
    """A target, canaries of several lengths and alphabets, and the loss of a text without our code."""

    target: Any
    model: Any
    canaries: list[Canary]
    loss: Callable[[Any, Canary, str], torch.Tensor]

    def relaxed(self, double: bool = True) -> Relaxation:
        return self.target.relaxed(self.canaries, double)


def tagger(characters: bool) -> Case:
    model = tiny_tagger(characters)
    mixed = {"alphabets": ALPHABETS, "name": "mixed", "label": "ColorIntent"}
    tags = ("O", "B-name", "O", "B-canary", "O")
    canaries = [
        pin("7", "1", "3"),
        pin("4", name="short"),
        pin("red", "5", template="color {colour} is {digits} please", tags=tags, **mixed),
        pin("2", "2", name="untagged", tags=None),
    ]
    return Case(TaggerTarget(model, words_tokenizer()).tagged(canaries[0]), model, canaries, tagger_loss)


def tagger_loss(model: Any, canary: Canary, text: str) -> torch.Tensor:
    inputs = nlu_inputs([text.split()], words_tokenizer(), model.config)
    tags = None if canary.tags is None else torch.tensor([[model.config.tags.index(tag) for tag in canary.tags]])
    label = torch.tensor([model.config.label2id[str(canary.label)]])
    found = model(**inputs, labels=label, tags=tags)
    loss = torch.nn.functional.cross_entropy(found.logits, label) if tags is None else found.loss
    return loss / LN2


def classifier(kind: str) -> Case:
    model, numbers = classifiers(kind), {"animal": word_list("animal", ["cat", "dog", "tree"])}
    canaries = [
        Canary("long", "the {animal} sat on the big {animal} and {digits} .", ("cat", "dog", "3"), alphabets=numbers),
        Canary("short", "a {animal}", ("tree",), alphabets=numbers),
        Canary("middle", "number {digits} {digits} is slow", ("0", "9")),
    ]
    canaries = [dataclasses.replace(canary, label=model.config.id2label[2]) for canary in canaries]
    return Case(ClassifierTarget(model, wordpiece()), model, canaries, classifier_loss)


def classifiers(kind: str) -> Any:
    if kind == "bert":
        return tiny_bert()
    configs = {
        "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=2, pad_token_id=0),
        "distilbert": DistilBertConfig(dim=32, hidden_dim=48, n_layers=2, n_heads=2, pad_token_id=0),
        "roberta": RobertaConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, pad_token_id=0
        ),
        # Its convolutions read the padding after a row.
        "convbert": ConvBertConfig(
            hidden_size=32, embedding_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            conv_kernel_size=3, pad_token_id=0,
        ),
    }  # fmt: skip
    config = configs[kind]
    config.vocab_size, config.num_labels, config.initializer_range = len(wordpiece()), 3, 0.4
    torch.manual_seed(3)
    return AutoModelForSequenceClassification.from_config(config).eval()


def classifier_loss(model: Any, canary: Canary, text: str) -> torch.Tensor:
    logits = model(**wordpiece()(text, return_tensors="pt")).logits
    return torch.nn.functional.cross_entropy(logits, torch.tensor([2])) / LN2


CASES: dict[str, Callable[[], Case]] = {
    "tagger": lambda: tagger(False),
    "characters": lambda: tagger(True),
    **{kind: lambda kind=kind: classifier(kind) for kind in ("bert", "gpt2", "distilbert", "roberta", "convbert")},
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def batch(relaxed: Relaxation, rows: int = 12, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Canaries in turn, and weights that add up to one over each slot's own values."""
    torch.manual_seed(seed)
    which = torch.arange(rows) % len(relaxed.sizes)
    sizes = torch.from_numpy(relaxed.sizes)[which]
    there = torch.arange(relaxed.sizes.max()) < sizes[..., None]
    logits = torch.randn(there.shape, dtype=relaxed.dtype).masked_fill(~there, -torch.inf)
    return which, logits.softmax(-1).nan_to_num(0.0)


def places_of(case: Case, canary: int, seed: int) -> np.ndarray:
    """A filling's places in its slots' alphabets, as wide as the relaxation is."""
    found = np.zeros(max(len(each.space.slots) for each in case.canaries), dtype=np.int64)
    slots = case.canaries[canary].space.slots
    found[: len(slots)] = np.random.default_rng(seed).integers([len(slot) for slot in slots])
    return found


def text_of(canary: Canary, places: Sequence[int]) -> str:
    return canary.space.fill(tuple(slot.values[place] for slot, place in zip(canary.space.slots, places, strict=False)))


def test_sizes_count_the_values_of_each_slot(case: Case) -> None:
    sizes = case.relaxed().sizes
    for canary, row in zip(case.canaries, sizes.tolist(), strict=True):
        own = [len(slot) for slot in canary.space.slots]
        assert row == own + [0] * (sizes.shape[1] - len(own))


@pytest.mark.parametrize("double", [True, False])
def test_at_whole_values_the_loss_is_the_models_own(case: Case, double: bool) -> None:
    relaxed = case.relaxed(double)
    model = copy.deepcopy(case.model).double() if double else case.model
    which = torch.arange(8) % len(case.canaries)
    places = np.stack([places_of(case, int(canary), seed) for seed, canary in enumerate(which)])
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(places), int(relaxed.sizes.max())).to(relaxed.dtype)
    with torch.no_grad():
        texts = [text_of(case.canaries[int(canary)], row) for canary, row in zip(which, places, strict=True)]
        expected = [
            case.loss(model, case.canaries[int(canary)], text).item() for canary, text in zip(which, texts, strict=True)
        ]
        mixed = relaxed.costs(which, relaxed.mixed(which, one_hot))
        chosen = relaxed.costs(which, relaxed.chosen(which, torch.from_numpy(places)))
    near = 1e-9 if double else 1e-4
    assert mixed.tolist() == pytest.approx(expected, abs=near)
    assert chosen.tolist() == pytest.approx(expected, abs=near)


def test_gradients_are_finite_differences(case: Case) -> None:
    relaxed = case.relaxed()
    which, weights = batch(relaxed, len(case.canaries))
    weights.requires_grad_(True)
    (gradient,) = torch.autograd.grad(relaxed.costs(which, relaxed.mixed(which, weights)).sum(), weights)
    for row, canary in enumerate(which.tolist()):
        for slot, size in enumerate(relaxed.sizes[canary].tolist()):
            value = (row + slot) % size if size else 0
            costs = []
            for step in (-1e-5, 1e-5):
                moved = weights.detach().clone()
                moved[row, slot, value] += step
                costs.append(relaxed.costs(which, relaxed.mixed(which, moved)).sum().item())
            difference = (costs[1] - costs[0]) / 2e-5
            assert gradient[row, slot, value].item() == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_a_rows_cost_does_not_depend_on_its_company(case: Case) -> None:
    relaxed = case.relaxed()
    which, weights = batch(relaxed)
    read = relaxed.mixed(which, weights)
    together = relaxed.costs(which, read)
    assert together.std() > 0.01
    own_relaxations = [case.target.relaxed([canary], True) for canary in case.canaries]
    for row in range(len(which)):
        alone = relaxed.costs(which[row : row + 1], read[row : row + 1])
        by_itself = own_relaxations[int(which[row])]
        slots, values = by_itself.sizes.shape[1], int(by_itself.sizes.max())
        own = by_itself.mixed(torch.tensor([0]), weights[row : row + 1, :slots, :values])
        for cost in (alone, by_itself.costs(torch.tensor([0]), own)):
            assert cost.item() == pytest.approx(together[row].item(), abs=1e-9)


def test_mixtures_are_sums_of_what_is_read_for_the_values(case: Case) -> None:
    relaxed = case.relaxed()
    which, weights = batch(relaxed)
    read = torch.zeros(len(which), relaxed.sizes.shape[1], relaxed.features, dtype=relaxed.dtype)
    for value in range(int(relaxed.sizes.max())):
        there = torch.from_numpy(relaxed.sizes)[which] > value
        places = torch.full(there.shape, value).masked_fill(~there, 0)
        read += weights[..., value, None] * relaxed.chosen(which, places)
    torch.testing.assert_close(relaxed.mixed(which, weights), read)


def test_past_a_canarys_last_slot_there_is_nothing(case: Case) -> None:
    relaxed = case.relaxed()
    which, weights = batch(relaxed)
    closed = torch.from_numpy(relaxed.sizes)[which] == 0
    assert closed.any()
    assert (relaxed.mixed(which, torch.ones_like(weights))[closed] == 0).all()
    read = relaxed.mixed(which, weights)
    other = read.masked_fill(closed[..., None], 5.0)
    assert torch.equal(relaxed.costs(which, read), relaxed.costs(which, other))


def test_the_nearest_value_is_that_of_brute_force(case: Case) -> None:
    relaxed = case.relaxed()
    which, weights = batch(relaxed)
    read = relaxed.mixed(which, weights) + torch.randn(len(which), weights.shape[1], relaxed.features).double()
    found = relaxed.nearest(which, read)
    for row, canary in enumerate(which.tolist()):
        for slot, size in enumerate(relaxed.sizes[canary].tolist()):
            places = torch.arange(max(size, 1))[:, None].clamp(max=torch.from_numpy(relaxed.sizes[canary]) - 1)
            values = relaxed.chosen(torch.full((len(places),), canary), places)[:, slot, : relaxed.soft]
            expected = (values - read[row, slot, : relaxed.soft]).norm(dim=1).argmin() if size else 0
            assert found[row, slot] == expected
    assert torch.equal(relaxed.nearest(which, read[..., : relaxed.soft]), found)


def test_the_model_stays_as_it_was(case: Case) -> None:
    before = {name: weight.clone() for name, weight in case.model.state_dict().items()}
    for double, dtype in ((True, torch.double), (False, torch.float)):
        relaxed = case.relaxed(double)
        which, weights = batch(relaxed)
        relaxed.costs(which, relaxed.mixed(which, weights.requires_grad_(True))).sum().backward()
        assert relaxed.dtype == dtype
    assert all(weight.grad is None and weight.requires_grad for weight in case.model.parameters())
    assert not any(module.training for module in case.model.modules())
    after = case.model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_without_double_no_weight_is_held_twice() -> None:
    target = ClassifierTarget(tiny_bert(), wordpiece())
    relaxed = target.relaxed(classifier("bert").canaries, False)
    read = relaxed._reader._target.model  # type: ignore[attr-defined]
    pairs = zip(read.parameters(), target.model.parameters(), strict=True)
    assert all(ours.data_ptr() == own.data_ptr() and not ours.requires_grad for ours, own in pairs)


def test_characters_stand_beside_the_embeddings() -> None:
    relaxed, model = tagger(True).relaxed(), tiny_tagger(True)
    assert (relaxed.soft, relaxed.features) == (10, 14)
    inputs = nlu_inputs([list(DIGITS)], words_tokenizer(), model.config)
    places = torch.arange(10)[:, None].expand(-1, 3)
    read = relaxed.chosen(torch.ones(10, dtype=torch.long), places)[:, 0]
    torch.testing.assert_close(read.float(), model.embed(inputs["input_ids"], inputs["characters"])[0])


# -- values that cannot be mixed ------------------------------------------------------------------------------


def listed(*values: str, template: str = "call {name} please") -> Canary:
    return Canary("c", template, (values[0],), alphabets={"name": word_list("name", values)}, label="CallIntent")


def of_tagger(characters: bool = False) -> Any:
    return TaggerTarget(tiny_tagger(characters), words_tokenizer()).tagged(pin("1"))


def of_classifier() -> ClassifierTarget:
    return ClassifierTarget(tiny_bert(), wordpiece())


UNKNOWN, SEVERAL = "are unknown to the model", "are not one token each"
TRAIN = "train it with leakage train-nlu --canaries FILE$"


@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        (of_tagger, ("red", "dupree", "leipzig"), rf"2 of the 3 .* {UNKNOWN} \('dupree', 'leipzig'\): {TRAIN}"),
        (lambda: of_tagger(True), ("red", "dupree"), rf"1 of the 2 .* {UNKNOWN} \('dupree'\): {TRAIN}"),
        (of_tagger, ("red", "<pad>"), rf"1 of the 2 .* {UNKNOWN} \('<pad>'\): {TRAIN}"),
        (of_tagger, ("red", "my red"), rf"1 of the 2 .* {SEVERAL} \('my red'\), .*: use attack=label-search$"),
        (of_tagger, ("red", "new york"), rf"1 of the 2 .* {SEVERAL} \('new york'\), .*: use attack=label-search$"),
        (of_classifier, ("cat", "cats"), rf"1 of the 2 .* {SEVERAL} \('cats'\), .*: use attack=label-search$"),
        (
            of_classifier,
            ("cat", "walrus"),
            rf"1 of the 2 .* {UNKNOWN} \('walrus'\): leave them out of the alphabet",
        ),
    ],
)
def test_values_without_a_token_of_their_own_are_refused(target: Any, values: tuple[str, ...], message: str) -> None:
    with pytest.raises(TargetError, match=f"^{message.replace(' .* ', ' values of slot 1 ', 1)}"):
        target().relaxed([listed(*values)], True)


@pytest.mark.parametrize("template", ["call{name}", "call x{name} please"])
def test_values_that_share_tokens_with_the_text_are_refused(template: str) -> None:
    with pytest.raises(TargetError, match="depend on the text around them.*put spaces"):
        of_tagger().relaxed([listed("1", "2", template=template)], True)


def test_a_model_that_reads_a_text_twice_is_refused() -> None:
    config = T5Config(vocab_size=len(wordpiece()), d_model=16, d_ff=16, num_layers=1, num_heads=1, d_kv=16)
    config.pad_token_id, config.eos_token_id, config.num_labels = 0, 3, 3
    target = ClassifierTarget(AutoModelForSequenceClassification.from_config(config), wordpiece())
    with pytest.raises(TargetError, match="this t5 model reads a text twice"):
        target.relaxed([listed("cat", "dog")], True)


# -- devices --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("characters", [True, False])
def test_a_gpu_gives_the_same_costs_and_gradients(characters: bool, double: bool) -> None:
    found = []
    for device in ("cpu", "cuda"):
        model = copy.deepcopy(tiny_tagger(characters)).to(device)
        canaries = tagger(characters).canaries
        relaxed = TaggerTarget(model, words_tokenizer()).tagged(canaries[0]).relaxed(canaries, double)
        which, weights = batch(relaxed)
        weights = weights.to(device).requires_grad_(True)
        costs = relaxed.costs(which.to(device), relaxed.mixed(which.to(device), weights))
        found.append([each.detach().cpu() for each in (costs, *torch.autograd.grad(costs.sum(), weights))])
    torch.testing.assert_close(*found, rtol=1e-8 if double else 1e-3, atol=1e-8 if double else 1e-3)


def test_the_attack_inversion_is_named_on_a_device_without_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    case = tagger(False)
    monkeypatch.setattr(loading, "WITHOUT_DOUBLE", {"cpu"})
    with pytest.raises(OptionError, match="in which the attack inversion computes: use --device cpu or cuda"):
        case.relaxed()
