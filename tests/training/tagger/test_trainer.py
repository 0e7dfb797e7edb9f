"""Training a tagger: against a loop written out here, scores row by row, early stopping, seeds, saved and loaded."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from seqeval.metrics import f1_score
from transformers import AutoModel, AutoTokenizer

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.data.utterances import Utterance
from leakage_tasks.models import register
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.models.nlu_tagger import NLUTagger
from leakage_tasks.training.dp.private import DpConfig
from leakage_tasks.training.rows import bucketed
from leakage_tasks.training.tagger.model import fresh_tagger
from leakage_tasks.training.tagger.trainer import NLURecipe, score_tagger, train_tagger
from tests.training.tagger.utterances import made

SMALL = NLURecipe(embedding_size=8, hidden_size=6, epochs=3, batch_size=8, learning_rate=2e-2)
ROWS, CHECKS = made(90), made(30, seed=1)
STRANGE = Utterance(("play", "some", "jazz"), ("O", "O", "B-genre"), "music")


def trained(recipe=SMALL, rows=ROWS, checks=CHECKS, **more):
    return train_tagger(rows, checks, recipe, device="cpu", **more)


@pytest.fixture(scope="module")
def run():
    return trained(replace(SMALL, epochs=6))


@pytest.fixture(scope="module")
def spelling():
    """A model with a character layer, after one epoch."""
    return trained(replace(SMALL, epochs=1, characters=True))


def weights(model):
    return list(model.state_dict().values())


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(weights(one.model), weights(other.model), strict=True))


def alone(model, tokenizer, row):
    """A row's loss in nats, its likeliest intent and tags, from the model reading nothing else."""
    config, inputs = model.config, nlu_inputs([row.words], tokenizer, model.config)
    labels, tags = torch.tensor([config.label2id[row.intent]]), torch.tensor([[config.tags.index(t) for t in row.tags]])
    with torch.no_grad():
        output = model(**inputs, labels=labels, tags=tags)
        path = model.decode(output.emissions, inputs["attention_mask"].bool())[0]
    return output.loss.item(), config.id2label[output.logits.argmax().item()], [config.tags[tag] for tag in path]


def test_it_learns(run):
    assert run.history[-1].training < run.history[0].training / 4
    assert run.history[-1].intent_accuracy > 0.9
    assert run.history[-1].slot_f1 > 0.9


def test_an_epoch_is_what_a_loop_written_by_hand_does():
    recipe = replace(SMALL, epochs=1)
    model, tokenizer = fresh_tagger(ROWS, (), recipe, (), seed=3)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    losses = []
    for batch in bucketed([len(row.words) for row in ROWS], recipe.batch_size, random.Random("rows:3")):
        rows = [ROWS[place] for place in batch]
        inputs = nlu_inputs([row.words for row in rows], tokenizer, model.config)
        tags = torch.zeros_like(inputs["input_ids"])
        for place, row in enumerate(rows):
            tags[place, : len(row.tags)] = torch.tensor([model.config.tags.index(tag) for tag in row.tags])
        labels = torch.tensor([model.config.label2id[row.intent] for row in rows])
        loss = model(**inputs, labels=labels, tags=tags).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        losses.append(loss.item() * len(rows))
    ours = trained(recipe, checks=(), seed=3)
    assert ours.history[0].training == pytest.approx(sum(losses) / len(ROWS), rel=1e-5)
    expected = model.state_dict()
    expected["embedding.weight"][1] = expected["embedding.weight"][2:].mean(dim=0)
    for name, weight in ours.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["run", "spelling"])
def test_scores_are_those_of_the_rows_one_by_one(kind, request):
    tagger = request.getfixturevalue(kind)
    told = [alone(tagger.model, tagger.tokenizer, row) for row in CHECKS]
    last = tagger.history[-1]
    assert last.validation == pytest.approx(sum(cost for cost, _, _ in told) / len(told), rel=1e-5)
    right = [intent == row.intent for (_, intent, _), row in zip(told, CHECKS, strict=True)]
    assert last.intent_accuracy == sum(right) / len(right)
    assert last.slot_f1 == pytest.approx(f1_score([list(row.tags) for row in CHECKS], [path for _, _, path in told]))


