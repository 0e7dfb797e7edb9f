"""DP-SGD: each row's gradient clipped, the noise as announced, ε from the accountant, usual names of weights."""

from __future__ import annotations

import math
import random
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims.base import load_base
from leakage_tasks.research.victims.classifier import fine_tune
from leakage_tasks.training.dp.private import DpConfig, PrivateSteps, unwrapped

pytest.importorskip("opacus")

SETTINGS = {"learning_rate": 5e-3, "batch_size": 16, "max_length": 16, "device": "cpu"}
ROWS = [
    ("the old cat", "animals"),
    ("one big saw is near", "tools"),
    ("soup", "food"),
    ("a dog near the door", "animals"),
]
LABELS = ["animals", "food", "tools"]


@pytest.fixture
def classifier(encoder, wordpiece):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, _ = load_base(encoder.model, LABELS, wordpiece)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


@pytest.fixture
def batch(wordpiece):
    inputs = wordpiece([text for text, _ in ROWS], padding=True, return_tensors="pt")
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}, torch.tensor([0, 2, 1, 0])


def private(model, noise=0.0, clip=1e9, rows=4, batch_size=4):
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    privacy = DpConfig(noise_multiplier=noise, max_grad_norm=clip, delta=1e-3)
    return PrivateSteps(model, optimiser, privacy, rows=rows, batch_size=batch_size, epochs=1, seed=0)


def row_gradients(model, inputs, labels):
    """The gradient of each row by itself, by plain autograd: one dict of names a row."""
    found = []
    for row in range(len(labels)):
        model.zero_grad()
        logits = model(**{name: value[row : row + 1] for name, value in inputs.items()}).logits
        cross_entropy(logits, labels[row : row + 1]).backward()
        found.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
    model.zero_grad()
    return found


def step(steps, model, inputs, labels):
    steps.step(cross_entropy(model(**inputs).logits, labels), len(labels))


@pytest.mark.parametrize("clip", [1e9, 0.5])
def test_a_step_without_noise_is_the_mean_of_the_rows_clipped_gradients(clip, classifier, batch):
    inputs, labels = batch
    rows = row_gradients(classifier, inputs, labels)
    norms = [torch.sqrt(sum((grad**2).sum() for grad in row.values())) for row in rows]
    before = {name: weight.detach().clone() for name, weight in classifier.named_parameters()}
    steps = private(classifier, clip=clip)
    step(steps, classifier, inputs, labels)
    steps.close()
    assert max(norms) > 0.5
    for name, weight in classifier.named_parameters():
        mean = sum(row[name] * min(1.0, clip / float(norm)) for row, norm in zip(rows, norms, strict=True)) / len(rows)
        assert torch.allclose(weight, before[name] - mean, atol=1e-5), name


def test_the_noise_has_the_announced_size(classifier, batch):
    inputs, labels = batch
    before = {name: weight.detach().clone() for name, weight in classifier.named_parameters()}
    steps = private(classifier, noise=2.0, clip=1e-6)
    step(steps, classifier, inputs, labels)
    steps.close()
    moved = torch.cat([(weight - before[name]).flatten() for name, weight in classifier.named_parameters()])
    assert float(moved.std()) == pytest.approx(2.0 * 1e-6 / len(ROWS), rel=0.05)


def test_an_empty_batch_moves_by_noise_alone(classifier, batch):
    inputs, labels = batch
    before = [weight.detach().clone() for weight in classifier.parameters()]
    steps = private(classifier, noise=0.0)
    steps.step(cross_entropy(classifier(**{n: v[:1] for n, v in inputs.items()}).logits, labels[:1]), 0)
    assert all(torch.equal(a, b) for a, b in zip(before, classifier.parameters(), strict=True))


def test_batches_are_poisson(classifier):
    steps = private(classifier, rows=200, batch_size=10)
    drawn = [steps.batches(random.Random(seed)) for seed in range(20)]
    sizes = [len(batch) for epoch in drawn for batch in epoch]
    assert all(len(epoch) == steps.steps_an_epoch == 20 for epoch in drawn)
    assert sum(sizes) / len(sizes) == pytest.approx(10, abs=0.6)
    variance = sum((size - 10) ** 2 for size in sizes) / len(sizes)
    assert variance == pytest.approx(200 * 0.05 * 0.95, rel=0.25)


def test_epsilon_is_the_accountant_s_for_the_steps_taken(encoder, wordpiece, topics):
    from opacus.accountants import RDPAccountant

    privacy = DpConfig(noise_multiplier=1.1, delta=1e-4)
    trained = fine_tune(encoder.model, topics[:160], tokenizer=wordpiece, epochs=2, private=privacy, **SETTINGS)
    oracle = RDPAccountant()
    for spent in trained.history:
        for _ in range(10):
            oracle.step(noise_multiplier=1.1, sample_rate=0.1)
        assert spent.epsilon == pytest.approx(oracle.get_epsilon(1e-4), rel=1e-6)


@pytest.mark.slow
def test_a_target_epsilon_is_met_and_nearly_spent(encoder, wordpiece, topics):
    privacy = DpConfig(epsilon=4.0, delta=1e-4)
    trained = fine_tune(encoder.model, topics[:160], tokenizer=wordpiece, epochs=2, private=privacy, **SETTINGS)
    assert 3.8 < trained.history[-1].epsilon <= 4.0


def test_clipped_training_learns(encoder, wordpiece, topics):
    privacy = DpConfig(noise_multiplier=0.0, max_grad_norm=0.5)
    settings = {**SETTINGS, "learning_rate": 1e-2, "tokenizer": wordpiece}
    trained = fine_tune(encoder.model, topics[:160], topics[160:], epochs=6, private=privacy, **settings)
    assert trained.history[-1].validation < trained.history[0].validation - 0.3


