"""The visits of random descents in a list, without the models' states."""

import dataclasses

from leakage_tasks.attacks.causal.random_descents import descend


def visits_of(explorer, numbers, seed, **options):
    """Make descents; return what :func:`descend` visits, with the costs of all children."""
    visits = []

    def see(visit):
        visits.append(dataclasses.replace(visit, nodes=visit.nodes.without_memory()))

    descend(explorer, numbers, seed, see, **options)
    return visits
