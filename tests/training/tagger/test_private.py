"""DP-SGD for the NLU tagger: each weight's gradients a row, against the ordinary model on one row at a time."""

from __future__ import annotations

import sys

import pytest
import torch
from scipy.stats import binom
from torch import nn

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.models.nlu_inputs import nlu_inputs, nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from leakage_tasks.models.tag_costs import sequence_costs
from leakage_tasks.training.dp.private import DpConfig, PrivateSteps
from leakage_tasks.training.tagger import private as nlu_private
from leakage_tasks.training.tagger.private import check_memory, use_row_layers
from leakage_tasks.training.tagger.trainer import train_tagger
from tests.training.tagger.utterances import made

opacus = pytest.importorskip("opacus")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
]

TAGS = ("O", "B-city", "I-city", "B-day")
ROWS = [
    "weather in new york on monday please",
    "hi",
    "call me on friday in aa aaa",
    "is it sunny",
]
TOKENIZER = nlu_tokenizer(dict.fromkeys(" ".join(ROWS).split()))


def tagger(characters=False, kernel=3, layers=2, dropout=0.0):
    config = NLUTaggerConfig(
        vocab_size=len(TOKENIZER),
        embedding_size=6,
        hidden_size=5,
        num_hidden_layers=layers,
        dropout=dropout,
        tags=TAGS,
        characters="abcdefghijklmnopqrstuvwxyz" if characters else "",
        character_size=4,
        character_filters=3,
        character_kernel=kernel,
        num_labels=3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return NLUTagger(config).train()


def batch(model, rows=ROWS):
    """What the model is called with, padded or not, labels and tags included."""
    inputs = nlu_inputs([row.split() for row in rows], TOKENIZER, model.config)
    drawn = torch.Generator().manual_seed(len(rows))
    labels = torch.randint(0, 3, (len(rows),), generator=drawn)
    return inputs | {"labels": labels, "tags": torch.randint(0, 4, inputs["input_ids"].shape, generator=drawn)}


def cut(inputs, row):
    """The row alone, without what pads it."""
    length = int(inputs["attention_mask"][row].sum())
    found = {name: value[row : row + 1] for name, value in inputs.items()}
    found = {name: value if name == "labels" else value[:, :length] for name, value in found.items()}
    if "characters" in found:
        longest = int((found["characters"] > 0).sum(dim=-1).max())
        found["characters"] = found["characters"][..., :longest]
    return found


def alone(model, inputs):
    """The gradient of each row by itself, by plain autograd: names to [rows, ...]."""
    rows = []
    for row in range(len(inputs["labels"])):
        model.zero_grad()
        model(**cut(inputs, row)).loss.backward()
        # A row of one word has no transitions.
        rows.append({name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in model.named_parameters()})
    model.zero_grad()
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def private(model, optimiser, noise=0.0, clip=1e9, rows=4, batch_size=4):
    privacy = DpConfig(noise_multiplier=noise, max_grad_norm=clip, delta=1e-3)
    return PrivateSteps(model, optimiser, privacy, rows=rows, batch_size=batch_size, epochs=1, seed=0)


@pytest.mark.parametrize("rows", [ROWS, ["hi friday", "in york"], ["hi"]], ids=["ragged", "whole", "one word"])
@pytest.mark.parametrize("kernel", [None, 1, 3, 4], ids=lambda kernel: f"kernel {kernel}" if kernel else "words alone")
def test_gradients_by_row_are_those_of_each_row_alone(rows, kernel):
    model = tagger(kernel is not None, kernel or 3).double()
    inputs = batch(model, rows)
    expected = alone(model, inputs)
    weights = dict(model.named_parameters())
    with use_row_layers(model):
        wrapped = opacus.GradSampleModule(model, strict=False, loss_reduction="mean")
        wrapped(**inputs).loss.backward()
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        assert torch.allclose(weight.grad_sample, expected[name], atol=1e-10), name
        assert rows is not ROWS or expected[name].any(), name


@pytest.mark.parametrize("characters", [False, True], ids=["words", "characters"])
def test_it_reads_what_the_model_reads_itself(characters):
    model = tagger(characters)
    inputs = batch(model)
    own = model(**inputs)
    with use_row_layers(model):
        found = model(**inputs)
    assert torch.allclose(found.logits, own.logits, atol=1e-6)
    assert torch.allclose(found.emissions, own.emissions, atol=1e-6)
    assert torch.allclose(found.loss, own.loss, atol=1e-6)


def test_opacus_accepts_the_model_only_while_it_reads_by_rows():
    model = tagger(characters=True)
    validate = opacus.validators.ModuleValidator.is_valid
    assert not validate(model)
    with use_row_layers(model):
        assert validate(model)
    assert not validate(model)


def test_embeddings_that_are_frozen_stay_so():
    model = tagger()
    model.embedding.weight.requires_grad_(False)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    inputs = batch(model)
    with use_row_layers(model):
        steps = private(model, torch.optim.SGD([w for w in model.parameters() if w.requires_grad], lr=1.0), noise=1.0)
        steps.step(model(**inputs).loss, len(ROWS))
        steps.close()
    still = [name for name, weight in model.named_parameters() if torch.equal(weight, before[name])]
    assert still == ["embedding.weight"]


def test_rows_are_clipped_each_by_itself():
    model = tagger(characters=True).double()
    inputs = batch(model)
    rows = alone(model, inputs)
    norms = torch.sqrt(sum(grads.flatten(1).square().sum(dim=1) for grads in rows.values()))
    clip = float(norms.median())
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with use_row_layers(model):
        steps = private(model, torch.optim.SGD(model.parameters(), lr=1.0), clip=clip)
        steps.step(model(**inputs).loss, len(ROWS))
        steps.close()
    assert float(norms.min()) < clip < float(norms.max())
    for name, weight in model.named_parameters():
        mean = torch.einsum("i,i...", (clip / norms).clamp(max=1.0), rows[name]) / len(ROWS)
        assert torch.allclose(weight, before[name] - mean, atol=1e-5), name


def test_noise_leaves_the_padding_alone_so_that_a_row_does_not_depend_on_its_company():
    model = tagger(characters=True).double()
    inputs = batch(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    with use_row_layers(model):
        steps = private(model, optimiser, noise=1.0, clip=1.0)
        steps.step(model(**inputs).loss, len(ROWS))
        steps.close()
        inside = [float(model(**cut(inputs, row)).loss.detach()) for row in range(len(ROWS))]
        assert float(model(**inputs).loss.detach()) == pytest.approx(sum(inside) / len(ROWS), rel=1e-9)
    outside = [float(model(**cut(inputs, row)).loss.detach()) for row in range(len(ROWS))]
    assert outside == pytest.approx(inside, rel=1e-9)
    assert not model.embedding.weight[0].any()
    assert not model.character_layer.embedding.weight[0].any()


def test_a_model_has_its_own_layers_back_even_after_a_failure():
    model = tagger(characters=True)
    layers = list(model.modules())

    def fail():
        with use_row_layers(model):
            assert list(model.modules()) != layers
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert list(model.modules()) == layers


def test_the_likelihood_of_rows_with_parameters_of_their_own_is_the_crf_s():
    from torchcrf import CRF

    drawn = torch.Generator().manual_seed(0)
    emissions = torch.randn(3, 5, 4, generator=drawn)
    tags = torch.randint(0, 4, (3, 5), generator=drawn)
    mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
    layers = [CRF(4, batch_first=True) for _ in range(3)]
    stacked = [
        torch.stack([getattr(crf, name) for crf in layers])
        for name in ("start_transitions", "transitions", "end_transitions")
    ]
    expected = [
        crf(emissions[row : row + 1], tags[row : row + 1], mask[row : row + 1]) for row, crf in enumerate(layers)
    ]
    found = -sequence_costs(emissions, mask, tags, *stacked).float()
    assert torch.allclose(found, torch.stack(expected), atol=1e-5)


class Called(nn.Module):
    """A CRF alone, called in ways in which opacus does not see the rows, or not all of what was read."""

    def __init__(self, batch_first, positional, reduction):
        super().__init__()
        from torchcrf import CRF

        self.crf = CRF(4, batch_first=batch_first)
        self.positional, self.reduction = positional, reduction

    def forward(self, emissions, tags, mask):
        if self.positional:
            return self.crf(emissions, tags, mask, reduction=self.reduction)
        return self.crf(emissions, tags, mask=mask, reduction=self.reduction)


@pytest.mark.parametrize(
    ("batch_first", "positional", "reduction"), [(False, True, "none"), (True, False, "none"), (True, True, "sum")]
)
def test_a_crf_called_otherwise_is_refused(batch_first, positional, reduction):
    use_row_layers(tagger())
    model = opacus.GradSampleModule(Called(batch_first, positional, reduction))
    whole = torch.ones(3, 3, dtype=torch.bool)
    found = model(torch.randn(3, 3, 4), torch.zeros(3, 3, dtype=torch.long), whole)
    with pytest.raises(LeakageError, match="supports a CRF only with batch_first=True"):
        found.mean().backward()


def test_gradients_of_one_step_are_not_those_of_the_steps_before():
    model = tagger(characters=True).double()
    with use_row_layers(model):
        wrapped = opacus.GradSampleModule(model, strict=False, loss_reduction="mean")
        for rows in (ROWS, ROWS[2:], [*ROWS, "sunny new friday"], ROWS[1:3]):
            inputs = batch(model, rows)
            wrapped.zero_grad(set_to_none=True)
            wrapped(**inputs).loss.backward()
            found = {weight: weight.grad_sample.clone() for weight in model.parameters()}
        wrapped.to_standard_module()
    expected = alone(model, inputs)
    for name, weight in model.named_parameters():
        assert torch.allclose(found[weight], expected[name], atol=1e-10), name


def test_other_training_than_one_private_pass_a_step_is_refused():
    model = tagger()
    inputs = batch(model)
    with use_row_layers(model):
        with pytest.raises(LeakageError, match="need PrivateSteps"):
            model(**inputs).loss.backward()
        wrapped = opacus.GradSampleModule(model, strict=False, loss_reduction="mean")
        wrapped(**inputs).loss.backward()
        with pytest.raises(LeakageError, match="call backward once"):
            wrapped(**inputs).loss.backward()


def test_a_large_batch_s_gradients_are_told_before_they_are_too_much_for_memory(monkeypatch):
    model = tagger(characters=True)
    model.embedding.weight.requires_grad_(False)
    numbers = sum(weight.numel() for name, weight in model.named_parameters() if name != "embedding.weight")
    # Poisson's batches have hardly ever more rows, and never more than there are.
    for rows, batch_size, largest in ((10_000, 100, 160), (20, 10, 20), (5, 64, 5)):
        assert binom.sf(largest, rows, min(batch_size / rows, 1)) < 1e-7
        monkeypatch.setattr(nlu_private, "memory_of", lambda _, there=largest * numbers * 4: there)
        check_memory(model, rows, batch_size)
        monkeypatch.setattr(nlu_private, "memory_of", lambda _, there=largest * numbers * 4 - 1: there)
        with pytest.raises(LeakageError, match=f" GB for a batch of {largest}, "):
            check_memory(model, rows, batch_size)


def test_too_little_memory_is_one_line_with_the_remedies_before_training(monkeypatch):
    monkeypatch.setattr(nlu_private, "memory_of", lambda _: 2_000_000)
    with pytest.raises(LeakageError, match=r"[\d.]+ GB .* 0\.0 GB: .*--batch-size .*--embedding-size.*--frozen"):
        train_tagger(made(90), private=DpConfig(noise_multiplier=1.0, delta=1e-3), device="cpu", on_epoch=pytest.fail)


def test_missing_opacus_is_said_before_anything_else(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(LeakageError, match=r"needs opacus .*lm-eval-leakage\[private\]"):
        use_row_layers(tagger())
