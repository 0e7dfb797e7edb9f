"""The capabilities of a model that an attack may need: one small protocol for each.

An error about a missing capability quotes the first line of its protocol after "A model that".

Costs are in bits (−log2 probability) throughout. Log-perplexity is that of the whole filled text after the
harness' prefix token (The Secret Sharer, Definition 1), so template characters after the secret count as
well as those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.pairs import Pair

if TYPE_CHECKING:
    from leakage_tasks.targets.memory import MemoryBudget
    from leakage_tasks.targets.relaxation import Relaxation
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
    from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds, SampledSuffixes, SuffixCosts
    from leakage_tasks.targets.tokens.slot_tokens import SpaceRows

_ABILITIES: WeakKeyDictionary[Any, dict[type, bool]] = WeakKeyDictionary()


def serves(target: Any, protocol: type) -> bool:
    """Return ``isinstance(target, protocol)``, computed once, since Python takes some 20 µs to check a protocol."""
    try:
        known = _ABILITIES.setdefault(target, {})
    except TypeError:  # An object without weak references.
        return isinstance(target, protocol)
    if protocol not in known:
        known[protocol] = isinstance(target, protocol)
    return known[protocol]


@runtime_checkable
class ScoresSequences(Protocol):
    """A model that can compute the log-perplexity of whole texts."""

    max_length: int | None
    """Maximum number of tokens the model can read, or None if it is not stated."""

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None if the model does not report it."""

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return the log-perplexity of each text in bits, shape ``[len(texts)]``."""


@runtime_checkable
class ScoresUpTo(Protocol):
    """A model that can stop scoring a text once its cost exceeds a bound."""

    def log_perplexity_up_to(self, texts: Sequence[str], most: float, cheapest: int = 0) -> FloatArray:
        """Return ``log_perplexity``, exact up to ``most`` bits and for the ``cheapest`` texts of lowest cost.

        The value of any other text is a lower bound of its cost, above ``most`` and above the costs of those texts.
        """


@runtime_checkable
class FillsMasks(Protocol):
    """A model that can predict masked tokens within a text; the cost of a text is a pseudo-log-perplexity."""

    def pseudo_log_likelihoods(self, queries: Sequence[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """Return, for each query, the sum of log-probabilities in nats and whether each token is the likeliest.

        A query is a text's tokens and some positions; the token at each position is masked in turn.
        """


@runtime_checkable
class ReadsSource(Protocol):
    """A model that can read a source sentence before it writes."""

    def given(self, canary: Canary) -> ScoresSequences:
        """Return a target for the canary's own text, conditioned on the canary's source sentence."""


@runtime_checkable
class TakesContext(Protocol):
    """A model that can read a context before and after a text."""

    def in_context(self, context: Context, space: Space) -> ScoresSequences:
        """Return a target for the canary's own text with the fillings of ``space`` in ``context``.

        Raises TargetError if the model or its tokenizer cannot separate the text from the context.
        """


@runtime_checkable
class CompletesText(Protocol):
    """A model that can continue a text greedily."""

    def complete(self, text: str, characters: int) -> str:
        """Return the greedy continuation of ``text``, at least ``characters`` long unless it ends."""


@runtime_checkable
class WritesTexts(Protocol):
    """A model that can sample several continuations of a text."""

    only_writes: bool
    """True if the model can only write, because it gives no log-likelihoods."""

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """Return ``number`` independent continuations of ``text``, each ``characters`` or longer unless it ends."""


class Paths(Protocol):
    """The token paths that spell the fillings of one space, as a graph to search or draw in.

    States are integers. Every filling has exactly one path from ``root``, its canonical tokenization;
    other paths may exist and spell no filling (:meth:`fillings` is empty for them).
    """

    prefix: tuple[int, ...]
    """Tokens that every filled text begins with; the model reads them once."""
    columns: IntArray
    """Every token that occurs on a path, in ascending order, shape ``[A]``."""
    root: int
    longest: int
    """Maximum number of tokens of a path."""

    def table(self, states: IntArray) -> IntArray:
        """Return the state after each column's token, −1 if it cannot follow; shape ``[n, A]``."""

    def ends(self, states: IntArray) -> BoolArray:
        """Return an array that is True for each state in which a filled text may end."""

    def goes_on(self, states: IntArray) -> BoolArray:
        """Return an array that is True for each state that a token may follow."""

    def to_come(self, states: IntArray) -> IntArray:
        """Return the maximum remaining length of a path after each state ``[n]``, in tokens or characters."""

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """Return, for each path ``[n, d]`` and its end state ``[n]``, the fillings whose canonical tokenization is this
        path."""

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        """Return the number of fillings of each path, shape ``[n]``: the lengths of :meth:`fillings`' lists."""

    def path(self, filling: Filling) -> tuple[int, ...]:
        """Return the tokens of a filling after ``prefix``."""

    def each_path(self, fillings: Sequence[Filling]) -> list[tuple[int, ...]]:
        """Return the tokens of each filling after ``prefix``."""

    def inner_nodes(self, limit: int) -> int | None:
        """Return the number of nodes below the root that have children, or None if it exceeds ``limit``.

        A search that cuts nothing reads each of these nodes once.
        """