def test_scores_do_not_depend_on_the_batch_size_or_the_order(spelling):
    whole = score_tagger(spelling.model, spelling.tokenizer, CHECKS)
    other = score_tagger(spelling.model, spelling.tokenizer, CHECKS[::-1], batch_size=7)
    assert other.loss == pytest.approx(whole.loss, rel=1e-5)
    assert replace(other, loss=0.0) == replace(whole, loss=0.0)


def test_scores_of_rows_whose_intent_or_tags_the_model_lacks(run):
    strange_tag = Utterance(("call", "anna"), ("O", "B-woman"), "call")
    found = score_tagger(run.model, run.tokenizer, [*CHECKS, STRANGE, strange_tag])
    known = score_tagger(run.model, run.tokenizer, CHECKS)
    assert found.loss == pytest.approx(known.loss, rel=1e-5)
    assert (found.rows, found.priced) == (32, 30)
    assert found.intents_right == known.intents_right + 1  # that of the second is "call" and found
    assert found.slot_f1 < known.slot_f1
    assert score_tagger(run.model, run.tokenizer, [STRANGE]).loss is None


def test_rows_without_slots_where_none_is_found_are_all_right(run):
    plain = Utterance(("please", "now"), ("O", "O"), "call")
    assert alone(run.model, run.tokenizer, plain)[2] == ["O", "O"]
    assert score_tagger(run.model, run.tokenizer, [plain]).slot_f1 == 1.0


def test_scoring_leaves_the_model_in_the_mode_it_is_in(run):
    run.model.train()
    score_tagger(run.model, run.tokenizer, CHECKS)
    assert run.model.training
    run.model.eval()


def test_the_same_arguments_give_the_same_model_and_leave_the_random_state_alone():
    recipe = replace(SMALL, epochs=2, dropout=0.3)
    before = torch.get_rng_state()
    one = trained(recipe)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert same(one, trained(recipe, on_epoch=lambda *_: torch.rand(3)))
    assert not same(one, trained(recipe, seed=1))
    assert not same(one, trained(replace(recipe, dropout=0.0)))


@pytest.mark.parametrize("private", [None, DpConfig(noise_multiplier=0.01, delta=1e-3)], ids=["plain", "dp-sgd"])
def test_early_stopping_keeps_the_epoch_of_the_lowest_validation_loss(private):
    """The promise of DP-SGD is for all epochs that were trained."""
    # Intents moved on by one: what is learnt makes them worse, so an early epoch is the best.
    wrong = [replace(row, intent=other.intent) for row, other in zip(CHECKS, [*CHECKS[1:], CHECKS[0]], strict=True)]
    seen = {}

    def note(epoch, model, history):
        assert len(history) == epoch
        seen[epoch] = [weight.clone() for weight in weights(model)]

    stopped = trained(replace(SMALL, epochs=15, patience=2), checks=wrong, private=private, on_epoch=note)
    losses = [scores.validation for scores in stopped.history]
    assert losses.index(min(losses)) + 1 == stopped.best_epoch
    assert len(losses) == stopped.best_epoch + 2 < 15
    assert all(torch.equal(a, b) for a, b in zip(weights(stopped.model), seen[stopped.best_epoch], strict=True))
    assert not stopped.model.training
    if private is not None:
        assert stopped.guarantee.steps == len(losses) * round(len(ROWS) / SMALL.batch_size)
        assert stopped.guarantee.epsilon() == stopped.history[-1].epsilon


@pytest.mark.parametrize("checks", [CHECKS, []], ids=["with validation", "without"])
@pytest.mark.parametrize("rows", [90, 8], ids=["many steps", "one step"])
def test_training_that_ends_in_no_numbers_is_an_error(rows, checks):
    with pytest.raises(LeakageError, match=r"not finite after epoch 1: lower --learning-rate \(it is 1e\+39\)"):
        trained(replace(SMALL, learning_rate=1e39), ROWS[:rows], checks)


def test_a_model_too_large_for_memory_is_one_line():
    with pytest.raises(LeakageError, match="out of memory .*can't allocate.*: lower --batch-size, --embedding-size"):
        trained(replace(SMALL, embedding_size=10**13))


def test_without_patience_the_last_epoch_is_kept(run):
    assert run.best_epoch == len(run.history) == 6


