"""What an attack may ask of a model: small protocols, one capability each.

Costs are in bits (−log2 probability) throughout. Log-perplexity is that of the whole filled text after the
harness' own prefix token, once (The Secret Sharer, Definition 1), so template characters after the secret
count as well as those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.pairs import Pair

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
    from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes, SuffixCosts
    from leakage_tasks.targets.tokens.token_rows import TokenRows


@runtime_checkable
class ScoresSequences(Protocol):
    """Can tell the log-perplexity of whole texts."""

    max_length: int | None
    """Tokens the model can read, None where it does not say."""

    def length(self, text: str) -> int | None:
        """Tokens of a text, None where the model does not say."""

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Log-perplexity of each text in bits, shape ``[len(texts)]``."""


@runtime_checkable
class ScoresUpTo(Protocol):
    """Can tell sooner that a text is dear than how dear it is."""

    def log_perplexity_up_to(self, texts: Sequence[str], most: float, cheapest: int = 0) -> FloatArray:
        """``log_perplexity``, exact up to ``most`` bits and for the ``cheapest`` cheapest texts.

        Of any other text it is a figure above ``most`` that is at most its cost, and above those of the cheapest.
        """


@runtime_checkable
class FillsMasks(Protocol):
    """Gives probabilities of tokens in the middle of a text; what a text costs is a pseudo-log-perplexity."""

    def pseudo_log_likelihoods(self, queries: Sequence[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """For each text's tokens and some places: the sum of their log-probabilities in nats, each token masked in
        turn, and whether each is the likeliest."""


@runtime_checkable
class ReadsSource(Protocol):
    """Reads a source sentence before it writes."""

    def given(self, canary: Canary) -> ScoresSequences:
        """The model after the source sentence of a canary that has one: a target for the canary's own text."""


@runtime_checkable
class TakesContext(Protocol):
    """Can be told what is to stand before and after a text."""

    def in_context(self, context: Context, space: Space) -> ScoresSequences:
        """The model asked about the fillings of ``space`` in ``context``: a target for the canary's own text.

        Raises TargetError where the model or its tokenizer cannot keep the two apart.
        """


@runtime_checkable
class CompletesText(Protocol):
    """Can continue a text greedily."""

    def complete(self, text: str, characters: int) -> str:
        """The model's greedy continuation of ``text``, at least ``characters`` long unless it ends."""


@runtime_checkable
class WritesTexts(Protocol):
    """Can be drawn from: writes a text again and again, each time anew."""

    only_writes: bool
    """Whether that is all that can be asked of it: it gives no log-likelihoods."""

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """``number`` independent continuations of ``text``, each at least ``characters`` long unless it ends."""


class Paths(Protocol):
    """The token paths that spell the fillings of one space, as a graph to search or draw in.

    States are integers. Every filling has exactly one path from ``root``, its canonical tokenization;
    other paths may exist and spell no filling (:meth:`fillings` is empty for them).
    """

    prefix: tuple[int, ...]
    """Tokens every filled text begins with; they are the model's to read once."""
    columns: IntArray
    """Every token that occurs on a path, ascending, shape ``[A]``."""
    root: int
    longest: int
    """No path has more tokens."""

    def table(self, states: IntArray) -> IntArray:
        """State after each column's token, −1 where it cannot follow; shape ``[n, A]``."""

    def ends(self, states: IntArray) -> BoolArray:
        """Whether a filled text may end in each state."""

    def goes_on(self, states: IntArray) -> BoolArray:
        """Whether any token may follow each state."""

    def to_come(self, states: IntArray) -> IntArray:
        """How much may come after each state at most, in a unit that becomes less along every path, ``[n]``."""

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """For each path ``[n, d]`` and the end it leads to ``[n]``: the fillings it is the canonical tokens of."""

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        """How many fillings each path spells, shape ``[n]``: the lengths of :meth:`fillings`' lists."""

    def path(self, filling: Filling) -> tuple[int, ...]:
        """The tokens of a filling after ``prefix``."""

    def inner_nodes(self, limit: int) -> int | None:
        """Return the number of nodes below the root that have children, or None if it exceeds ``limit``.

        A search that cuts nothing reads each of these nodes once.
        """


@runtime_checkable
class PredictsNextToken(ScoresSequences, Protocol):
    """Can extend a batch of partial texts by one token each, keeping its state between calls."""

    def paths(self, space: Space) -> Paths:
        """The token paths of a space. Raises TargetError where the tokenizer does not round-trip it."""

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """Read ``prefix``: a state of one row, the cost of the prefix, costs of what may follow ``[1, A]``."""

    def extend(
        self, states: Sequence[Any], which: IntArray, rows: IntArray, tokens: IntArray, columns: IntArray
    ) -> tuple[Any, FloatArray]:
        """Append one token to each of n texts of equal length.

        Text i is row ``rows[i]`` of ``states[which[i]]``. Returns a state of n rows and the costs of the
        tokens ``columns`` after each text, shape ``[n, A]``.
        """

    def rows(self, length: int) -> int:
        """How many texts of ``length`` tokens one batch may hold."""

    def state_bytes(self, state: Any) -> int:
        """Memory a state keeps occupied."""


@runtime_checkable
class ScoresLabels(Protocol):
    """Can tell how likely a text's class is."""

    labels: tuple[str, ...]
    max_length: int | None
    """Tokens the model can read, special ones included; None where it does not say."""

    def length(self, text: str) -> int | None:
        """Tokens of a text, special ones included."""

    def place_of(self, label: str | None) -> int:
        """Number of a class. Raises TargetError for one the model does not know, and for None."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, special ones included."""

    def rows(self, space: Space) -> TokenRows:
        """Token rows of a space's fillings."""

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """−log2 P(label | row) in bits, shape ``[n, labels]``."""


@runtime_checkable
class DifferentiableInputs(Protocol):
    """Can be asked how its answer changes with the embeddings it reads."""

    def embeddings(self) -> Any:
        """The input embedding matrix, a tensor ``[vocabulary, dimensions]``."""

    def batch(self, length: int) -> int:
        """How many rows of ``length`` tokens one pass takes."""

    def label_costs_of(self, rows: IntArray, embedded: Any) -> Any:
        """Costs in bits ``[n, labels]`` of rows ``[n, length]`` whose embeddings are ``embedded``, with gradients.

        ``embedded`` is a tensor ``[n, length, dimensions]``; the rows only say which places are padding.
        """


@runtime_checkable
class RelaxesTokens(Protocol):
    """Can be asked how a label's loss changes with mixtures of the tokens it reads."""

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxation:
        """The canaries with their slots open to mixtures; with ``double`` the model computes in float64.

        Raises TargetError where a value of a slot is not one token that the model knows.
        """


@runtime_checkable
class ReadsTags(Protocol):
    """Gives each word of a text a tag besides the text's label."""

    def tagged(self, canary: Canary) -> ScoresLabels:
        """The model asked about a canary's tags as well: a target whose costs are of a label *and* those tags.

        Raises TargetError for tags that do not fit the canary's text or that the model does not know.
        """


@dataclass(frozen=True)
class Proposal:
    """What a generator thinks of every value of one slot's alphabet.

    ``costs`` are bits, shape ``[A]``; ``places`` count from 1 in the generator's order of everything it could have put
    there (the whole vocabulary of a masked model: "Top K" of Mix and Match; the alphabet for a causal one).
    """

    costs: FloatArray
    places: IntArray


@runtime_checkable
class ProposesValues(Protocol):
    """Can tell which values are likely in a slot, by what stands around it."""

    generator_name: str

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """A proposal for ``slot`` after each of ``heads``, the values of the slots before it; later slots are open."""


@runtime_checkable
class DrawsSuffixes(Protocol):
    """Can be drawn from after a prefix of token ids, and says what suffixes cost."""

    vocabulary: int | None
    """Token ids the model knows, from 0; None where it does not say."""
    max_length: int | None
    """Tokens of prefix and suffix the model can read, None where it does not say."""
    totals_only: bool
    """Whether a suffix's cost is known as a whole alone, not by token."""
    only_writes: bool
    """Whether no suffix's cost is known, since the model gives no log-likelihoods: it can only be drawn from."""

    def unfit(self, pair: Pair) -> str | None:
        """Why the target cannot take a pair, None if it can."""

    def draw(
        self, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[SampledSuffixes]:
        """Draw by ``scheme`` after prefixes of one length.

        ``uniforms`` ``[prefixes, K, L]`` say how many draws of how many tokens there are to be, and are the random
        numbers they are made from where the target can take them. A search ignores K.
        """

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        """Costs of each suffix's tokens after its prefix; all prefixes have one length, and so have the suffixes."""

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """Own costs in bits of the tokens of each continuation, of any length, after its prefix, all of one length."""

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        """How many pairs as long as ``pair`` had best be given at once, to be drawn after ``samples`` times each."""

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts of token rows."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special ones."""
