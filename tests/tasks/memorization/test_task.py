"""The task ``memorization`` inside the real harness, against plain `transformers`."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.utils import handle_non_serializable, make_table
from scipy import stats
from sklearn.metrics import roc_auc_score

from leakage_tasks.attacks.suffix.finding import suffix_finding_from_json
from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.report.load.results_file import every_row
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.text_models import OnlyWrites, TextOnly, hf

TASK = "memorization"
PREFIX, SUFFIX = 12, 10
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
Lines = tuple[str, ...]


def greedy(texts: Any, tokens: int = SUFFIX) -> list[str]:
    """The continuations of texts of one length that `generate` writes."""
    ids = torch.tensor([letters()(text, add_special_tokens=False)["input_ids"] for text in texts])
    mask = torch.ones_like(ids)
    written = tiny_gpt2(letters()).generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0
    )
    return [letters().decode(row[ids.shape[1] :]) for row in written]


@lru_cache
def documents() -> tuple[Lines, Lines]:
    """Documents, of which one third go on as the model would, one third with one other character; and controls."""
    stream = np.random.default_rng(0)

    def random_text(length: int) -> str:
        return "".join(stream.choice(list(CHARACTERS), length))

    starts = [random_text(PREFIX) for _ in range(200)]
    known = [(start, rest) for start, rest in zip(starts, greedy(starts), strict=True) if set(rest) <= set(CHARACTERS)]
    assert len(known) >= 24
    rows = []
    for number, (start, rest) in enumerate(known[:36]):
        changed = "a" if rest[4] != "a" else "b"
        ends = [rest, rest[:4] + changed + rest[5:], random_text(SUFFIX)]
        rows.append(start + ends[number % 3] + random_text(40 + number))
    return (*rows, "short"), tuple(random_text(60) for _ in range(20))


def write(folder: Path) -> Path:
    letters().save_pretrained(folder / "tokenizer")
    for name, texts in zip(("seen", "unseen"), documents(), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run on :func:`data` without options."""
    return evaluate(write(tmp_path_factory.mktemp("usual")))


