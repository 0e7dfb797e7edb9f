"""One guess, by logits or from what a model writes."""

import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.tokens import token_paths as layout
from tests.attacks.causal.test_sampled import Scores
from tests.oracles import letters, merging, tiny_gpt2


class Writer(Scores):
    """A target that always writes the same."""

    def __init__(self, text):
        super().__init__(lambda text: 5.0)
        self.text = text

    def complete(self, text, characters):
        self.given = text
        return self.text[: characters + 1]


def test_the_likeliest_digit_each_time():
    model, tokenizer = tiny_gpt2(letters()), letters()
    text = "the pin is "
    for _ in range(4):
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
        logits = model(ids).logits[0, -1].detach()
        text += max("0123456789", key=lambda digit: float(logits[tokenizer(digit)["input_ids"][0]]))
    canary = Canary("c", "the pin is {digits:4}.", ("0", "1", "2", "3"))
    found = run_attack("greedy", CausalTarget(model, tokenizer), [canary])[0]
    assert found.guesses[0].text == text + "."
    assert len(found.guesses) == 1


@pytest.mark.parametrize(
    ("written", "correct"),
    [
        (" 12-ab", (True, True, True, True)),
        (" 19-ab", (True, False, True, True)),
        (" 12", (True, True, False, False)),
        ("", (False, False, False, False)),
    ],
)
def test_a_continuation_is_read_slot_by_slot(written, correct):
    target = Writer(written)
    found = run_attack("greedy", target, [Canary("c", "pin {digits:2}-{letters:2}", ("1", "2", "a", "b"))])[0]
    assert target.given == "pin"
    assert found.correct == correct
    assert found.place == (1 if all(correct) else None)


def test_auto_on_a_large_space_guesses_where_nothing_else_is_possible():
    found = run_attack(
        "auto", Writer(" 123456789"), [Canary("c", "pin {digits:9}", tuple("123456789"))], goal="extraction"
    )[0]
    assert (found.attack, found.place) == ("greedy", 1)
    small = run_attack("auto", Writer(""), [Canary("c", "pin {digits:2}", tuple("12"))], goal="extraction")[0]
    assert small.attack == "brute-force"


def test_a_writer_needs_text_to_go_on_from():
    with pytest.raises(TargetError, match="needs text before the first slot"):
        run_attack("greedy", Writer("12"), [Canary("c", " {digits:2}", tuple("12"))])


@pytest.mark.parametrize(("written", "calls", "nodes"), [(" 12", 2, 1), (" 1", 1, 0)])
def test_what_is_written_prices_nothing_until_it_is_scored(written, calls, nodes):
    found = run_attack("greedy", Writer(written), [Canary("c", "pin {digits:2}", ("1", "2"))])[0]
    assert (found.model_calls, found.extra["nodes"]) == (calls, nodes)


def test_a_greedy_walk_reads_a_node_a_token():
    canary = Canary("c", "the pin is {digits:4}.", ("0", "1", "2", "3"))
    found = run_attack("greedy", CausalTarget(tiny_gpt2(letters()), letters()), [canary])[0]
    assert (found.model_calls, found.extra) == (5, {"nodes": 5})


@pytest.mark.parametrize("attack", ["greedy", "beam", "sample-tokens", "shortest-path"])
def test_a_model_of_damaged_weights_does_not_look_safe(attack):
    model = tiny_gpt2.__wrapped__(letters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(TargetError, match="look for damaged weights"):
        run_attack(
            attack,
            CausalTarget(model, letters()),
            [Canary("c", "pin {digits:4}", tuple("0123"))],
            goal="extraction",
        )


@pytest.mark.parametrize("budget", [5, 10, 100])
def test_looking_wider_stays_within_the_budget(budget, monkeypatch):
    """On this model the one likeliest path, and the four, spell no filling in its canonical tokens."""
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    canary = Canary("c", "pin {digits:6}", tuple("123456"))
    found = run_attack("greedy", CausalTarget(tiny_gpt2(merging(), seed=1), merging()), [canary], budget=budget)[0]
    assert 5 < found.model_calls <= budget + 1
    assert bool(found.guesses) == (budget == 100)
