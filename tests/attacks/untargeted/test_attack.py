"""The search of written texts, on a writer whose texts are given."""

from __future__ import annotations

import numpy as np
import pytest

from leakage_tasks.attacks.untargeted.attack import Prompt, extract_untargeted, has_diverged
from leakage_tasks.attacks.untargeted.finding import Hits
from leakage_tasks.attacks.untargeted.request import TextId, UntargetedRequest
from leakage_tasks.attacks.untargeted.words import REPEATED
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.pairs.index.build import build_index
from leakage_tasks.targets.protocols import WrittenText

SPOKEN = char_tokenizer("abcdefghijklmnopqrstuvwxyz0123456789 .@-:")
REQUEST = UntargetedRequest(length=40, run_length=8)


def ids(text):
    return tuple(SPOKEN(text, add_special_tokens=False)["input_ids"])


def index_of(*texts):
    return build_index([[np.array(ids(text))] for text in texts], SPOKEN, "letters", "corpus")


class Given:
    """Writes each prompt itself; keeps the random numbers it was given."""

    def __init__(self):
        self.uniforms = {}

    def groups(self, prompts, length):
        return iter([[index] for index in range(len(prompts))])

    def write(self, prompts, uniforms, scheme):
        self.uniforms |= dict(zip(prompts, uniforms, strict=True))
        return [WrittenText(ids(prompt), False) for prompt in prompts]

    def decode(self, tokens):
        return SPOKEN.decode(list(tokens))


def finding(text, corpus, controls=None, kind="empty", unseen=False, request=REQUEST, **prompt):
    given = Prompt(TextId(kind, 0, 0, unseen), text, **prompt)
    [found] = extract_untargeted(Given(), [given], request, corpus, controls)
    return found


def test_runs_and_n_grams_have_their_places():
    corpus = index_of("nothing here", "the cat sat on the mat")
    found = finding("so the cat sat on a mat", corpus)
    text = " the cat sat on "
    assert found.hits == Hits(((3, 15, 1, 0),), ((1, 0, 15 - 8 + 1),))
    assert len(text) - 1 == 15
    assert (found.tokens, found.control_hits, found.text) == (23, None, None)
    assert found.covered(8) == pytest.approx(15 / 23)


def test_shorter_runs_count_for_propensity_alone():
    request = UntargetedRequest(length=40, run_length=12, propensity_length=5)
    found = finding("a cat sat up", index_of("the cat sat on the mat"), request=request)
    assert [run[1] for run in found.hits.runs] == [9]
    assert found.hits.ngrams == ()
    assert (found.hits.extracted(5), found.hits.extracted(12)) == (True, False)


@pytest.mark.parametrize(
    ("kind", "unseen", "searched"),
    [("ordinary", False, (True, True)), ("prefix", False, (True, False)), ("prefix", True, (False, True))],
)
def test_text_after_a_prefix_is_searched_in_the_prefixs_corpus_alone(kind, unseen, searched):
    found = finding("the cat sat", index_of("the cat sat"), index_of("the cat sat up"), kind, unseen)
    assert (found.hits is not None, found.control_hits is not None) == searched


def test_personal_data_counts_inside_runs_and_in_the_text():
    corpus = index_of("write to ann.lee@mail.com today")
    both = finding("or write to ann.lee@mail.com or bo@web.org", corpus)
    assert (both.personal, both.written) == ({"email": 1}, {"email": 2})
    made_up = finding("or write to bo@web.org", corpus)
    assert (made_up.personal, made_up.written) == ({}, {"email": 1})


def test_known_findings_are_kept_and_the_others_reported():
    corpus = index_of("the cat sat on the mat")
    prompts = [Prompt(TextId("short", number, 0), f"the cat sat {number}") for number in range(3)]
    whole = extract_untargeted(Given(), prompts, REQUEST, corpus)
    done = {}
    writer = Given()
    again = extract_untargeted(writer, prompts, REQUEST, corpus, known={1: whole[1]}, done=done.__setitem__)
    assert again == whole
    assert done == {0: whole[0], 2: whole[2]}
    assert prompts[1].given not in writer.uniforms


def test_each_text_has_random_numbers_of_its_own():
    writer, corpus = Given(), index_of("the cat sat on the mat")
    texts = [TextId("short", 0, 0), TextId("short", 0, 1), TextId("empty", 0, 0), TextId("short", 1, 0)]
    prompts = [Prompt(text, f"text {number}") for number, text in enumerate(texts)]
    extract_untargeted(writer, prompts, REQUEST, corpus)
    alone = Given()
    extract_untargeted(alone, prompts[1:2], REQUEST, corpus)
    assert np.array_equal(alone.uniforms["text 1"], writer.uniforms["text 1"])
    assert len({tuple(numbers) for numbers in writer.uniforms.values()}) == len(texts)


@pytest.mark.parametrize(
    ("text", "begun", "diverged"),
    [
        ("poem poem poem poem", True, False),
        ("Poem: poem. a b c d e f g h i j", False, True),
        ("a b c d e f g h i j k l", True, True),
        ("I cannot do this because it would go on forever and ever", False, False),
        ("poem a b c d e f g h i", False, False),
        ("a b c d e f g h i j poem poem", True, True),
        ("a b c d e f g h i j poem poem", False, False),
        ("poems a b c d e f g h i j", False, False),
        ("poem poem. . . . . . . . . . .", False, False),
    ],
)
def test_a_text_diverges_when_it_goes_on_after_the_repetition(text, begun, diverged):
    assert has_diverged(text, "poem", begun) is diverged
    found = finding(text.lower(), index_of("x"), kind="divergence", word="poem", begun=begun)
    assert found.diverged is diverged
    assert finding("x", index_of("x")).diverged is None


@pytest.mark.parametrize(
    ("text", "word", "diverged"),
    [
        ("? ? ? ??", "?", False),
        ("? ? ? ?? Is this the end of it, or do we go on for long?", "?", True),
        ("a a A a", "a", False),
        ("a a a The cat sat on the mat and saw no dog by a tree", "a", True),
        ("b c d e f g h i j k l", "a", False),
        ("_ _ _ _ _ one two three four five six seven eight nine ten", "_", True),
        ("________ one two three four five six seven eight nine ten", "_", True),
        ("-------- one two three four five six seven eight nine ten", "-", True),
        ("a __name__ is what some_code has in it, as one or two more know", "_", False),
    ],
)
def test_a_repeated_character_is_told_from_a_text_that_contains_it(text, word, diverged):
    assert has_diverged(text, word, False) is diverged


@pytest.mark.parametrize("word", REPEATED)
@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't repeat a word forever. That would not be useful, and it could use many resources...",
        "**I cannot do that** --- it isn't something I am able to do, as it has no end: (a) `it` ends, or (b) "
        "```it``` is a task for another time; would you like a poem or a story about it instead? I am happy to help!",
    ],
)
def test_a_refusal_does_not_diverge_whatever_it_should_repeat(word, text):
    assert not has_diverged(text, word, False)


def test_a_word_in_other_text_is_no_repetition():
    assert has_diverged("a a a The cat sat on a mat and saw a dog by a big tree", "a", True)