def test_words_intents_and_tags_are_those_of_the_training_rows_and_in_order():
    rows = [
        Utterance(("go", "to", "oslo"), ("O", "O", "B-place"), "travel"),
        Utterance(("eat", "in", "oslo"), ("O", "O", "I-city"), "food"),
    ]
    knows = trained(replace(SMALL, epochs=1), rows, rows, words=("9", "go"))
    by_id = [knows.tokenizer.convert_ids_to_tokens(number) for number in range(len(knows.tokenizer))]
    assert by_id == ["<pad>", "<unk>", "9", "eat", "go", "in", "oslo", "to"]
    assert knows.model.config.tags == ["O", "B-place", "I-city", "I-place"]
    assert knows.model.config.id2label == {0: "food", 1: "travel"}
    assert knows.model.config.label2id == {"food": 0, "travel": 1}


def test_unknown_words_are_read_as_the_mean_of_the_known_ones(run):
    embeddings = run.model.embedding.weight
    torch.testing.assert_close(embeddings[1], embeddings[2:].mean(dim=0))


def test_an_unknown_word_that_the_rows_hold_is_learnt():
    rows = [replace(row, words=("<unk>", *row.words[1:])) for row in ROWS[:16]]
    recipe = replace(SMALL, epochs=1)
    first = fresh_tagger(rows, (), recipe, (), seed=0)[0].embedding.weight
    last = trained(recipe, rows, ()).model.embedding.weight
    # A few steps of Adam go no further than its rate each.
    assert 0 < (last[1] - first[1]).abs().max() <= 1.01 * 2 * recipe.learning_rate


def test_validation_rows_that_cannot_be_priced_are_left_out_of_the_loss_with_a_warning(run, caplog):
    found, usual = trained(replace(SMALL, epochs=2), checks=[*CHECKS, STRANGE]).history[-1], run.history[1]
    assert found.validation == pytest.approx(usual.validation, rel=1e-5)
    assert found.intent_accuracy == pytest.approx(usual.intent_accuracy * 30 / 31)
    (record,) = caplog.records
    assert record.getMessage().startswith("1 of 31 validation utterances")
    assert "number 31, has intent 'music'" in record.getMessage()


def test_with_dp_sgd_epsilon_is_told_and_the_model_is_an_ordinary_one():
    private = trained(replace(SMALL, epochs=2, characters=True), private=DpConfig(noise_multiplier=1.0, delta=1e-3))
    first, second = (scores.epsilon for scores in private.history)
    assert 0 < first < second == private.guarantee.epsilon()
    model = NLUTagger(private.model.config).eval()
    model.load_state_dict(private.model.state_dict())
    assert alone(model, private.tokenizer, CHECKS[0]) == alone(private.model, private.tokenizer, CHECKS[0])


def test_ordinary_training_promises_nothing(run):
    assert run.guarantee is None
    assert {scores.epsilon for scores in run.history} == {None}


def test_saved_it_is_what_transformers_loads(spelling, tmp_path):
    register()
    spelling.save(tmp_path / "tagger")
    spelling.save(tmp_path / "tagger")
    assert [path.name for path in tmp_path.iterdir()] == ["tagger"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tagger")
    for kind in (AutoModel, NLUTagger):
        model = kind.from_pretrained(tmp_path / "tagger")
        assert type(model) is NLUTagger
        assert model.config.tags == spelling.model.config.tags
        for row in CHECKS[:5]:
            assert alone(model, tokenizer, row) == alone(spelling.model, spelling.tokenizer, row)


def test_a_model_that_cannot_be_saved_whole_is_not_saved(run, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(run.tokenizer, "save_pretrained", fail)
    with pytest.raises(Exception, match="no space"):
        run.save(tmp_path / "tagger")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"layers": -1}, "layers is -1"),
        ({"dropout": 1.0}, "dropout is 1"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": float("inf")}, "learning_rate is inf"),
        ({"frozen": True}, "give embeddings too"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(bad, named):
    with pytest.raises(OptionError, match=named):
        NLURecipe(**bad)


@pytest.mark.parametrize(
    ("rows", "checks", "named"),
    [
        ([], CHECKS, "no utterances to train on"),
        (ROWS, [], "give validation utterances too"),
        (ROWS, [STRANGE], "1 of 1 validation utterances .* intent 'music'.*patience has no loss"),
        ([replace(ROWS[0], words=(), tags=())], CHECKS, "has no words"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(rows, checks, named):
    with pytest.raises(OptionError, match=named):
        trained(replace(SMALL, patience=1), rows, checks)


def test_no_rows_to_score_are_refused(run):
    with pytest.raises(OptionError, match="there are no utterances"):
        score_tagger(run.model, run.tokenizer, [])