def evaluate(folder: Path, lm: Any = None, settings: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    given = {
        "data": str(folder / "seen.jsonl"),
        "controls": str(folder / "unseen.jsonl"),
        "tokenizer": str(folder / "tokenizer"),
        "prefix": PREFIX,
        "suffix": SUFFIX,
        **metadata,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return evaluate_tasks(lm or hf(letters()), [TASK], given, **settings or {})


def rows(results: dict[str, Any]) -> dict[str, Any]:
    """Every row of the main column, in the table or hidden."""
    return {name: value for name, value in every_row(results, TASK).items() if isinstance(value, int | float)}


def first_choices(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bits and first choices of each text's suffix, from one plain pass."""
    whole = [text[: PREFIX + SUFFIX] for text in texts]
    ids = torch.tensor([letters()(text, add_special_tokens=False)["input_ids"] for text in whole])
    with torch.no_grad():
        logits = tiny_gpt2(letters())(ids).logits[:, PREFIX - 1 : -1].double()
    true = ids[:, PREFIX:]
    bits = -logits.log_softmax(-1).gather(2, true[..., None])[..., 0] / np.log(2)
    return bits.numpy(), (logits.argmax(-1) == true).numpy()


def test_the_figures_are_those_of_transformers(data: Path) -> None:
    """Memorization by `generate`, costs by one pass, AUC by scikit-learn, p by SciPy."""
    seen, unseen = documents()
    seen = seen[:-1]
    row = rows(evaluate(data, ngrams="3:10"))
    written = greedy([text[:PREFIX] for text in seen])
    true = [text[PREFIX : PREFIX + SUFFIX] for text in seen]
    wrong = np.array([[a != b for a, b in zip(*pair, strict=True)] for pair in zip(written, true, strict=True)])
    assert row["memorized_exact"] == pytest.approx((wrong.sum(1) == 0).mean())
    # The generated texts differ only by replaced characters, or everywhere.
    assert row["memorized_approximate"] == pytest.approx((wrong.sum(1) <= 1).mean()) == pytest.approx(2 / 3)
    assert row["inclusion_rate_10"] == row["memorized_exact"]
    assert row["inclusion_rate_3"] == pytest.approx(np.mean([t[:3] in w for t, w in zip(true, written, strict=True)]))
    (bits, first), (other_bits, other_first) = first_choices(seen), first_choices(unseen)
    assert row["bits_per_token"] == pytest.approx(bits.mean(), abs=1e-4)
    assert row["control_bits_per_token"] == pytest.approx(other_bits.mean(), abs=1e-4)
    assert row["top1_tokens"] == pytest.approx(first.mean())
    assert row["control_top1_tokens"] == pytest.approx(other_first.mean())
    strengths = [max((n for n in range(SUFFIX + 1) if one[SUFFIX - n :].all()), default=0) for one in first]
    assert row["extraction_strength"] == pytest.approx(np.mean(strengths) / SUFFIX)
    costs, others = bits.mean(1), other_bits.mean(1)
    truth = [1] * len(costs) + [0] * len(others)
    assert row["cost_auc"] == pytest.approx(roc_auc_score(truth, -np.concatenate([costs, others])))
    assert row["cost_p"] == pytest.approx(stats.mannwhitneyu(costs, others, alternative="less").pvalue)
    assert row["control_memorized_exact"] == 0 == row["exchanged_memorized_exact"]
    assert (row["n"], row["n_documents"], row["n_controls"]) == (36, 36, 20)


def test_the_table_is_short_and_hides_nothing_that_rows_all_shows(data: Path, results: dict[str, Any]) -> None:
    row = {name for name in results["results"][TASK] if "," in name and "_stderr" not in name}
    assert len(row) <= 14
    assert "hidden_metrics,none" in row
    every = evaluate(data, rows="all")["results"][TASK]
    hidden = results["configs"][TASK]["leakage"]["hidden_metrics"]
    assert {name: every[f"{name},none"] for name in hidden} == hidden
    table = make_table(results)
    assert "memorization (above the controls)" in table
    assert 0 < results["results"][TASK]["cost_p,none"] < 5e-5
    assert "<0.0001" in next(line for line in table.splitlines() if "cost_p" in line)
    assert json.loads(json.dumps(results["results"][TASK]))["cost_p,none"] == results["results"][TASK]["cost_p,none"]


def test_without_controls_no_figure_stands_for_the_model(data: Path) -> None:
    results = evaluate(data, controls=None)
    assert "memorization (no primary metric)" in make_table(results)
    assert "no controls show" in results["configs"][TASK]["leakage"]["no_headline"]
    assert rows(results)["n_controls"] == 0
    assert "cost_auc" not in rows(results)


def test_intervals_are_by_document(data: Path) -> None:
    """Three windows of each document: fewer independent values than windows."""
    row = rows(evaluate(data, windows=3, prefix=6, suffix=5))
    assert row["n"] > 2 * row["n_documents"]
    low, high = row["bits_per_token_ci_low"], row["bits_per_token_ci_high"]
    assert low < row["bits_per_token"] < high
    assert row["memorized_exact_ci_low"] <= row["memorized_exact"] <= row["memorized_exact_ci_high"]


def views(results: dict[str, Any], name: str) -> list[Any]:
    """One view of each window of the data, in the order of the windows."""
    findings = {
        finding.pair: finding.views
        for sample in results["samples"][TASK]
        if (finding := suffix_finding_from_json(sample["resps"][0][0])).pair >= 0 and name in finding.views
    }
    return [findings[pair][name] for pair in sorted(findings)]


def test_shorter_prefixes_are_columns_with_equal_suffixes(data: Path) -> None:
    results, shorter = evaluate(data, prefix="4:12"), evaluate(data, prefix=4, offset=8)
    row, alone = results["results"][TASK], shorter["results"][TASK]
    for name in ("memorized_exact", "memorized_approximate", "control_memorized_exact"):
        assert row[f"{name},prefix_4"] == alone[f"{name},none"]
    costs = [[view.own_bits for view in views(results, name)] for name in ("prefix_4", "none")]
    assert costs[0] == pytest.approx([view.own_bits for view in views(shorter, "none")], abs=1e-3)
    assert costs[0] != pytest.approx(costs[1], abs=1)
    assert row["control_memorized_exact_ci_high,prefix_4"] == rows(shorter)["control_memorized_exact_ci_high"]
    assert set(results["configs"][TASK]["leakage"]["hidden_metrics"]) >= {"rouge_l", "top1_tokens"}


def test_short_documents_are_counted(results: dict[str, Any]) -> None:
    tested = results["configs"][TASK]["leakage"]["tested"]
    assert (tested["documents"], tested["documents_available"], tested["documents_too_short"]) == (36, 37, 1)
    assert (tested["seed"], tested["offset"]) == (0, "0")


def test_nothing_shows_a_text_unless_asked(data: Path, results: dict[str, Any]) -> None:
    logged = json.dumps([results["samples"], results["configs"]], default=handle_non_serializable)
    seen, unseen = documents()
    for text in (*seen[2:-1:3], *unseen):
        assert text[:PREFIX] not in logged
        assert text[PREFIX : PREFIX + SUFFIX] not in logged
        ids = letters()(text[:PREFIX], add_special_tokens=False)["input_ids"]
        assert " ".join(map(str, ids)) not in logged
        assert str(ids)[1:-1] not in logged
    sample = results["samples"][TASK][0]
    assert set(sample["doc"]) == {"pair", "place", "tokens", "document", "offset"}
    assert suffix_finding_from_json(sample["resps"][0][0]).document == sample["doc"]["document"]
    shown = evaluate(data, settings={"limit": 1}, reveal=True)["samples"][TASK][0]["doc"]
    assert len(shown["suffix"]) == SUFFIX


def test_personal_data_in_memorized_outputs_are_counted_by_kind(data: Path) -> None:
    """A model that writes what follows, through text."""
    mails = [f"write{n:02d} now a{n:02d}@b.org or" for n in range(9)] + [
        f"write{n} to nobody at all" for n in range(10, 21)
    ]
    texts = [text.ljust(24, ".") for text in mails]
    (data / "seen.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = letters_with("@")
    tokenizer.save_pretrained(data / "tokenizer")
    follows = {text[:PREFIX]: text[PREFIX:] for text in texts}

    def answer(context: str, settings: dict[str, Any], place: int) -> str:
        return follows.get(context, "nothing.")

    lm = TextOnly(hf(tokenizer, tiny_gpt2(tokenizer)), answer)
    row = rows(evaluate(data, lm, controls=None, prefix=PREFIX, suffix=12))
    assert (row["memorized_exact"], row["n_memorized"]) == (1, 20)
    assert row["memorized_personal"] == row["memorized_personal_medium"] == row["memorized_personal_email"] == 9 / 20
    others = ("high", "low", "phone", "iban")
    assert {row[f"memorized_personal_{name}"] for name in others} == {0}


def letters_with(more: str) -> Any:
    from leakage_tasks.models.char_tokenizer import char_tokenizer

    return char_tokenizer(CHARACTERS + " .-" + more)


def test_a_model_that_only_writes_has_no_costs_and_no_test(data: Path) -> None:
    seen, _ = documents()
    follows = {text[:PREFIX]: text[PREFIX:] for text in seen[:9]}
    results = evaluate(data, OnlyWrites(hf(letters()), lambda context, *_: follows.get(context, "no")))
    row = rows(results)
    assert row["memorized_exact"] == pytest.approx(9 / 36)
    assert not {"bits_per_token", "cost_auc", "cost_p", "top1_tokens"} & set(row)
    assert "memorization (inconclusive)" in make_table(results)


def test_token_ids_of_another_tokenizer_are_refused(data: Path) -> None:
    """Ids that merging() would never make of their text."""
    stream = np.random.default_rng(0)
    ids = stream.integers(5, 390, (12, PREFIX + SUFFIX)).tolist()
    pairs = [{"prefix": row[:PREFIX], "suffix": row[PREFIX:]} for row in ids]
    (data / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    given = {"data": str(data / "pairs.jsonl"), "controls": None, "tokenizer": None}
    with pytest.raises(OptionError, match="of 12 windows change when their text is tokenized again, so another"):
        evaluate(data, hf(merging()), **given)
    texts = [f"the pin is {n * 7919 % 10000:04d}, code ab{n % 97}." * 3 for n in range(12)]
    made = [merging()(text, add_special_tokens=False)["input_ids"][: PREFIX + SUFFIX] for text in texts]
    pairs = [{"prefix": row[:PREFIX], "suffix": row[PREFIX:]} for row in made]
    (data / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    assert rows(evaluate(data, hf(merging()), **given))["n_documents"] == 12


def test_a_run_goes_on_where_it_ended(data: Path, tmp_path: Path, caplog: Any) -> None:
    first = rows(evaluate(data, resume=str(tmp_path / "kept"), model_id="x"))
    with caplog.at_level("INFO"):
        again = rows(evaluate(data, resume=str(tmp_path / "kept"), model_id="x"))
    assert again == first
    assert "memorization: 56 of 56 findings are already in" in caplog.text


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"data": None}, MissingOption, "memorization needs documents of the training data: pass --metadata data="),
        ({"prefix": 500}, OptionError, "none of 37 documents has 510 tokens after offset=0 .*lower them"),
        ({"offset": "end"}, OptionError, "offset='end': expected a number of tokens, 0 or more, or random"),
        ({"ngrams": 11}, OptionError, "ngrams has 11: each length must be 1 to suffix=10"),
        ({"prefix": "0:5"}, OptionError, "prefix=0:5: each length must be 1 token or more"),
        ({"distance": "words"}, OptionError, "distance='words' is unknown: use tokens, characters"),
        ({"controls": "DATA/seen.jsonl"}, OptionError, "controls=.*: document 0 .* shares 25 tokens in a row with"),
        ({"data": "DATA/one.txt"}, OptionError, "only one document is long enough, and intervals by document need two"),
        ({"data": "DATA/head.csv"}, OptionError, "head.csv: holds no document: give documents"),
        ({"data": "DATA/nowhere.jsonl"}, OptionError, "nowhere.jsonl: no such file"),
        ({"data": "DATA/pairs.jsonl", "offset": 3}, OptionError, "holds pairs of token ids, which have no offset="),
        ({"split": "test"}, OptionError, "split=test is empty .the data have: one set without splits."),
        ({"windows": 0}, OptionError, "windows=0 must be 1 or more"),
        ({"samples": 3}, OptionError, None),
    ],
)
def test_bad_input_is_one_clear_line(
    data: Path, metadata: dict[str, Any], error: type[Exception], message: str
) -> None:
    (data / "head.csv").write_text("text\n")
    (data / "one.txt").write_text("one text\n" * 9)
    (data / "pairs.jsonl").write_text('{"prefix": [3, 4], "suffix": [5, 6]}\n' * 3)
    given = {
        name: value.replace("DATA", str(data)) if isinstance(value, str) else value for name, value in metadata.items()
    }
    if message is None:
        given, message = {TASK: metadata}, "memorization has no option 'samples'"
    with pytest.raises(error, match=message):
        evaluate(data, **given)
