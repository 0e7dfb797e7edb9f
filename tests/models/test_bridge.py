"""Bridges between an encoder and a head, against the same put together by hand and against PEFT."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModelForFeatureExtraction, PromptTuningConfig
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import cross_entropy, gelu
from transformers import AutoModelForMaskedLM
from transformers.modeling_outputs import BaseModelOutput

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.models.bridge import AdapterBridge, PromptBridge, attach, bridge_of, new_bridge, save_bridged
from leakage_tasks.models.frankenstein import encoder_state, graft
from leakage_tasks.training.bridge import BridgeRecipe, train_bridge
from leakage_tasks.training.masked_lm import IGNORED, mask_tokens
from tests.encoders import CONFIGS, WORDS, classifier_of, save_base, wordpiece

IDS = torch.tensor([[2, 5, 6, 4, 7, 3], [2, 4, 40, 3, 0, 0]])
SEEN = (IDS != 0).long()
TEXTS = [f"the {one} of {other} is the pin, the {one}." for one in WORDS for other in WORDS[::3]]
NAMES = ("bert", "roberta", "distilbert", "electra", "modernbert", "deberta-v2")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    return {name: save_base(folder / name, CONFIGS[name]) for name in NAMES}


def logits(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS, attention_mask=SEEN).logits


def grafted(bases: dict[str, Path], name: str = "bert") -> Any:
    return graft(classifier_of(bases[name]), bases[name])


def moved(made: nn.Module) -> nn.Module:
    """With no weight at the value that it starts from."""
    for seed, parameter in enumerate(made.parameters()):
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
    return made


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_changes_nothing_before_it_is_trained(bases: dict[str, Path], name: str) -> None:
    model = grafted(bases, name)
    before = logits(model)
    attach(model, new_bridge(model, "adapter", 8, 0))
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_stands_between_encoder_and_head(bases: dict[str, Path], name: str) -> None:
    model = grafted(bases, name)
    plain, made = copy.deepcopy(model), moved(new_bridge(model, "adapter", 8, 0))
    attach(model, made)
    with torch.no_grad():
        hidden = plain.base_model(input_ids=IDS, attention_mask=SEEN)[0]
        hidden = hidden + gelu(hidden @ made.down.weight.T + made.down.bias) @ made.up.weight.T + made.up.bias
    # The plain model's head on those states, whatever the architecture calls it.
    plain.base_model.register_forward_hook(lambda *_: BaseModelOutput(last_hidden_state=hidden))
    expected = logits(plain)
    assert torch.allclose(logits(model)[SEEN == 1], expected[SEEN == 1], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_pefts(bases: dict[str, Path], name: str) -> None:
    model = grafted(bases, name)
    plain, made = copy.deepcopy(model), moved(new_bridge(model, "prompt", 3, 0))
    attach(model, made)
    width = made.vectors.shape[1]
    config = PromptTuningConfig(
        num_virtual_tokens=3,
        token_dim=width,
        num_layers=2,
        num_attention_heads=2,
        task_type="FEATURE_EXTRACTION",
        num_transformer_submodules=1,
    )
    tuned = PeftModelForFeatureExtraction(plain, config)
    tuned.prompt_encoder["default"].embedding.weight.data.copy_(made.vectors)
    expected = logits(tuned)[:, 3:]
    assert logits(model).shape == (*IDS.shape, model.config.vocab_size)
    assert torch.allclose(logits(model)[SEEN == 1], expected[SEEN == 1], atol=1e-5)


@pytest.mark.parametrize("kind", ["adapter", "prompt"])
def test_training_leaves_encoder_and_head_as_they_were_bit_for_bit(bases: dict[str, Path], kind: str) -> None:
    classifier = classifier_of(bases["bert"])
    expected = graft(classifier, bases["bert"]).state_dict()
    recipe = BridgeRecipe(kind=kind, size=4, epochs=20, learning_rate=3e-2)
    trained = train_bridge(classifier, wordpiece(), bases["bert"], TEXTS, recipe)
    found = trained.model.state_dict()
    assert trained.losses[-1] < 0.97 * trained.losses[0]
    assert {name for name in found if name not in expected} == {f"bridge.{each}" for each in _parts(kind)}
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def _parts(kind: str) -> list[str]:
    return ["vectors"] if kind == "prompt" else ["down.weight", "down.bias", "up.weight", "up.bias"]


@pytest.mark.parametrize("kind", ["adapter", "prompt"])
def test_a_step_is_plain_torchs(bases: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch: the loss told, and the weights after AdamW's first step, are those of a loop by hand."""
    seen: dict[str, torch.Tensor] = {}

    def note(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        seen["shown"], seen["targets"] = mask_tokens(*arguments)
        return seen["shown"], seen["targets"]

    monkeypatch.setattr("leakage_tasks.training.masked_lm.mask_tokens", note)
    classifier, recipe = classifier_of(bases["bert"]), BridgeRecipe(kind=kind, size=4, epochs=1, seed=5)
    trained = train_bridge(classifier, wordpiece(), bases["bert"], TEXTS[:8], recipe)

    model = grafted(bases)
    made = new_bridge(model, kind, 4, 5)
    attach(model, made)
    rows = model(input_ids=seen["shown"], attention_mask=(seen["shown"] != 0).long()).logits
    loss = cross_entropy(rows[seen["targets"] != IGNORED], seen["targets"][seen["targets"] != IGNORED])
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-3, weight_decay=0.01)
    loss.backward()
    nn.utils.clip_grad_norm_(made.parameters(), 1.0)
    optimiser.step()
    assert trained.losses == [pytest.approx(loss.item(), abs=1e-5)]
    for one, other in zip(bridge_of(trained.model).parameters(), made.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(("kind", "size"), [("adapter", 8), ("prompt", 3)])
def test_what_was_saved_is_loaded_with_the_encoder_it_was_trained_on_alone(
    bases: dict[str, Path], kind: str, size: int, tmp_path: Path
) -> None:
    classifier = classifier_of(bases["bert"])
    model = train_bridge(
        classifier, wordpiece(), bases["bert"], TEXTS[:8], BridgeRecipe(kind=kind, size=size, epochs=1)
    ).model
    moved(bridge_of(model))
    save_bridged(model, tmp_path / "saved")
    wordpiece().save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["frankenstein"] == "bridged"
    again = graft(classifier, tmp_path / "saved", tokenizer=wordpiece())
    assert isinstance(bridge_of(again), AdapterBridge if kind == "adapter" else PromptBridge)
    assert torch.equal(logits(again), logits(model))
    assert digest_of(AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")) == digest_of(model)
    with pytest.raises(TargetError, match="its bridge was trained on another classifier's encoder"):
        graft(classifier_of(bases["bert"], tuned=False), tmp_path / "saved", tokenizer=wordpiece())


def digest_of(model: Any) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in encoder_state(model).items()}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b"no weights"),
        lambda file: save_file({"vectors": torch.zeros(3, 5)}, file, metadata={"kind": "prompt"}),
    ],
    ids=["missing", "no file of that kind", "of another width"],
)
def test_a_spoiled_file_is_one_line(bases: dict[str, Path], spoil: Any, tmp_path: Path) -> None:
    model = grafted(bases)
    attach(model, new_bridge(model, "prompt", 3, 0))
    model.config.frankenstein = "bridged"
    save_bridged(model, tmp_path / "saved")
    spoil(tmp_path / "saved" / "bridge.safetensors")
    with pytest.raises(TargetError, match="its bridge.safetensors is missing, damaged or of another shape"):
        graft(classifier_of(bases["bert"]), tmp_path / "saved")


def test_a_prompt_must_leave_room_for_the_text(bases: dict[str, Path]) -> None:
    recipe = BridgeRecipe(kind="prompt", size=25)
    with pytest.raises(OptionError, match="bridge_size=25: the encoder reads 40 tokens.*give 20 or less"):
        train_bridge(classifier_of(bases["bert"]), wordpiece(), bases["bert"], TEXTS, recipe, max_tokens=40)


def test_a_bridge_of_no_kind_is_refused() -> None:
    with pytest.raises(OptionError, match="kind is 'bypass': use adapter or prompt"):
        BridgeRecipe(kind="bypass")
