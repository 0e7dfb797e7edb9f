"""Text at hand: the same each time, and nothing of the held-out part in the training part."""

from __future__ import annotations

from leakage_tasks.research.victims.corpus import pydoc_topics


def test_the_same_seed_gives_the_same_text():
    assert pydoc_topics() == pydoc_topics()
    assert pydoc_topics(seed=1).held_out != pydoc_topics().held_out


def test_the_held_out_part_has_its_share_and_is_news():
    corpus = pydoc_topics(held_out=0.1)
    share = len(corpus.held_out) / (len(corpus.held_out) + len(corpus.training))
    assert 0.09 <= share < 0.13
    assert len(corpus.training) > 200_000
    known = set(corpus.training.split("\n"))
    lines = [line for line in corpus.held_out.split("\n") if len(line) >= 40]
    assert sum(line in known for line in lines) / len(lines) < 0.1


def test_a_training_text_of_a_given_size_leaves_the_held_out_one_as_it_is():
    corpus = pydoc_topics(characters=100_000)
    assert 90_000 < len(corpus.training) <= 100_200
    assert corpus.held_out == pydoc_topics().held_out


def test_whole_topics_are_kept_together_and_the_alphabet_is_complete():
    from pydoc_data.topics import topics

    corpus = pydoc_topics()
    whole = [name for name, text in topics.items() if text.rstrip("\n") in corpus.training]
    held = [name for name, text in topics.items() if text.rstrip("\n") in corpus.held_out]
    assert "types" in whole + held
    assert set(corpus.alphabet) == set(corpus.training + corpus.held_out)
    assert {"\n", "0"} <= set(corpus.alphabet)
