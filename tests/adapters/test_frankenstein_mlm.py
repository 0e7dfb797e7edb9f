"""The Frankenstein adapter against transformers used by hand, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from adapters.frankenstein_mlm import FrankensteinLM
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.models.frankenstein import encoder_state, graft
from leakage_tasks.targets.classifier.generators import GeneratingTarget
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import ProposesValues
from tests.encoders import WORDS, continuation_nats, masked_costs, requests, save_base, save_classifier
from tests.oracles import merging, tiny_gpt2

SPACE = parse_template("the pin is {words}.", {"words": word_list("words", WORDS)})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ``base`` model, a ``classifier`` fine-tuned from it, and a ``public.txt``."""
    folder = tmp_path_factory.mktemp("frankenstein")
    save_base(folder / "base")
    save_classifier(folder / "classifier", folder / "base")
    sentences = [f"the {one} of {other} is the pin, the {one}." for one in WORDS for other in WORDS[::3]]
    (folder / "public.txt").write_text("\n".join(sentences))
    return folder


def load(made: Path, **arguments: Any) -> FrankensteinLM:
    options = {"head": str(made / "base"), "device": "cpu", "dtype": "float32"} | arguments
    return FrankensteinLM(pretrained=str(made / "classifier"), **options)


@pytest.fixture(scope="module")
def lm(made: Path) -> FrankensteinLM:
    return load(made)


def classifier(made: Path) -> Any:
    return AutoModelForSequenceClassification.from_pretrained(made / "classifier").eval()


# -- answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1])
def test_loglikelihood_is_the_pseudo_log_likelihood_of_the_continuation(made: Path, batch_size: int | None) -> None:
    pairs = [("the pin", " is seven."), ("", "the river"), ("the house of money is", " green"), ("of", " zzz ab")]
    found = load(made, batch_size=batch_size).loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)
    model, tokenizer = graft(classifier(made), made / "base"), AutoTokenizer.from_pretrained(made / "base")
    expected = [continuation_nats(model, tokenizer, *pair) for pair in pairs]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-5)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def test_the_likeliest_word_is_greedy(made: Path, lm: FrankensteinLM) -> None:
    model = graft(classifier(made), made / "base")
    for context in (f"the {one} {other}" for one in WORDS for other in WORDS):
        costs = masked_costs(model, lm.tokenizer, f"{context} [MASK]")
        if (word := lm.tokenizer.convert_ids_to_tokens(int(costs.argmin()))) in WORDS:
            break
    (answer,) = lm.loglikelihood(requests("loglikelihood", (context, f" {word}")), disable_tqdm=True)
    assert answer == (pytest.approx(-float(costs.min()) * math.log(2), abs=1e-5), True)


def test_an_empty_continuation_is_certain(lm: FrankensteinLM) -> None:
    assert lm.loglikelihood(requests("loglikelihood", ("the pin", "")), disable_tqdm=True) == [(0.0, True)]


def rolling(lm: FrankensteinLM, *texts: str) -> list[float]:
    """What whole texts cost; the harness' later generation has them answered in pairs, after an empty context."""
    found = lm.loglikelihood_rolling(requests("loglikelihood_rolling", *((text,) for text in texts)), disable_tqdm=True)
    after_nothing = requests("loglikelihood_rolling", *(("", text) for text in texts))
    assert lm.loglikelihood_rolling(after_nothing, disable_tqdm=True) == found
    return [each[0] if isinstance(each, tuple) else each for each in found]


def test_rolling_is_the_whole_texts(made: Path, lm: FrankensteinLM) -> None:
    texts = ["the pin is seven.", "river", ""]
    found = rolling(lm, *texts)
    model = graft(classifier(made), made / "base")
    expected = [continuation_nats(model, lm.tokenizer, "", text)[0] for text in texts]
    assert found == pytest.approx(expected, abs=1e-5)


def test_rolling_cuts_long_texts_into_pieces_that_fit(made: Path, lm: FrankensteinLM) -> None:
    words = [WORDS[place * place % len(WORDS)] for place in range(50)]
    (found,) = rolling(lm, " ".join(words))
    parts = [" ".join(words[:38]), " ".join(words[38:])]
    assert found == pytest.approx(sum(rolling(lm, *parts)), abs=1e-5)


def test_classify_is_the_classifiers(made: Path, lm: FrankensteinLM) -> None:
    ids = torch.tensor([lm.tokenizer("the river is green.")["input_ids"]])
    with torch.no_grad():
        expected = classifier(made)(ids).logits[0].log_softmax(-1)
    names = ("LABEL_0", "LABEL_1", "LABEL_2")
    found = lm.classify(requests("loglikelihood", *(("the river is green.", name) for name in names)))
    assert [value for value, _ in found] == pytest.approx(expected.tolist(), abs=1e-5)