def test_the_model_keeps_its_names_repeats_and_has_no_hooks_left(encoder, wordpiece, topics):
    options = {**SETTINGS, "tokenizer": wordpiece, "epochs": 1}
    plain = fine_tune(encoder.model, topics[:32], **options)
    one, two = (
        fine_tune(encoder.model, topics[:32], private=DpConfig(noise_multiplier=1.0), **options) for _ in range(2)
    )
    assert list(one.model.state_dict()) == list(plain.model.state_dict())
    pairs = zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    hooks = [
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks for module in one.model.modules()
    ]
    assert not any(hooks)


def test_without_noise_there_is_no_promise(encoder, wordpiece, topics):
    trained = fine_tune(
        encoder.model, topics[:32], tokenizer=wordpiece, epochs=1, private=DpConfig(noise_multiplier=0.0), **SETTINGS
    )
    assert trained.history[0].epsilon == float("inf")


def test_a_layer_opacus_cannot_do_is_named(classifier, batch):
    inputs, labels = batch
    classifier.bert.encoder.layer[0].output.norm = torch.nn.BatchNorm1d(16)
    with pytest.raises(LeakageError, match="BatchNorm.*: freeze or replace that layer, or train without DP-SGD"):
        private(classifier)


def test_a_parameter_without_row_gradients_is_named(classifier, batch):
    inputs, labels = batch
    classifier.unused = torch.nn.Linear(2, 2)
    steps = private(classifier)
    with pytest.raises(LeakageError, match=r"no per-row gradients for unused\.weight"):
        step(steps, classifier, inputs, labels)


def test_missing_opacus_is_one_line_with_the_remedy(classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(LeakageError, match=r"needs opacus .*lm-eval-leakage\[private\]"):
        private(classifier)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({}, "exactly one of noise_multiplier and epsilon"),
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "exactly one of"),
        ({"noise_multiplier": -1.0}, "noise_multiplier is -1"),
        ({"epsilon": 0.0}, r"epsilon is 0\.0"),
        ({"noise_multiplier": 1.0, "max_grad_norm": 0.0}, "max_grad_norm"),
        ({"noise_multiplier": math.nan}, "noise_multiplier is nan"),
        ({"noise_multiplier": math.inf}, "noise_multiplier is inf"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"epsilon": 1e14}, r"epsilon is 1e\+14, which gives no protection: set noise_multiplier 0 instead"),
        ({"epsilon": 1.0, "max_grad_norm": math.nan}, "max_grad_norm is nan"),
        ({"epsilon": 1.0, "max_grad_norm": math.inf}, "max_grad_norm is inf"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta is nan"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta is 1\.0: give a number above 0 and below 1"),
    ],
)
def test_settings_that_promise_nothing_are_refused(bad, named):
    with pytest.raises(OptionError, match=named):
        DpConfig(**bad)


def test_a_delta_too_large_for_the_rows_is_refused(classifier):
    with pytest.raises(OptionError, match=r"delta is 0\.001 for 2000 rows"):
        private(classifier, rows=2000, batch_size=10)


def causal(kind):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 30}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0}
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(intermediate_size=16, **sizes)).train()
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **sizes)).train()


def mean_loss(model, ids):
    logits = model(input_ids=ids).logits
    return cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_causal_models_are_clipped_row_by_row_tied_weights_too(kind):
    model, ids = causal(kind), torch.randint(0, 30, (3, 8), generator=torch.Generator().manual_seed(0))
    rows = []
    for row in range(3):
        model.zero_grad()
        mean_loss(model, ids[row : row + 1]).backward()
        rows.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
    model.zero_grad()
    norms = [float(torch.sqrt(sum((grad**2).sum() for grad in row.values()))) for row in rows]
    clip = sorted(norms)[1]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    steps = private(model, clip=clip, rows=3, batch_size=3)
    steps.step(mean_loss(model, ids), 3)
    steps.close()
    for name, weight in model.named_parameters():
        mean = sum(row[name] * min(1.0, clip / norm) for row, norm in zip(rows, norms, strict=True)) / 3
        assert torch.allclose(weight, before[name] - mean, atol=1e-5), name


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_out_of_opacus_own_engine_is_saved_under_its_usual_names(tmp_path):
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset
    from transformers import AutoModelForCausalLM

    model = causal("llama")
    names = list(model.state_dict())
    loader = DataLoader(TensorDataset(torch.randint(0, 30, (8, 6))), batch_size=4)
    optimiser = torch.optim.RMSprop(model.parameters())
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False}
    wrapped, optimiser, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimiser, data_loader=loader, **settings
    )
    for (ids,) in loader:
        optimiser.zero_grad()
        mean_loss(wrapped, ids).backward()
        optimiser.step()
    assert all(name.startswith("_module.") for name in wrapped.state_dict())
    plain = unwrapped(wrapped)
    assert plain is model
    assert not any(module._forward_hooks or module._backward_hooks for module in plain.modules())
    plain.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert list(loaded.state_dict()) == names
    assert all(torch.equal(weight, plain.state_dict()[name]) for name, weight in loaded.state_dict().items())


def test_what_nobody_wrapped_is_left_alone():
    for model in (torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 2), causal("llama")):
        assert unwrapped(model) is model


def test_the_loop_of_the_docs_trains_and_saves(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[3] / "docs" / "defences.md"
    example = re.search(r"^```python\n(import random\n.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    causal("llama").save_pretrained("base")
    exec(example[1], {"ids": torch.randint(0, 30, (300, 4))})
    one, two = map(float, capsys.readouterr().out.split())
    assert 7 < one <= 8 < two
    assert (tmp_path / "mine" / "config.json").is_file()
