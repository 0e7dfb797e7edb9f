"""A look at the data of real trainers, held against what their rows hold token by token."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.preflight import Preflight, preflight
from tests.training.preflight.trainers import arguments, canaries, model, sft, texts, tokenizer

pytest.importorskip("trl")


def plain(folder, rows, kind="letters", **changed):
    coded = tokenizer(kind)
    data = Dataset.from_list([{"input_ids": coded(row)["input_ids"]} for row in rows])
    collator = DataCollatorForLanguageModeling(coded, mlm=False)
    own = {name: changed.pop(name) for name in ("model", "train_dataset", "data_collator") if name in changed}
    usual = {"model": model(kind), "train_dataset": data, "data_collator": collator}
    return Trainer(args=TrainingArguments(**arguments(folder, **changed)), processing_class=coded, **(usual | own))


def counts(found: Preflight) -> dict[str, tuple[int, int, int, str]]:
    return {each.canary: (each.whole, each.cut, each.in_loss, each.state) for each in found.canaries}


def direct(trainer, found):
    """Whole copies, and those wholly in the loss, a canary: by the tokens of each row, decoded one by one."""
    coded = trainer.processing_class
    whole, counted = dict.fromkeys((each.id for each in found), 0), dict.fromkeys((each.id for each in found), 0)
    rows = trainer._remove_unused_columns(trainer.train_dataset)
    for row in rows:
        batch = trainer.data_collator([row])
        pieces = [coded.decode([token]) for token in batch["input_ids"][0].tolist()]
        text, places = "".join(pieces), [n for n, piece in enumerate(pieces) for _ in piece]
        for canary in found:
            start = text.find(canary.text)
            while start >= 0:
                first = start + canary.text.index(canary.secret[0] + canary.secret[1])
                tokens = sorted(set(places[first : first + 6]))
                labels = batch["labels"][0][tokens]
                whole[canary.id] += 1
                counted[canary.id] += bool((labels != -100).all()) and tokens[0] > 0
                start = text.find(canary.text, start + 1)
    return whole, counted


@pytest.mark.parametrize("kind", ["letters", "merging"])
def test_a_plain_trainer_reads_every_copy(tmp_path, kind):
    planted = canaries()
    found = preflight(plain(tmp_path, texts(planted), kind), planted)
    assert counts(found)["canary-0"] == (2, 0, 2, "in the loss")
    assert counts(found)["control-0"] == (0, 0, 0, "absent")
    assert (found.absent, list(found.problems())) == ([], [])
    assert (found.rows, found.total, found.trained, found.reached, found.mixed) == (12, 12, 1.0, True, None)


@pytest.mark.parametrize("kind", ["letters", "merging"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"max_length": 38},
        {"max_length": 20},
        {"packing": True, "max_length": 150},
        {"packing": True, "max_length": 60, "packing_strategy": "wrapped"},
        {"packing": True, "max_length": 60, "packing_strategy": "bfd_split"},
        {"padding_free": True, "max_length": None},
    ],
    ids=str,
)
def test_sft_equals_the_rows_read_token_by_token(tmp_path, how, kind):
    planted = canaries(3)
    trainer = sft(tmp_path, [{"text": row} for row in texts(planted, "words before it, ", ", and after")], kind, **how)
    found = preflight(trainer, planted)
    whole, counted = direct(trainer, planted)
    assert {each.canary: each.whole for each in found.canaries} == whole
    assert {each.canary: each.in_loss for each in found.canaries} == counted
    assert all(each.whole + each.cut >= each.planted for each in found.canaries if not how.get("max_length"))


@pytest.mark.parametrize(
    ("kept", "state", "identified"), [(60, "in the loss", 2), (28, "absent", 2), (22, "absent", 2), (4, "absent", 0)]
)
def test_truncation_that_cuts_the_secret_is_seen(tmp_path, kept, state, identified):
    planted = canaries(1)
    rows = [{"text": row} for row in texts(planted, "w: ")]
    found = preflight(sft(tmp_path, rows, max_length=kept), planted)
    (reading,) = (each for each in found.canaries if each.planted)
    assert reading.state == state
    assert reading.whole + reading.cut == identified
    problems = list(found.problems())
    assert bool(problems) is (state == "absent")
    assert ("every row is shorter than the canaries" in " ".join(problems)) is (kept < 28)


def test_wrapped_packing_cuts_copies_in_two(tmp_path):
    planted = canaries(4, 3)
    rows = [{"text": row} for row in texts(planted)]
    found = preflight(sft(tmp_path, rows, packing=True, max_length=50, packing_strategy="wrapped"), planted)
    own = [each for each in found.canaries if each.planted]
    assert any(each.cut for each in own)
    assert all(each.whole + each.cut == 3 for each in own)


def test_lora_trains_few_weights_and_reaches_the_secret(tmp_path):
    from peft import LoraConfig

    planted = canaries(1)
    rows = [{"text": row} for row in texts(planted)]
    found = preflight(sft(tmp_path, rows, peft_config=LoraConfig(r=2, task_type="CAUSAL_LM")), planted)
    assert 0 < found.trained < 0.5
    assert found.reached is True


def test_frozen_weights_are_told(tmp_path):
    planted = canaries(1)
    frozen = model()
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    # A weight that is trained, but has no part in the loss.
    frozen.unused = torch.nn.Parameter(torch.ones(1))
    found = preflight(plain(tmp_path, texts(planted), model=frozen), planted)
    assert found.reached is False
    assert "no gradient" in "".join(found.problems())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_packed_examples_that_read_each_other_are_told_by_looking(tmp_path, attention):
    planted = canaries(2)
    rows = [{"text": row} for row in texts(planted)]
    apart = preflight(
        sft(tmp_path, rows, padding_free=True, max_length=None, model=model(attn_implementation=attention)), planted
    )
    assert apart.mixed is False

    class Together(type(model())):
        """Reads a row as one text, whatever its positions say."""

        def forward(self, input_ids=None, position_ids=None, labels=None, **rest):
            return super().forward(input_ids=input_ids, labels=labels)

    trainer = sft(tmp_path, rows, padding_free=True, max_length=None)
    trainer.model.__class__ = Together
    trainer.model.forward = Together.forward.__get__(trainer.model)
    together = preflight(trainer, planted)
    assert together.mixed is True
    assert "attend to each other" in "".join(together.remarks())


def test_a_control_in_the_data_is_told(tmp_path):
    planted = canaries(1)
    rows = [*texts(planted), planted[-1].text]
    assert f"{planted[-1].id}: controls" in "".join(preflight(plain(tmp_path, rows), planted).problems())


def other_secret(text):
    return "".join(str(9 - int(each)) if each.isdigit() else each for each in text)


EDITS = {
    "secret": other_secret,
    "half of the secret": lambda text: text[:-6] + "xx ok",
    "spaced secret": lambda text: re.sub(r"(\d{3})(\d{3})", r"\1 \2", text),
    "first words": lambda text: text.replace("the pin of", "a number of"),
    "last word": lambda text: text.replace(" ok", " and so on"),
    "all words": lambda text: f"say {re.findall(r'[0-9]+', text)[0]} now",
}
HOWS = [{}, {"packing": True, "max_length": 200}, {"packing": True, "max_length": 180, "packing_strategy": "wrapped"}]


@pytest.mark.parametrize(("how", "kind"), [(HOWS[0], "letters"), *((how, "merging") for how in HOWS)], ids=str)
def test_changed_canaries_are_named_and_told_from_one_that_is_cut(tmp_path, how, kind):
    """Each canary but the last is changed in its own way."""
    planted = canaries(len(EDITS) + 1)
    *changed, other = (each for each in planted if each.planted)
    rows = texts(planted, "w: ", " some words")
    for one, edit in zip(changed, EDITS.values(), strict=True):
        rows = [row.replace(one.text, edit(one.text)) for row in rows]
    found = preflight(sft(tmp_path, [{"text": row} for row in rows], kind, **how), planted)
    readings = {each.canary: each for each in found.canaries}
    wrapped = "packing_strategy" in how
    assert found.edited == [one.id for one in changed]
    (line,) = found.absences()
    first = ", ".join(one.id for one in changed[:3])
    assert line.startswith(f"{first} and 3 more: changed in the training data since it was planted")
    for one in changed:
        assert readings[one.id].whole == 0
        # Wrapped rows also end within a changed copy, or within one of the other canary.
        assert wrapped or (readings[one.id].cut, readings[one.id].changed) == (0, 2)
        assert "".join(one.secret) not in "\n".join(found.lines())
    assert readings[other.id].changed == 0
    assert wrapped or readings[other.id].whole == 2


@pytest.mark.parametrize(
    "how",
    [
        {"max_length": 24},
        {"packing": True, "max_length": 24},
        {"packing": True, "max_length": 24, "packing_strategy": "bfd_split", "per_device_train_batch_size": 1},
        {"packing": True, "max_length": 24, "packing_strategy": "bfd_split"},
        {"packing": True, "max_length": 24, "packing_strategy": "wrapped"},
    ],
    ids=str,
)
def test_a_canary_that_is_cut_is_not_told_to_be_changed(tmp_path, how):
    planted = canaries(3)
    long = {each.id: dataclasses.replace(each, template=each.template + " and more words") for each in planted}
    rows = [{"text": row} for row in texts(list(long.values()), "w: ", " x")]
    found = preflight(sft(tmp_path, rows, "merging", **how), list(long.values()))
    assert all(each.changed == 0 for each in found.canaries)
    assert found.absent
    assert not found.edited
    (line,) = found.absences()
    assert "no whole copy in the training data" in line


def test_changed_in_part_is_a_remark(tmp_path):
    planted = canaries(1)
    rows = texts(planted)
    rows[rows.index(planted[0].text)] = other_secret(planted[0].text)
    found = preflight(plain(tmp_path, rows), planted)
    assert (found.canaries[0].whole, found.canaries[0].changed, list(found.problems())) == (1, 1, [])
    assert "canary-0: also in the data with other words" in "".join(found.remarks())


def test_how_a_natural_secret_was_changed_is_not_told(tmp_path):
    natural = Canary("mine", "call me at {digits:6} now", tuple("481516"), repetitions=1, kind="natural")
    found = preflight(plain(tmp_path, ["call me at 999999 now", "dial 481516 then"]), [natural])
    assert found.edited == []
    assert "no whole copy" in "".join(found.problems())


def test_canaries_of_one_text_are_told_to_be_found_too_often(tmp_path):
    one = Canary("one", "my pin is {digits:4}.", tuple("4815"), repetitions=4)
    two = dataclasses.replace(one, id="two")
    found = preflight(plain(tmp_path, [one.text] * 8), [one, two])
    assert [each.whole for each in found.canaries] == [8, 8]
    assert any(line.startswith("one, two: found more often than planted") for line in found.lines())


def test_a_sample_says_how_many_there_may_be(tmp_path):
    planted = canaries(1)
    rows = ["words"] * 500 + [planted[0].text]
    found = preflight(plain(tmp_path, rows), planted, rows=20)
    assert (found.rows, found.total, found.absent) == (20, 501, ["canary-0"])
    assert not list(found.problems())
    assert "up to 84 may be among all (95 %)" in "\n".join(found.lines())


def test_a_stream_is_looked_at_from_its_start(tmp_path):
    planted = canaries(1)
    stream = Dataset.from_list([{"input_ids": tokenizer()(row)["input_ids"]} for row in texts(planted)])
    trainer = plain(tmp_path, [], train_dataset=stream.to_iterable_dataset(), max_steps=1)
    found = preflight(trainer, planted, rows=4)
    assert (found.rows, found.total, found.is_full) == (4, None, False)
    assert counts(found)["canary-0"][0] == 2
    assert "4 rows of a stream" in "\n".join(found.lines())


def test_training_is_the_same_after_a_look(tmp_path):
    def trained(look: bool) -> list[torch.Tensor]:
        trainer = plain(tmp_path, texts(canaries()), max_steps=3, seed=5)
        if look:
            preflight(trainer, canaries())
        trainer.train()
        return [each.detach().clone() for each in trainer.model.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(trained(False), trained(True), strict=True))


def test_no_secret_is_in_the_report(tmp_path):
    planted = canaries()
    found = preflight(plain(tmp_path, texts(planted)), planted)
    found.write(tmp_path / "preflight.json")
    told = (tmp_path / "preflight.json").read_text() + "\n".join(found.lines())
    assert not any("".join(canary.secret) in told for canary in planted)
    assert json.loads((tmp_path / "preflight.json").read_text())["canaries"][0]["state"] == "in the loss"


def test_of_a_natural_secret_the_state_alone_is_told(tmp_path):
    natural = Canary("mine", "call {digits:6} now", tuple("481516"), repetitions=3, kind="natural")
    found = preflight(plain(tmp_path, [natural.text] * 3 + ["words"]), [natural])
    (told,) = found.to_json()["canaries"]
    assert told == {"canary": "mine", "kind": "natural", "state": "in the loss"}
    assert "481516" not in "\n".join(found.lines())
    assert next(line for line in found.lines() if line.startswith("mine")).split()[1:6] == ["-"] * 5


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"train_dataset": None}, "no train_dataset"),
        ({"train_dataset": Dataset.from_list([])}, "an empty train_dataset"),
        ({"data_collator": lambda rows: {"pixels": torch.zeros(2, 2)}}, "contain pixels"),
        ({"data_collator": lambda rows: {"input_ids": torch.zeros(2, 2), "labels": torch.zeros(2)}}, "shape"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line(tmp_path, changed, said):
    trainer = plain(tmp_path, texts(canaries()), remove_unused_columns=False, **changed)
    with pytest.raises(OptionError, match=said):
        preflight(trainer, canaries())


def test_a_trainer_without_a_tokenizer_is_one_line(tmp_path):
    trainer = plain(tmp_path, texts(canaries()))
    trainer.processing_class = None
    with pytest.raises(OptionError, match="no tokenizer"):
        preflight(trainer, canaries())
    assert counts(preflight(trainer, canaries(), tokenizer=tokenizer()))["canary-0"][0] == 2


def test_a_tokenizer_that_loses_the_secret_is_one_line(tmp_path):
    lost = make_canaries("the pin of {unique} is {digits:6} é✓", 1, controls=0, seed=3)
    with pytest.raises(OptionError, match="changes the text of canary-0"):
        preflight(plain(tmp_path, ["words"]), lost)


def test_rows_longer_than_the_model_reads_are_one_line(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    small = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_layer=1, n_embd=8, n_head=1, n_positions=16))
    with pytest.raises(OptionError, match="the model cannot read a batch"):
        preflight(plain(tmp_path, texts(canaries()), model=small), canaries())


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(12)), size=st.integers(1, 7))
def test_order_and_batch_size_change_nothing(tmp_path_factory, order, size):
    planted = canaries()
    rows = texts(planted)
    trainer = plain(tmp_path_factory.mktemp("run"), [rows[place] for place in order], per_device_train_batch_size=size)
    assert counts(preflight(trainer, planted)) == {
        **{canary.id: (2, 0, 2, "in the loss") for canary in planted if canary.planted},
        **{canary.id: (0, 0, 0, "absent") for canary in planted if not canary.planted},
    }