def test_too_long_and_impossible_requests_are_refused(lm: FrankensteinLM) -> None:
    with pytest.raises(TargetError, match="a text of 63 tokens does not fit the model's maximum of 40"):
        lm.loglikelihood(requests("loglikelihood", ("the " * 60, "pin")), disable_tqdm=True)
    with pytest.raises(TargetError, match="does not generate text"):
        lm.generate_until(requests("generate_until", ("the", {})))


# -- generators ---------------------------------------------------------------------------------------------


def test_its_target_proposes_by_the_frankenstein_model(made: Path, lm: FrankensteinLM) -> None:
    target = as_target(lm, ["the pin"])
    assert isinstance(target, GeneratingTarget)
    assert isinstance(target, ProposesValues)
    assert target.generator_name == "frankenstein"
    costs = masked_costs(graft(classifier(made), made / "base"), lm.tokenizer, "the pin is [MASK].")
    expected = costs[lm.tokenizer.convert_tokens_to_ids(list(WORDS))]
    assert target.propose(SPACE, [()], 0)[0].costs == pytest.approx(expected.numpy(), abs=1e-4)


def test_the_pretrained_generator_is_the_base_model(made: Path) -> None:
    target = load(made, generator="pretrained").classifier
    model = AutoModelForMaskedLM.from_pretrained(made / "base").eval()
    costs = masked_costs(model, target.tokenizer, "the pin is [MASK].")
    expected = costs[target.tokenizer.convert_tokens_to_ids(list(WORDS))]
    assert as_target(load(made, generator="pretrained")).propose(SPACE, [()], 0)[0].costs == pytest.approx(
        expected.numpy(), abs=1e-4
    )


def test_generators_without_head_serve_any_classifier(made: Path, tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=len(merging()), n_layer=1, n_head=2, n_embd=16, n_positions=64, num_labels=2)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "classifier")
    merging().save_pretrained(tmp_path / "classifier")
    tiny_gpt2(merging()).save_pretrained(tmp_path / "causal")
    merging().save_pretrained(tmp_path / "causal")
    lm = load(tmp_path, head=None, generator=f"causal:{tmp_path / 'causal'}")
    assert np.isfinite(as_target(lm).propose(SPACE, [()], 0)[0].costs).all()
    assert load(made, head=None, generator="exhaustive").get_model_info()["model_generator"] == "exhaustive"
    with pytest.raises(TargetError, match="without a masked-language head.*pass head=BASE"):
        lm.loglikelihood(requests("loglikelihood", ("the", " pin")))


# -- a trained head, and saved ones -------------------------------------------------------------------------


