"""A check that prose and names stay plain: `python tests/supply/plain_language.py`, a part of `make lint`.

It counts phrases that make sentences hard to read, per 1,000 words, in the code's prose, in its messages and in the
documentation. Each limit lies above the rate of widely used Python libraries. It also counts variable names that do
not say what they hold, and the words and rows of pages that have a size limit.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("leakage_tasks", "adapters")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
LIMITS = {
    r"\bwhat\b(?! (?:is|are|do|does|can|should) (?:the|a|an|you|i)\b)": 0.7,
    r"\bwhere\b": 2.0,
    r"\bthe same\b": 2.0,
    r"(?-i:\bnone\b)": 0.4,
    r"\bthose (?:that|of|which|who|with|it|they|for)\b": 0.2,
    r"\b(?:tells?|told|telling)\b": 0.2,
    r"\bask(?:s|ed|ing)\b": 0.2,
    r"\b(?:stands?|stood)\b": 0.1,
    r"\bones? (?:that|which|who|whose)\b": 0.2,
    r"\bbesides?\b": 0.1,
    r"\bso (?:many|much|few)\b": 0.1,
    r"\b(?:who|what|which)ever\b": 0.1,
    r"(?-i:(?:^|[.:;] )Of [a-z])": 0.05,
    r"\b(?:anew|alike|anyhow|meanwhile|lest|dear(?:er|est)?)\b": 0.1,
    r"\b(?:come|comes|came|coming) of\b": 0.03,
    r"\b(?:had|has) best\b": 0.02,
}
"""Phrases, as regular expressions, and how often each may occur per 1,000 words."""
CLAUSE = re.compile(r"(?:What|Whether|How|The same|Where|Who|See :)\b")
MOST_CLAUSES = 0.03
"""Share of function docstrings that may begin with a clause instead of a verb."""
MOST_BINDINGS = dict.fromkeys(("found", "each", "given", "kept"), 40) | dict.fromkeys(("place", "own"), 30)
MOST_BINDINGS |= dict.fromkeys(("told", "said", "asked"), 10)
"""Variable names that do not say what they hold, and how often each may be bound."""
MOST_WORDS = 45_000
MOST_LINES = {"README.md": 120}
MOST_ROWS = {"docs/glossary.md": 40}


class Prose(NamedTuple):
    """Texts of one kind, each with its file."""

    kind: str
    texts: list[tuple[str, str]]

    def words(self) -> int:
        """Return the number of words."""
        return sum(len(re.findall(r"[A-Za-z][A-Za-z'-]*", text)) for _, text in self.texts)

    def faults(self) -> Iterator[str]:
        """Yield a line for each phrase over its limit, with the first places where it occurs."""
        for phrase, limit in LIMITS.items():
            hits = [
                f"    {file}: …{text[max(0, hit.start() - 40) : hit.end() + 40]}…".replace("\n", " ")
                for file, text in self.texts
                for hit in re.finditer(phrase, text, re.M | re.I)
            ]
            if 1000 * len(hits) > limit * self.words():
                allowed = int(limit * self.words() / 1000)
                yield "\n".join([f"{self.kind}: {phrase!r} occurs {len(hits)} times, limit {allowed}", *hits[-8:]])


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield docstrings, those after assignments too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a file, except those that tools read."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa", "#!")):
            yield token.string.lstrip("# ")


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the name of every variable each time it is bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def page(path: Path) -> str:
    """Return the prose of a page: without blocks of code, code in lines, and targets of links."""
    text = re.sub(r"```.*?```", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", " x ", text))


def code_faults(files: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each fault of the packages' prose and names."""
    prose, messages = Prose("docstrings and comments", []), Prose("messages and help", [])
    functions, clauses, names = 0, [], Counter[str]()
    for path in files:
        file, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        docs = {id(doc): str(doc.value) for doc in docstrings(tree)}
        prose.texts.extend((file, text) for text in [*docs.values(), *comments(source)])
        names.update(name for name in bound_names(tree) if name in MOST_BINDINGS)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                messages.texts.extend([(file, node.value)] if node.value.count(" ") >= 4 else [])
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node)):
                functions += 1
                clauses += [f"    {file}:{node.lineno}: {doc.splitlines()[0]}"] if CLAUSE.match(doc) else []
    yield from prose.faults()
    yield from messages.faults()
    if len(clauses) > MOST_CLAUSES * functions:
        yield "\n".join([f"{len(clauses)} of {functions} docstrings begin with a clause, not a verb", *clauses[:8]])
    for name, most in MOST_BINDINGS.items():
        if names[name] > most:
            yield f"variables are called {name!r} {names[name]} times, limit {most}: name the thing they hold"


def page_faults() -> Iterator[str]:
    """Yield a line for each fault of the documentation."""
    files = [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in PAGES)]
    pages = Prose("documentation", [(str(path.relative_to(ROOT)), page(path)) for path in files])
    yield from pages.faults()
    if pages.words() > MOST_WORDS:
        yield f"documentation: {pages.words():,} words, limit {MOST_WORDS:,}"
    for name, most in MOST_LINES.items():
        if (lines := len((ROOT / name).read_text(encoding="utf-8").splitlines())) > most:
            yield f"{name}: {lines} lines, limit {most}"
    for name, most in MOST_ROWS.items():
        lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        rows = len(lines) - 2 * sum(line.startswith(("|-", "| -")) for line in lines)
        if rows > most:
            yield f"{name}: {rows} rows, limit {most}"


def main() -> int:
    """Print every fault; return 1 if there is any."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    faults = [*code_faults(files), *page_faults()]
    print("\n".join(faults) or "plain language: no limit exceeded")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
