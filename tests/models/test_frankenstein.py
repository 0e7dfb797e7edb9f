"""The Frankenstein model against the base model and against its parts put together by hand."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    ElectraConfig,
    GPT2Config,
    RobertaConfig,
)

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.frankenstein import encoder_state, fresh_head, graft, is_frankenstein, pretrained_mlm
from tests.encoders import CONFIGS, SHAPE, VOCABULARY, byte_level, classifier_of, save_base, wordpiece

IDS = torch.tensor([[2, 5, 6, 4, 7, 3], [2, 4, 40, 41, 4, 3]])


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A saved base model of each architecture."""
    folder = tmp_path_factory.mktemp("bases")
    return {name: save_base(folder / name, config) for name, config in CONFIGS.items()}


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits


@pytest.mark.parametrize("name", CONFIGS)
def test_with_an_encoder_not_fine_tuned_it_is_the_base_model_exactly(bases: dict[str, Path], name: str) -> None:
    made = graft(classifier_of(bases[name], tuned=False), bases[name], tokenizer=wordpiece())
    expected = logits(AutoModelForMaskedLM.from_pretrained(bases[name]))
    assert expected.std() > 0.1
    assert (logits(made) - expected).abs().max() == 0


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_the_classifiers_encoder_under_the_base_models_head(bases: dict[str, Path], name: str) -> None:
    classifier = classifier_of(bases[name])
    by_hand = AutoModelForMaskedLM.from_pretrained(bases[name])
    # The output matrix keeps the base's tied embeddings when the module that holds them goes.
    setattr(by_hand, by_hand.base_model_prefix, classifier.base_model)
    made = logits(graft(classifier, bases[name]))
    assert torch.equal(made, logits(by_hand))
    assert (made - logits(AutoModelForMaskedLM.from_pretrained(bases[name]))).abs().max() > 0.01


@pytest.mark.parametrize("name", CONFIGS)
def test_the_output_matrix_is_the_bases_and_stays_untied(bases: dict[str, Path], name: str, tmp_path: Path) -> None:
    own = AutoModelForMaskedLM.from_pretrained(bases[name]).get_output_embeddings().weight
    made = graft(classifier_of(bases[name]), bases[name])
    made.tie_weights()
    made.save_pretrained(tmp_path / "saved")
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    assert torch.equal(logits(loaded), logits(made))
    for model in (made, loaded):
        with torch.no_grad():
            model.get_input_embeddings().weight.add_(1.0)
        assert torch.equal(model.get_output_embeddings().weight, own)
        assert model.config.tie_word_embeddings is False


def test_the_classifier_is_left_alone(bases: dict[str, Path]) -> None:
    classifier = classifier_of(bases["bert"])
    before = copy.deepcopy(classifier.state_dict())
    made = graft(classifier, bases["bert"])
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], value) for name, value in classifier.state_dict().items())
    assert classifier.config.tie_word_embeddings is True


def test_a_classifier_in_half_precision_gets_a_head_in_half_precision(bases: dict[str, Path]) -> None:
    made = graft(classifier_of(bases["bert"]).to(torch.bfloat16), bases["bert"])
    assert {parameter.dtype for parameter in made.parameters()} == {torch.bfloat16}


# -- saved ones as heads ------------------------------------------------------------------------------------