def digest(state: dict[str, torch.Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + state[name].numpy().tobytes())
    return found.hexdigest()


@pytest.fixture(scope="module")
def trained(made: Path) -> FrankensteinLM:
    return load(made, head="train", text=str(made / "public.txt"), head_epochs=200, save=str(made / "trained"))


@pytest.mark.slow
def test_training_a_head_lowers_its_loss_and_leaves_the_encoder_as_it_was(made: Path, trained: FrankensteinLM) -> None:
    assert trained.head_losses[-1] < 0.8 * trained.head_losses[0]
    assert trained.get_model_info()["model_head_losses"] == trained.head_losses
    saved = AutoModelForMaskedLM.from_pretrained(made / "trained")
    assert digest(encoder_state(saved)) == digest(encoder_state(classifier(made)))
    begun = load(made, head="train", text=str(made / "public.txt"), head_epochs=1)
    text = (made / "public.txt").read_text()[:120]
    (after,), (before,) = (rolling(lm, text) for lm in (trained, begun))
    assert after > 0.8 * before


def test_a_saved_head_is_the_trained_one(made: Path, trained: FrankensteinLM) -> None:
    again = load(made, head=str(made / "trained"))
    first, second = (as_target(lm).propose(SPACE, [()], 0)[0].costs for lm in (trained, again))
    assert np.array_equal(first, second)
    assert len(AutoTokenizer.from_pretrained(made / "trained")) == len(again.tokenizer)


def test_training_repeats_itself(made: Path) -> None:
    options = {"head": "train", "text": str(made / "public.txt"), "head_epochs": 1}
    first, again, other = (load(made, **options, seed=seed).head_losses for seed in (0, 0, 1))
    assert first == again != other


def test_a_head_may_be_trained_on_from_the_bases(made: Path) -> None:
    lm = load(made, head="train", base=str(made / "base"), text=str(made / "public.txt"), generator="pretrained")
    plain = load(made, generator="pretrained")
    one, other = (as_target(each).propose(SPACE, [()], 0)[0].costs for each in (lm, plain))
    assert np.array_equal(one, other)
    pair = requests("loglikelihood", ("the pin", " is seven."))
    assert lm.loglikelihood(pair, disable_tqdm=True) != plain.loglikelihood(pair, disable_tqdm=True)


def test_a_saved_frankenstein_is_no_pretrained_model(made: Path, trained: FrankensteinLM, tmp_path: Path) -> None:
    load(made, save=str(tmp_path / "grafted"))
    for folder in (tmp_path / "grafted", made / "trained"):
        with pytest.raises(TargetError, match="is not the pretrained model: give the base"):
            load(made, head=str(folder), generator="pretrained")


def test_saving_replaces_nothing_but_its_own_kind(made: Path, tmp_path: Path) -> None:
    load(made, save=str(tmp_path / "kept"))
    load(made, save=str(tmp_path / "kept"))
    assert json.loads((tmp_path / "kept" / "config.json").read_text())["frankenstein"] == "grafted"
    with pytest.raises(OptionError, match="contains other files, which would be replaced"):
        load(made, save=str(made / "classifier"))
    with pytest.raises(OptionError, match="there is no folder"):
        load(made, save=str(tmp_path / "nowhere" / "kept"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


# -- bridges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), [("adapter", 8), ("prompt", 5)])
def test_a_bridge_is_trained_saved_and_taken_up_again(made: Path, kind: str, size: int, tmp_path: Path) -> None:
    place = str(tmp_path / "kept")
    options = {"base": str(made / "base"), "text": str(made / "public.txt"), "bridge_size": size, "head_epochs": 3}
    lm, again = load(made, head=kind, save=place, **options), load(made, head=place)
    assert len(lm.get_model_info()["model_head_losses"]) == 3
    found, kept, plain = (as_target(each).propose(SPACE, [()], 0)[0].costs.tolist() for each in (lm, again, load(made)))
    assert found == kept != plain
    assert again.get_model_info()["model_bridge"] == kind
    assert sorted(path.name for path in (tmp_path / "kept").iterdir() if "bridge" in path.name) == [
        "bridge.safetensors"
    ]


def test_a_prompt_takes_of_the_texts_room(made: Path) -> None:
    options = {"base": str(made / "base"), "text": str(made / "public.txt"), "bridge_size": 5, "head_epochs": 1}
    lm = load(made, head="prompt", **options)
    with pytest.raises(TargetError, match="a text of 63 tokens does not fit the model's maximum of 35"):
        lm.loglikelihood(requests("loglikelihood", ("the " * 60, "pin")), disable_tqdm=True)


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head": None}, "head= is missing: name the model the classifier was fine-tuned from"),
        ({"head": None, "generator": "exhaustive", "save": "s"}, "head= is missing"),
        (
            {"generator": "markov"},
            "generator=markov: use frankenstein, pretrained, exhaustive, causal:MODEL or text:MODEL",
        ),
        ({"head": "train"}, "head=train needs a public text"),
        ({"text": "t.txt"}, "text= goes with head=train"),
        ({"base": "b"}, "base= goes with head=train"),
        ({"head": "train", "text": "t.txt", "generator": "pretrained"}, "name the pretrained model with base="),
        ({"head": "train", "text": "nowhere.txt"}, "nowhere.txt: no such file"),
        ({"head": "train", "text": "t.txt", "head_epochs": 0}, "head_epochs=0: expected a number from 1"),
        ({"head": "adapter", "base": "b"}, "head=adapter needs a public text"),
        (
            {"head": "prompt", "text": "t.txt"},
            "head=prompt connects a base model's head to the encoder: name the base model",
        ),
        ({"bridge_size": 4}, "bridge_size= goes with head=adapter or head=prompt: leave it out"),
        (
            {"head": "adapter", "base": "b", "text": "t.txt", "bridge_size": 0},
            "bridge_size=0: expected a number from 1",
        ),
        ({"head": "nowhere"}, "head=nowhere: cannot be loaded"),
        ({"prune": "template"}, "prune= goes with generator=text:MODEL: leave it out"),
        ({"seed": 3}, "seed= goes with head=train, adapter or prompt, or with generator=text:MODEL: leave it out, or"),
        ({"seed": "x"}, "--model_args seed='x': expected int"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(made: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LeakageError) as caught:
        load(made, **arguments)
    assert message in str(caught.value)


def test_a_public_text_without_words_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(OptionError, match="contains no text"):
        load(made, head="train", text=str(tmp_path / "empty.txt"))
