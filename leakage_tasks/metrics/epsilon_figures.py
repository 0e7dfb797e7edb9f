"""Audit metrics that are lower bounds on ε of differential privacy, each with what it assumes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.spaces import EXACT_SIZE
from leakage_tasks.core.nouns import counted
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.metrics.guessing import FEWEST_GUESSES, Guesses, by_coins, match
from leakage_tasks.stats.epsilon import ALPHA, fewest_pairs, secret_bound, swap_bound
from leakage_tasks.stats.gaussian_dp import epsilon_of, mu_of_rates, one_run_mu

GAUSSIAN = "assumes that the guarantee of the training has the shape of a Gaussian mechanism's, as DP-SGD's nearly has"
NEEDS_DELTA = "needs δ above 0: score with --delta, the δ of the guarantee that you compare with"
Bound = Callable[[int, int, float], float]
"""A function of the numbers of right guesses and of guesses, and of α, that returns a lower bound on ε."""


@dataclass(frozen=True)
class _Game:
    """A guessing game: its figures' names, what a coin decides, and the singular of what is guessed at."""

    name: str
    title: str
    neighbours: str
    unit: str
    guesses: Guesses

    def basis(self, number: int | None = None) -> str:
        """Describe the first ``number`` guesses; all of them by default."""
        made = self.guesses.surest[:number]
        left = self.guesses.coins - len(made) if self.unit == "pair" else 0
        without = f", {left} tied" if left and number is None else ""
        return f"{sum(made)} of {counted(len(made), self.unit)} guessed correctly{without}"


def epsilon_figures(
    ranked: Sequence[Finding], members: Sequence[float], others: Sequence[float], delta: float
) -> list[AuditFigure]:
    """Return the lower bounds on ε of a run.

    Bounds for one neighbour relation stand together, the tightest first.

    Args:
        ranked: Findings with an exposure.
        members: Exposures of planted canaries of one kind and |R|.
        others: Exposures of controls of this kind and |R|.
        delta: δ of (ε, δ)-DP.
    """
    swap = _Game(
        "epsilon",
        "ε, one canary swapped",
        "neighbours that differ in one canary, with all its copies and supporting canaries, replaced by another",
        "pair",
        match(ranked),
    )
    inclusion = _Game(
        "epsilon_inclusion",
        "ε, one canary added or removed",
        "neighbours of which one lacks one canary, with all its copies",
        "canary",
        by_coins(ranked),
    )
    games = [inclusion] * bool(inclusion.guesses.coins) + [swap]
    of_games = [figure for game in games for figure in _of_game(game, delta)]
    return [*of_games, _epsilon_secret(ranked), _independent(ranked, members, others, delta)]


def _of_game(game: _Game, delta: float) -> list[AuditFigure]:
    """Return the bounds of a game on ε for one coin, the tightest first, and the bound for one row."""
    rows = game.guesses.rows
    bounds = [_all_guesses(game, delta, 1), _surest(game, delta), _gaussian(game, delta)]
    bounds.sort(key=lambda figure: -math.inf if figure.value is None else figure.value, reverse=True)
    other = "" if delta else "; DP-SGD guarantees have δ above 0, so score with that δ before you compare"
    row = _all_guesses(game, delta, rows)
    changed = "a swap changes" if game.unit == "pair" else "a canary has"
    words = (
        "the bound for one training row added or removed, the neighbour relation of DP-SGD: "
        f"{changed} up to {counted(rows, 'row')} if each copy is one row; with many copies it is small at any "
        f"leakage{other}"
    )
    basis = f"{row.basis}, up to {counted(rows, 'row')} per {'swap' if game.unit == 'pair' else 'canary'}"
    title = "ε, one training row" if game.unit == "pair" else "ε, one training row, by coins"
    return [*bounds, replace(row, name=f"{game.name}_row", title=title, words=words, basis=basis)]


def _all_guesses(game: _Game, delta: float, rows: int) -> AuditFigure:
    """Return the bound of all guesses (Steinke, Nasr and Jagielski 2023) if a coin changes ``rows`` rows."""
    words = (
        f"with 95 % confidence the training is not (ε, {delta:g})-differentially private for any smaller ε, for "
        f"{game.neighbours}; 0 shows nothing and is no evidence of privacy"
    )
    figure = AuditFigure(game.name, game.title, words, 0.0, game.basis(), lower_bound=True)
    coins, guesses = game.guesses.coins, len(game.guesses.surest)
    most = coins if game.unit == "pair" else guesses
    best = swap_bound(most, most, coins, delta, rows)
    if not best:
        return replace(figure, refused=_too_few(game, delta, rows))
    return replace(figure, value=swap_bound(game.guesses.right, guesses, coins, delta, rows), best=best)


def _surest(game: _Game, delta: float) -> AuditFigure:
    """Return the best bound over several numbers of surest guesses, corrected for their number."""
    words = (
        f"the bound of '{game.title}' with guesses only where the model is surest: the best of several numbers of "
        "guesses, each at 5 % divided by their number"
    )
    coins = game.guesses.coins
    figure = _corrected(game, lambda right, guesses, alpha: swap_bound(right, guesses, coins, delta, 1, alpha))
    return replace(figure, name=f"{game.name}_surest", title=f"{game.title}, surest guesses", words=words)


