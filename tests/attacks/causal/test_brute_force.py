"""What brute force says it took; its guesses are tested in test_scoring.py."""

from leakage_tasks.attacks import run_attack
from tests.attacks.causal.test_sampled import Scores, canary


def test_every_text_is_a_node_of_its_own():
    target = Scores()
    found = run_attack("brute-force", target, [canary(41)])[0]
    assert (found.extra, found.model_calls, target.asked) == ({"nodes": 1000}, 1000, 1000)
    assert (found.proven, found.place) == (10, None)