@runtime_checkable
class PredictsNextToken(ScoresSequences, Protocol):
    """A model that can extend a batch of partial texts by one token each, keeping its state between calls."""

    def paths(self, space: Space) -> Paths:
        """Return the token paths of a space. Raises TargetError if the tokenizer does not round-trip it."""

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """Read ``prefix``; return it as one text, the cost of the prefix, and the costs of ``columns`` after it.

        The costs have shape ``[1, A]``.
        """

    def extend(self, texts: Any, tokens: IntArray, columns: IntArray) -> tuple[Any, FloatArray]:
        """Append one token ``[n]`` to each of n texts.

        Returns the new texts and the costs of the tokens ``columns`` after each, ``[n, A]``. Texts can be selected by
        an index and joined by their class (:class:`~leakage_tasks.targets.causal.text_rows.TextRows`).
        """

    def rows(self, length: int) -> int:
        """Return the number of texts of ``length`` tokens in one batch."""

    def state_bytes(self, texts: Any) -> int:
        """Return the bytes of the states of texts, without the texts that they continue."""


@runtime_checkable
class SharesPasses(PredictsNextToken, Protocol):
    """A model that can extend texts of several canaries in one call."""

    states: MemoryBudget

    @property
    def model_key(self) -> Hashable:
        """Key of the targets whose texts can be extended in one call, by any of these targets."""

    def step_rows(self, texts: Any) -> int:
        """Return the number of rows of a pass that continues ``texts``."""

    def follow(
        self, texts: Any, tokens: IntArray, lengths: IntArray, columns: IntArray
    ) -> tuple[list[Any], FloatArray] | None:
        """Append tokens ``[n, k]``, of which the first ``lengths`` ``[n]`` count, to each of n texts in one pass.

        Returns for each of the k tokens the texts that have it, up to it, and the costs of the tokens ``columns`` after
        each, ``[n, k, A]``; None if the model reads one token at a time, or texts of several lengths in separate
        passes.
        """

    def apart(self, texts: Any) -> Any:
        """Return texts that are kept independently of the texts that were read in the same call."""


@runtime_checkable
class ScoresLabels(Protocol):
    """A model that can compute the probabilities of a text's classes."""

    labels: tuple[str, ...]
    max_length: int | None
    """Maximum number of tokens, special tokens included, that the model can read, or None if it is not stated."""

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text, special tokens included."""

    def place_of(self, label: str | None) -> int:
        """Return the index of a class. Raises TargetError for None and for a class that the model does not know."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, special tokens included."""

    def rows(self, space: Space) -> SpaceRows:
        """Return the token rows of a space's fillings."""

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """Return −log2 P(label | row) in bits, shape ``[n, labels]``."""


@runtime_checkable
class DifferentiableInputs(Protocol):
    """A model that can differentiate its costs with respect to its input embeddings."""

    def embeddings(self) -> Any:
        """Return the input embedding matrix, a tensor ``[vocabulary, dimensions]``."""

    def batch(self, length: int) -> int:
        """Return the number of rows of ``length`` tokens in one pass."""

    def label_costs_of(self, rows: IntArray, embedded: Any) -> Any:
        """Return costs in bits ``[n, labels]`` of rows ``[n, length]`` with embeddings ``embedded``, differentiable.

        ``embedded`` is a tensor ``[n, length, dimensions]``; the rows only determine which positions are padding.
        """


@runtime_checkable
class RelaxesTokens(Protocol):
    """A model that can differentiate a label's loss with respect to mixtures of the tokens it reads."""

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxation:
        """Return the canaries with their slots open to mixtures; with ``double`` the model computes in float64.

        Raises TargetError if a value of a slot is not one token that the model knows.
        """


@runtime_checkable
class ReadsTags(Protocol):
    """A model that can give each word of a text a tag, in addition to the text's label."""

    def tagged(self, canary: Canary) -> ScoresLabels:
        """Return a target for a canary with tags, whose costs are for a label *and* the canary's tags together.

        Raises TargetError if the tags do not fit the canary's text or the model does not know them.
        """