def test_a_saved_grafted_head_serves_another_classifier_as_the_base_would(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    graft(classifier_of(bases["bert"]), bases["bert"]).save_pretrained(tmp_path / "saved")
    other = classifier_of(bases["bert"], seed=7)
    again = graft(other, tmp_path / "saved")
    assert torch.equal(logits(again), logits(graft(other, bases["bert"])))
    assert is_frankenstein(again)
    assert not is_frankenstein(pretrained_mlm(other, bases["bert"]))


def test_a_trained_head_is_taken_only_with_its_own_encoder(bases: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(bases["bert"])
    made = fresh_head(classifier)
    made.save_pretrained(tmp_path / "saved")
    assert torch.equal(logits(graft(classifier, tmp_path / "saved")), logits(made))
    with pytest.raises(TargetError, match="trained on another classifier's encoder.*train it again"):
        graft(classifier_of(bases["bert"], seed=7), tmp_path / "saved")


# -- a head to be trained -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fresh_head_stands_on_the_frozen_encoder(bases: dict[str, Path], name: str) -> None:
    classifier = classifier_of(bases[name])
    made = fresh_head(classifier)
    theirs = encoder_state(classifier)
    assert theirs
    assert all(torch.equal(value, theirs[place]) for place, value in encoder_state(made).items())
    assert not any(parameter.requires_grad for parameter in made.base_model.parameters())
    assert made.get_output_embeddings().weight.requires_grad
    assert torch.equal(made.get_output_embeddings().weight, classifier.get_input_embeddings().weight)
    assert made.get_output_embeddings().weight is not made.get_input_embeddings().weight


def test_a_fresh_head_may_start_as_the_bases(bases: dict[str, Path]) -> None:
    classifier = classifier_of(bases["bert"])
    assert torch.equal(logits(fresh_head(classifier, bases["bert"])), logits(graft(classifier, bases["bert"])))


def test_the_seed_makes_the_head_and_disturbs_nothing(bases: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = classifier_of(bases["bert"])
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    gpu_seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", gpu_seeds.append)
    first, again, other = (logits(fresh_head(classifier, seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert gpu_seeds == []
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# -- what does not fit --------------------------------------------------------------------------------------


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(TargetError) as caught:
        graft(*arguments, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hidden_size": 32}, "its hidden_size is 32, the classifier's is 16"),
        ({"num_hidden_layers": 3}, "its num_hidden_layers is 3, the classifier's is 2"),
        ({"num_attention_heads": 4}, "its num_attention_heads is 4, the classifier's is 2"),
        ({"vocab_size": 97}, "its vocab_size is 97, the classifier's is 96"),
    ],
)
def test_another_shape_is_refused(bases: dict[str, Path], tmp_path: Path, changed: dict[str, int], words: str) -> None:
    other = save_base(tmp_path / "other", BertConfig(**{**SHAPE, **changed}))
    assert words in refusal(classifier_of(bases["bert"]), other)


def test_another_architecture_is_refused(bases: dict[str, Path]) -> None:
    assert "is a electra model, the classifier a bert" in refusal(classifier_of(bases["bert"]), bases["electra"])


def test_a_model_without_trained_head_is_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(bases["bert"])
    classifier.save_pretrained(tmp_path / "classifier")
    AutoModel.from_pretrained(bases["bert"]).save_pretrained(tmp_path / "encoder")
    for folder in (tmp_path / "classifier", tmp_path / "encoder"):
        message = refusal(classifier, folder)
        assert "no trained masked-language head (cls.predictions" in message
        assert "head=train" in message
        assert "generator=causal:MODEL or generator=exhaustive" in message


def test_electras_discriminator_is_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    from transformers import ElectraForPreTraining

    ElectraForPreTraining(ElectraConfig(**SHAPE, embedding_size=8)).save_pretrained(tmp_path / "discriminator")
    assert "no trained masked-language head" in refusal(classifier_of(bases["electra"]), tmp_path / "discriminator")


def test_an_architecture_without_masked_model_is_refused(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=VOCABULARY, n_layer=1, n_head=2, n_embd=16, n_positions=40)
    classifier = AutoModelForSequenceClassification.from_config(config)
    classifier.save_pretrained(tmp_path / "gpt2")
    assert "gpt2 models have no masked language model" in refusal(classifier, tmp_path / "gpt2")
    with pytest.raises(TargetError, match="gpt2 models have no masked language model.*generator=causal"):
        fresh_head(classifier)


def test_a_head_that_cannot_be_taken_off_is_refused(tmp_path: Path) -> None:
    base = save_base(tmp_path / "base", DebertaV2Config(**SHAPE, legacy=False))
    assert "uses the encoder's embeddings" in refusal(classifier_of(base), base)


def test_another_tokenizer_is_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(bases["bert"])
    assert f"another vocabulary ({len(wordpiece())} tokens" in refusal(
        classifier, bases["bert"], tokenizer=byte_level()
    )
    renamed = save_base(tmp_path / "renamed")
    settings = json.loads((renamed / "tokenizer_config.json").read_text())
    (renamed / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": "river"}))
    message = refusal(classifier, renamed, tokenizer=wordpiece())
    assert "its mask token is 'river', the classifier's '[MASK]'" in message


def test_weights_that_cannot_be_read_are_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(bases["bert"])
    assert "give a model's folder or hub name" in refusal(classifier, tmp_path / "nowhere")
    pickled = save_base(tmp_path / "pickled")
    torch.save({}, pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    assert "save it again as safetensors" in refusal(classifier, pickled)


def test_roberta_with_fewer_positions_is_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    other = save_base(tmp_path / "other", RobertaConfig(**{**SHAPE, "max_position_embeddings": 30}, pad_token_id=0))
    assert "its max_position_embeddings is 30" in refusal(classifier_of(bases["roberta"]), other)