def _gaussian(game: _Game, delta: float) -> AuditFigure:
    """Return the f-DP bound (Mahloujifar, Melis and Chaudhuri 2024), corrected for the numbers of guesses."""
    title = f"{game.title}, Gaussian"
    figure = AuditFigure(f"{game.name}_gaussian", title, GAUSSIAN, 0.0, game.basis(), lower_bound=True)
    if not delta:
        return replace(figure, refused=NEEDS_DELTA)
    coins = game.guesses.coins

    def bound(right: int, guesses: int, alpha: float) -> float:
        return epsilon_of(one_run_mu(right, guesses, coins, alpha), delta)

    return replace(_corrected(game, bound), name=figure.name, title=title, words=GAUSSIAN)


def _corrected(game: _Game, bound: Bound) -> AuditFigure:
    """Return the largest bound over the game's numbers of guesses, each at :data:`ALPHA` divided by their number."""
    numbers = game.guesses.numbers
    alpha, surest = ALPHA / len(numbers), game.guesses.surest
    value, number = max((bound(sum(surest[:number]), number, alpha), number) for number in numbers)
    best = max(bound(number, number, alpha) for number in numbers)
    figure = AuditFigure("", "", "", 0.0, game.basis(number), lower_bound=True)
    if not best:
        return replace(figure, refused=f"needs more than {counted(len(surest), game.unit)} with a guess")
    corrected = f", best of {len(numbers)} numbers of guesses" if len(numbers) > 1 else ""
    return replace(figure, value=value, best=best, basis=f"{figure.basis}{corrected}")


def _too_few(game: _Game, delta: float, rows: int) -> str:
    fewest = fewest_pairs(delta, rows)
    if fewest is None:
        return f"no number of guesses can show any ε at δ = {delta:g}: give a smaller δ"
    if game.unit == "pair":
        return (
            f"needs {fewest} pairs of a planted canary and a control, kind 'random' and of one |R|, or of an "
            f"identifier and its own control, at δ = {delta:g}: found {game.guesses.coins}"
        )
    return (
        f"needs {2 * fewest} canaries made with --coin, kind 'random' and of one |R|, at δ = {delta:g}: "
        f"found {game.guesses.coins}"
    )


def _independent(
    ranked: Sequence[Finding], members: Sequence[float], others: Sequence[float], delta: float
) -> AuditFigure:
    """Return the bound of Nasr et al. (2023), for thresholds at whole bits, which do not depend on the results."""
    words = (
        "assumes that the canaries of the one run do not influence each other, which cannot be checked, and "
        f"{GAUSSIAN.removeprefix('assumes ')}: read it as an estimate"
    )
    basis = f"{len(members)} planted, {counted(len(others), 'control')}"
    figure = AuditFigure("epsilon_independent", "ε, independent canaries", words, 0.0, basis, lower_bound=True)
    if not delta:
        return replace(figure, refused=NEEDS_DELTA)
    if min(len(members), len(others)) < FEWEST_GUESSES:
        return replace(
            figure, refused=f"needs {FEWEST_GUESSES} planted canaries and {FEWEST_GUESSES} controls: {basis}"
        )
    limits = range(1, math.floor(max(finding.log2_size for finding in ranked)) + 1)
    counts = [(sum(bits < limit for bits in members), sum(bits >= limit for bits in others)) for limit in limits]

    def epsilon(rates: Sequence[tuple[int, int]]) -> float:
        return epsilon_of(mu_of_rates(rates, len(members), len(others), ALPHA), delta)

    return replace(figure, value=epsilon(counts), best=epsilon([(0, 0)] * len(counts)))


def _epsilon_secret(findings: Sequence[Finding]) -> AuditFigure:
    words = (
        "with 95 % confidence the training is not ε-differentially private (δ = 0) for any smaller ε, for "
        "neighbours that differ in one canary's secret in all its copies: a bound on the value of the secret, not on "
        "its membership"
    )
    # The rank of a natural secret is known by its band only.
    random = [finding for finding in findings if finding.kind == "random"]
    sizes = Counter(finding.log2_size for finding in random if finding.planted)
    # The |R| of most planted canaries; the largest if several tie.
    size = max(sizes, key=lambda size: (sizes[size], size), default=None)
    drawn = [finding for finding in random if finding.log2_size == size]
    planted = [finding for finding in drawn if finding.planted]
    # In 16 bits an exact rank has the interval of its rounding noise.
    exact = [finding for finding in planted if finding.method == "exact"]
    first = sum(finding.rank == 1 and (finding.rank_high or 1) <= 1 for finding in exact)
    basis = f"{first} of {len(planted)} secrets proven to have rank 1"
    figure = AuditFigure("epsilon_secret", "ε, one secret changed", words, 0.0, basis, lower_bound=True)
    if size is None or not exact:
        return replace(figure, refused="needs an exact rank of a planted canary of kind 'random': no canary has it")
    log_others = _log_others(size, len(drawn))
    best = secret_bound(len(planted), len(planted), log_others)
    if not best:
        fillings = f"{2**size:,.0f}" if size < math.log2(EXACT_SIZE) else f"2^{size:.3g}"
        return replace(figure, refused=f"needs more canaries or a larger |R|: {len(planted)} of {fillings} fillings")
    return replace(figure, value=secret_bound(first, len(planted), log_others), best=best)


def _log_others(log2_size: float, taken: int) -> float:
    """Return ln(N − 1); secrets drawn without repetition leave out the values of the ``taken`` − 1 others."""
    if log2_size > 52:
        return log2_size * math.log(2)
    others = round(2**log2_size) - taken
    return math.log(others) if others > 0 else -math.inf