@dataclass(frozen=True)
class Proposal:
    """A generator's costs and ranks of every value of one slot's alphabet.

    ``costs`` are in bits, shape ``[A]``. ``places`` are ranks from 1 among everything that the generator could have
    put there (the whole vocabulary of a masked model: "Top K" of Mix and Match; the alphabet for a causal model).
    """

    costs: FloatArray
    places: IntArray


@runtime_checkable
class ProposesValues(Protocol):
    """A model that can propose likely values for a slot, given the text around it."""

    generator_name: str

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """Return a proposal for ``slot`` after each of ``heads``, the values of the slots before it."""


@runtime_checkable
class DrawsSuffixes(Protocol):
    """A model that can sample suffixes after a prefix of token ids and compute their costs."""

    vocabulary: int | None
    """Number of token ids that the model knows, or None if it is not stated."""
    max_length: int | None
    """Maximum number of tokens of prefix and suffix together, or None if it is not stated."""
    totals_only: bool
    """True if only the total cost of a suffix is known, not the costs of its tokens."""
    only_writes: bool
    """True if no suffix's cost is known, since the model gives no log-likelihoods: it can only be sampled from."""
    on_drawn: Callable[[float], None] | None
    """Function that :meth:`draw` may call while it samples, with the number of prefixes whose suffixes became known. A
    part of a prefix's tokens is a fraction."""

    def unfit(self, pair: Pair) -> str | None:
        """Return the reason why the target cannot process a pair, or None if it can."""

    def draw(
        self, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[SampledSuffixes]:
        """Sample by ``scheme`` after prefixes of one length.

        ``uniforms`` ``[prefixes, K, L]`` determine the number K of samples and the number L of tokens; a target that
        can use them samples from these random numbers. A search ignores K.
        """

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        """Return the costs of each suffix's tokens after its prefix; prefixes have one length, and so have suffixes."""

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """Return costs in bits of the tokens of continuations of any lengths, after prefixes of one length."""

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        """Return the recommended number of pairs as long as ``pair`` in one call, for ``samples`` samples of each."""

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of token rows."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, without special tokens."""


@runtime_checkable
class BoundsNear(Protocol):
    """A model that can bound the probability of a draw within a small edit distance of the true suffix."""

    def near(
        self,
        prefixes: Sequence[Sequence[int]],
        suffixes: Sequence[Sequence[int]],
        scheme: DecodingConfig,
        edits: int,
        width: int,
    ) -> list[NearBounds]:
        """Return bounds for each suffix after its prefix; prefixes have one length, and so have suffixes.

        ``edits`` is the largest number of token edits, and ``width`` the number of beginnings of draws in a beam.
        """


@dataclass(frozen=True)
class CutText:
    """The beginning of a text with its scored tokens, without special tokens that the text does not contain.

    ``first`` are the tokens at its beginning that are read and not scored.
    """

    text: str
    tokens: tuple[int, ...]
    first: tuple[int, ...] = ()


class WrittenText(NamedTuple):
    """The tokens of a text that a model wrote, without the end token; ``ended`` is true if the model ended it."""

    tokens: tuple[int, ...]
    ended: bool


@dataclass(frozen=True)
class TextFigures:
    """Log-probabilities in nats of one text.

    ``total`` is the log-likelihood of the whole text, and ``log_probabilities`` ``[n]`` the log-probability of each of
    its tokens. ``means`` and ``deviations`` ``[n]`` are the mean and the standard deviation of the log-probability of a
    token drawn from the model's distribution at each position. Each is None if the model does not give it.
    """

    total: float
    log_probabilities: FloatArray | None = None
    means: FloatArray | None = None
    deviations: FloatArray | None = None


@runtime_checkable
class ReadsTexts(Protocol):
    """A model that can compute the log-likelihood of whole texts and state their tokens."""

    max_length: int | None
    """Maximum number of tokens of a text, or None if it is not stated."""
    gives_tokens: bool
    """True if it gives the log-probability of each token."""
    gives_distributions: bool
    """True if it gives the whole distribution at each position."""
    takes_context: bool
    """True if it can read another text before a text."""
    vocabulary: int | None
    """Number of tokens, or None if it is not stated."""

    def cut(self, texts: Sequence[str], tokens: int) -> list[CutText]:
        """Return the first ``tokens`` tokens of each text."""

    def read(self, texts: Sequence[CutText]) -> list[TextFigures]:
        """Return the figures of each text, from one pass over it."""

    def totals_after(self, context: CutText, texts: Sequence[CutText]) -> FloatArray:
        """Return the log-likelihood in nats of each text after ``context``, shape ``[texts]``."""
