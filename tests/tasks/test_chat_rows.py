"""Rows that are conversations under ``--apply_chat_template``: each figure against plain ``transformers`` on the rows
as a trainer renders them."""

from __future__ import annotations

import copy
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from leakage_tasks import audit
from leakage_tasks.attacks.membership.finding import membership_finding_from_json
from leakage_tasks.attacks.membership.neighbours import by_words
from leakage_tasks.attacks.suffix.finding import suffix_finding_from_json
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.data.conversations import ChatRow
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.pairs.document_texts import TextDocument, read_documents
from leakage_tasks.pairs.rendering import spoken_in
from leakage_tasks.report.load.results_file import every_row
from leakage_tasks.targets.harness.chat import rendering_of
from tests.chats import STYLES, chat_model, chat_tokenizer
from tests.targets.text_models import TextOnly, hf
from tests.test_group import evaluate as evaluate_group

WORDS = ("the", "pin", "of", "kalo", "is", "not", "red", "and", "blue", "dog", "saw", "two", "cats", "in", "my", "old")
PREFIX, SUFFIX = 9, 7
WHOLE_CUTS = ("chatml", "llama-3")
"""Styles whose tokens spell a text without other spaces, so that the end of a cut text is exact."""
Turns = list[dict[str, str]]


def turns(*said: str, first: str = "user") -> Turns:
    roles = ["system"] * (first == "system") + ["user", "assistant"] * len(said)
    return [{"role": role, "content": content} for role, content in zip(roles, said, strict=False)]


def conversations(seed: int, number: int = 12) -> list[Turns]:
    stream = random.Random(seed)

    def words() -> str:
        return " ".join(stream.choices(WORDS, k=stream.randrange(5, 9)))

    return [turns(*(words() for _ in range(2 + 2 * (row % 2)))) for row in range(number)]


def save_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def save_chats(path: Path, seed: int) -> str:
    return save_rows(path, [{"messages": row} for row in conversations(seed)])


def tokens_of(style: str, row: Turns, **more: Any) -> list[int]:
    """The tokens of a row as TRL's trainer makes them."""
    return list(chat_tokenizer(style).apply_chat_template(row, tokenize=True, return_dict=False, **more))


def evaluate(folder: Path, task: str, style: str, flag: bool = True, lm: Any = None, **given: Any) -> dict[str, Any]:
    settings = {name: given.pop(name) for name in ("system_instruction", "limit") if name in given}
    lm = lm or hf(chat_tokenizer(style), chat_model(style))
    chat_tokenizer(style).save_pretrained(folder / "tokenizer")
    metadata = {"tokenizer": str(folder / "tokenizer"), **given}
    return evaluate_tasks(lm, [task], metadata, apply_chat_template=flag, **settings)


def answers(results: dict[str, Any], task: str) -> list[Any]:
    return [sample["resps"][0][0] for sample in results["samples"][task] if sample["filter"] == "none"]


def greedy(style: str, prefix: list[int]) -> list[int]:
    ids = torch.tensor([prefix])
    for _ in range(SUFFIX):
        with torch.no_grad():
            ids = torch.cat([ids, chat_model(style)(ids).logits[:, -1:].argmax(-1)], dim=1)
    return ids[0, len(prefix) :].tolist()


def log_probabilities(style: str, row: list[int], seed: int = 0) -> np.ndarray:
    """Log-probability in nats of each token after the first."""
    ids = torch.tensor([row])
    with torch.no_grad():
        logs = chat_model(style, seed)(ids).logits[0, :-1].double().log_softmax(-1)
    return logs.gather(1, ids[0, 1:, None])[:, 0].numpy()


@pytest.mark.parametrize("style", STYLES)
def test_windows_of_memorization_are_those_of_the_rendered_rows(tmp_path: Path, style: str) -> None:
    data = save_chats(tmp_path / "seen.jsonl", 0)
    given = {"data": data, "prefix": PREFIX, "suffix": SUFFIX, "windows": 2, "offset": 1, "reveal": True}
    results = evaluate(tmp_path, "memorization", style, **given)
    rows = [tokens_of(style, row) for row in conversations(0)]
    width, expected = PREFIX + SUFFIX, []
    for number, row in enumerate(rows):
        expected += [(number, start) for start in (1, 1 + width) if start + width <= len(row)]
    docs = [sample["doc"] for sample in results["samples"]["memorization"]]
    assert [(doc["document"], doc["offset"]) for doc in docs] == expected
    costs = []
    for doc, answer in zip(docs, answers(results, "memorization"), strict=True):
        window = rows[doc["document"]][doc["offset"] :][:width]
        assert doc["prefix"] + doc["suffix"] == window
        assert list(suffix_finding_from_json(answer).guesses[0]) == greedy(style, window[:PREFIX])
        costs.append(-log_probabilities(style, window)[PREFIX - 1 :].mean() / np.log(2))
    assert every_row(results, "memorization")["bits_per_token"] == pytest.approx(np.mean(costs), abs=1e-4)
    assert protocol(results, "memorization")["chat"] == "conversations"


@pytest.mark.parametrize("style", ["chatml", "llama-3"])
def test_pairs_of_suffix_extraction_are_windows_of_rendered_rows(tmp_path: Path, style: str) -> None:
    data = save_chats(tmp_path / "seen.jsonl", 0)
    given = {"data": data, "prefix_length": PREFIX, "suffix_length": SUFFIX, "stride": 5, "reveal": True}
    more = {"samples": 2, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "system_instruction": "Be kind."}
    results = evaluate(tmp_path, "suffix_extraction", style, **given, **more)
    system = [{"role": "system", "content": "Be kind."}]
    rows = [tokens_of(style, [*system, *row]) for row in conversations(0)]
    width, windows = PREFIX + SUFFIX, []
    for row in rows:
        last = len(row) - width
        windows += [row[start : start + width] for start in sorted({*range(0, last + 1, 5), last})]
    docs = [sample["doc"] for sample in results["samples"]["suffix_extraction"] if sample["filter"] == "none"]
    assert [doc["prefix"] + doc["suffix"] for doc in docs] == windows
    chances = [np.exp(log_probabilities(style, window)[PREFIX - 1 :].sum()) for window in windows]
    assert every_row(results, "suffix_extraction")["p_z"] == pytest.approx(np.mean(chances), rel=1e-4)
    assert protocol(results, "suffix_extraction")["system_instruction"] == "Be kind."


@pytest.mark.parametrize("style", STYLES)
def test_scores_of_membership_are_those_of_the_rendered_rows(tmp_path: Path, style: str) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    options = {"attacks": "loss:min-k:zlib:recall:lowercase", "shots": 2, "tokens": 24, "k": 20, "rows": "all"}
    results = evaluate(tmp_path, "membership", style, **given, **options)
    rendered = {seed: [template(style, row) for row in conversations(seed)] for seed in (0, 1)}
    found = [membership_finding_from_json(answer) for answer in answers(results, "membership")]
    assert {each.member for each in found} == {True, False}
    left_out = {-1 - number for number in range(12)} - {each.text for each in found}
    (context,) = contexts(style, [rendered[1][-1 - number] for number in sorted(left_out, reverse=True)], 24)
    for each in found:
        text = rendered[0][each.text] if each.member else rendered[1][-1 - each.text]
        row = encoded(style, text)[:25]
        logs = log_probabilities(style, row)
        assert each.tokens == len(logs)
        assert each.scores["loss"] == pytest.approx(logs.mean(), abs=1e-4)
        assert each.scores["min-k"] == pytest.approx(np.sort(logs)[: int(len(logs) * 0.2)].mean(), abs=1e-4)
        if style not in WHOLE_CUTS:
            continue
        after = log_probabilities(style, [*context, *row])[-len(logs) :].sum()
        assert each.scores["recall"] == pytest.approx(after / logs.sum(), abs=1e-4)


def template(style: str, row: Turns) -> str:
    return str(chat_tokenizer(style).apply_chat_template(row, tokenize=False))


def encoded(style: str, text: str) -> list[int]:
    return list(chat_tokenizer(style)(text, add_special_tokens=False)["input_ids"])


def contexts(style: str, shots: list[str], tokens: int) -> list[list[int]]:
    cut = [chat_tokenizer(style).decode(encoded(style, shot)[: tokens + 1]) for shot in shots]
    return [encoded(style, "".join(f"{text}\n\n" for text in cut))]


def protocol(results: dict[str, Any], task: str) -> dict[str, Any]:
    found: dict[str, Any] = results["configs"][task]["leakage"]["protocol"]
    return found


def test_the_windows_of_a_reference_and_its_ratio_are_of_the_rendered_rows(tmp_path: Path) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    chat_model("chatml", 1).save_pretrained(tmp_path / "base")
    chat_tokenizer("chatml").save_pretrained(tmp_path / "base")
    results = evaluate(
        tmp_path, "membership", "chatml", **given, attacks="ratio:zlib", tokens=254, reference=str(tmp_path / "base")
    )
    for answer in answers(results, "membership"):
        each = membership_finding_from_json(answer)
        turns_of_row = conversations(0)[each.text] if each.member else conversations(1)[-1 - each.text]
        row = tokens_of("chatml", turns_of_row)
        tuned, base = log_probabilities("chatml", row), log_probabilities("chatml", row, seed=1)
        assert each.scores["ratio"] == pytest.approx((tuned.sum() - base.sum()) / len(tuned), abs=1e-4)
        size = len(zlib.compress(template("chatml", turns_of_row).encode()))
        assert each.scores["zlib"] == pytest.approx(tuned.mean() / size, abs=1e-6)


@pytest.mark.parametrize("style", WHOLE_CUTS)
def test_a_corpus_of_chats_has_the_frequencies_of_its_rendered_rows(tmp_path: Path, style: str) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    chats = save_chats(tmp_path / "corpus.jsonl", 2)
    rendered = save_rows(tmp_path / "text.jsonl", [{"text": template(style, row)} for row in conversations(2)])
    joined = [{"text": "\n".join(turn["content"] for turn in row)} for row in conversations(2)]
    found = [
        [membership_finding_from_json(answer).scores["dc-pdd"] for answer in answers(results, "membership")]
        for frequencies in (chats, rendered, save_rows(tmp_path / "joined.jsonl", joined))
        for results in [evaluate(tmp_path, "membership", style, **given, attacks="dc-pdd", frequencies=frequencies)]
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("style", ["chatml", "mistral"])
def test_similar_texts_keep_the_words_of_the_template(tmp_path: Path, style: str) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    options = {"attacks": "loss:neighbourhood", "neighbours": "words", "neighbour_number": 3, "tokens": 254}
    results = evaluate(tmp_path, "membership", style, **given, **options)
    for answer in answers(results, "membership"):
        each = membership_finding_from_json(answer)
        row = conversations(0)[each.text] if each.member else conversations(1)[-1 - each.text]
        text, spans = template(style, row), []
        for turn in row:
            start = text.index(turn["content"])
            spans.append((start, start + len(turn["content"])))
        copies = by_words(text, 3, 0, {text: spans}.get)
        assert all(copy.count("[/INST]") == text.count("[/INST]") for copy in copies)
        near = [encoded(style, copy) for copy in copies]
        expected = each.scores["loss"] - np.mean([log_probabilities(style, row).mean() for row in near])
        assert each.scores["neighbourhood"] == pytest.approx(expected, abs=1e-4)


def test_the_turns_of_a_rendered_text_are_found_and_its_other_words_are_the_templates() -> None:
    said = ["user", " a b \n", "INST", "s"]
    row = turns(*said)
    text = "<s>user\nuser</s>\n<s>model\na b</s>\n<s>user\n[INST] INST [/INST]</s>\n<s>model\ns</s>\n"
    spans = spoken_in(text, ChatRow(row, None, "row 0"))
    # The end token holds the last content.
    assert [text[start:end] for start, end in spans] == ["user", "a b", "INST", "s"]
    assert spans[0] == (8, 12)
    assert spoken_in("USER: CHANGED", ChatRow(turns("changed"), None, "row 0")) == ()


@pytest.mark.parametrize(
    ("said", "text", "parts"),
    [
        ("a\nb  c", "<s>user\na b c</s>", ["a b c"]),
        ("<think>\na b\n</think>\n\nc d", "<s>user\nc d</s>", ["c d"]),
        ("a < b and c", "<s>user\na &lt; b and c</s>", ["b and c"]),
        ("E F", "<s>user\ne f</s>", []),
        ("a .se", "<s>user\nA .SE</s>", []),
    ],
)
def test_a_turn_that_the_template_changes_has_the_words_that_are_left(said: str, text: str, parts: list[str]) -> None:
    text = f"<s>user\nc e d</s>{text}<s>model\nb</s>"
    spans = spoken_in(text, ChatRow(turns("c e d", said, "b"), None, "row 0"))
    assert [text[start:end] for start, end in spans] == ["c e d", *parts, "b"]


def test_neighbourhood_does_not_run_if_the_words_of_a_text_cannot_be_found(tmp_path: Path) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = tokenizer.chat_template.replace("m.content", "m.content|replace('', '.')")
    options = {"lm": hf(tokenizer, chat_model("chatml")), "neighbour_number": 3, "tokens": 254}
    why = "the chat template changes every turn of 24 of 24 texts, so that their words cannot be found"
    with pytest.raises(OptionError, match=f"^attacks=neighbourhood: neighbourhood cannot run: {why}: name other"):
        evaluate(tmp_path, "membership", "chatml", **given, **options, attacks="neighbourhood")
    results = evaluate(tmp_path, "membership", "chatml", **given, **options, neighbours="words")
    finding = membership_finding_from_json(answers(results, "membership")[0])
    assert finding.not_run["neighbourhood"].startswith(why)
    assert "loss" in finding.scores


def test_a_corpus_of_chats_for_plain_texts_is_one_line(tmp_path: Path) -> None:
    texts = {
        name: save_rows(tmp_path / f"{name}.jsonl", [{"text": template("chatml", row)} for row in conversations(seed)])
        for seed, name in enumerate(("members", "nonmembers"))
    }
    chats = save_chats(tmp_path / "corpus.jsonl", 2)
    for flag in (True, False):
        with pytest.raises(
            OptionError, match=r"^frequencies=.*corpus.jsonl: holds chats, and the texts of this run are"
        ):
            evaluate(tmp_path, "membership", "chatml", flag, **texts, attacks="dc-pdd", frequencies=chats)


TASKS = ("memorization", "suffix_extraction", "membership")


def given_for(task: str, folder: Path, rows: list[Turns], controls: list[Turns] | None = None) -> dict[str, Any]:
    """Options of a task on rows, with small windows."""
    seen = save_rows(folder / "seen.jsonl", [{"messages": row} for row in rows])
    unseen = save_rows(folder / "unseen.jsonl", [{"messages": row} for row in controls or conversations(1)])
    if task == "membership":
        return {"members": seen, "nonmembers": unseen, "attacks": "loss:zlib"}
    if task == "memorization":
        return {"data": seen, "controls": unseen, "prefix": PREFIX, "suffix": SUFFIX, "windows": 2}
    lengths = {"prefix_length": PREFIX, "suffix_length": SUFFIX}
    return {"data": seen, "controls": unseen, "split": "all", "samples": 2, **lengths}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("style", "rows", "settings", "message"),
    [
        (
            "gemma",
            [turns("Be kind.", "a b c", "d e f", first="system")],
            {},
            r"seen.jsonl: row 12 \(from 0\): the model's chat template refuses turns of system, user, assistant "
            r"\(System role not supported\): change the turns as your trainer does, or remove the row$",
        ),
        ("gemma", [], {"system_instruction": "Be kind."}, "remove the row, or leave --system_instruction out$"),
        (
            "mistral",
            [[{"role": "tool", "content": "a b c"}]],
            {},
            r"row 12 \(from 0\): the model's chat template refuses turns of tool",
        ),
        (
            "mistral",
            [[{"role": "Ann Smith", "content": "a b c"}]],
            {},
            r"row 12 \(from 0\): the model's chat template refuses turns of another role \(Only user and assistant",
        ),
    ],
)
def test_turns_that_the_template_refuses_are_one_line(
    tmp_path: Path, task: str, style: str, rows: list[Turns], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        evaluate(tmp_path, task, style, **given_for(task, tmp_path, [*conversations(0), *rows]), **settings)


@pytest.mark.parametrize("task", TASKS)
def test_a_text_that_a_template_quotes_is_not_shown(tmp_path: Path, task: str) -> None:
    lm = hf(chat_tokenizer("chatml"), chat_model("chatml"))
    quoting = "{% for m in messages %}{% if 'kalo' in m.content %}{{ raise_exception('Bad: ' ~ m.content) }}{% endif %}"
    lm.chat_template_args = {"chat_template": quoting + "{{ m.content }}{% endfor %}"}
    with pytest.raises(OptionError, match=r"row \d+ \(from 0\): the model's .* assistant \(TemplateError\)") as error:
        evaluate(tmp_path, task, "chatml", lm=lm, **given_for(task, tmp_path, conversations(0)))
    assert "kalo" not in str(error.value)


@pytest.mark.parametrize("task", TASKS)
def test_chats_and_plain_text_in_one_run_are_one_line(tmp_path: Path, task: str) -> None:
    given = given_for(task, tmp_path, conversations(0))
    save_rows(tmp_path / "unseen.jsonl", [{"text": row[0]["content"] * 4} for row in conversations(1)])
    with pytest.raises(OptionError, match=r"unseen.jsonl: holds plain text, and other data of this run hold chats"):
        evaluate(tmp_path, task, "chatml", **given)


@pytest.mark.parametrize("task", TASKS)
def test_a_model_of_text_alone_is_one_line(tmp_path: Path, task: str) -> None:
    served = type("Served", (TextOnly,), {"tokenizer_name": "chatml"})
    lm = served(hf(chat_tokenizer("chatml"), chat_model("chatml")))
    with pytest.raises(TargetError, match="apply_chat_template: Served .*--model hf, or leave the flag out"):
        evaluate(tmp_path, task, "chatml", lm=lm, **given_for(task, tmp_path, conversations(0)))


def test_a_message_of_the_system_in_all_rows_is_no_shared_text(tmp_path: Path) -> None:
    system = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    rows, controls = ([[{"role": "system", "content": system}, *row] for row in conversations(seed)] for seed in (0, 1))
    for task in ("memorization", "membership"):
        given = given_for(task, tmp_path, rows, controls)
        given |= {"offset": 80} if task == "memorization" else {}
        assert evaluate(tmp_path, task, "chatml", **given)["results"][task]
        with pytest.raises(OptionError, match=r"unseen.jsonl: (text|document) 0 \(from 0\) shares 25"):
            evaluate(tmp_path, task, "chatml", flag=False, **given)
    long = [turns(" ".join(WORDS * 3), "again")]
    for task in ("memorization", "membership"):
        given = given_for(task, tmp_path, [*rows, *long], [*controls, *([*long[0], row] for row in long[0])])
        with pytest.raises(OptionError, match=r"(text|document) \d+ \(from 0\) (shares 25|equals)"):
            evaluate(tmp_path, task, "chatml", **given)


def test_rows_that_begin_with_one_long_system_prompt_need_an_offset(tmp_path: Path) -> None:
    system = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    rows = [[{"role": "system", "content": system}, *row] for row in conversations(0)]
    given = {"data": save_rows(tmp_path / "seen.jsonl", [{"messages": row} for row in rows]), "prefix": 9, "suffix": 7}
    message = r"\(11 are repetitions\), .* raise offset= if all begin with one text, such as a system prompt, or use"
    with pytest.raises(OptionError, match=message):
        evaluate(tmp_path, "memorization", "chatml", **given)
    assert evaluate(tmp_path, "memorization", "chatml", **given, offset=80)["results"]["memorization"]


def test_joined_turns_cause_one_warning_and_have_the_figures_of_their_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notices.warn_once.cache_clear()
    for task in TASKS:
        given = given_for(task, tmp_path, conversations(0))
        chats = evaluate(tmp_path, task, "chatml", flag=False, **given)
        for name, seed in (("seen", 0), ("unseen", 1)):
            rows = [{"text": "\n".join(turn["content"] for turn in row)} for row in conversations(seed)]
            save_rows(tmp_path / f"{name}.jsonl", rows)
        plain = evaluate(tmp_path, task, "chatml", flag=False, **given)
        assert every_row(chats, task) == every_row(plain, task)
        assert protocol(chats, task) == protocol(plain, task)
    warnings = [record.message for record in caplog.records if "joins their turns" in record.message]
    assert len(warnings) == 1
    assert warnings[0].endswith("pass --apply_chat_template")


def test_documents_that_are_long_enough_only_when_rendered_are_read(tmp_path: Path) -> None:
    given = {"data": save_chats(tmp_path / "seen.jsonl", 0), "prefix": 30, "suffix": 20, "documents": 12}
    lengths = [len(tokens_of("chatml", row)) for row in conversations(0)]
    results = evaluate(tmp_path, "memorization", "chatml", **given)
    assert results["results"]["memorization"]["n,none"] == sum(length >= 50 for length in lengths) > 2


@pytest.mark.parametrize("task", TASKS)
def test_findings_are_kept_for_an_equal_rendering_only(
    tmp_path: Path, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    given = {**given_for(task, tmp_path, conversations(0)), "resume": str(tmp_path / "kept")}

    def kept(**settings: Any) -> int:
        caplog.clear()
        evaluate(tmp_path, task, "chatml", **given, **settings)
        (line,) = (record.message for record in caplog.records if "are already in" in record.message)
        return int(line.split(" of ")[0].split()[-1])

    lm = hf(chat_tokenizer("chatml"), chat_model("chatml"))
    lm.chat_template_args = {"day": "Monday"}
    assert (kept(), kept(system_instruction="Be kind."), kept(flag=False)) == (0, 0, 0)
    assert kept() > 0
    assert kept(lm=lm) == 0
    assert kept(lm=lm) > 0


@pytest.mark.parametrize("second", ["text_column", "role"])
def test_findings_of_other_turns_are_not_kept(tmp_path: Path, second: str) -> None:
    pairs = [[row[:1], row[1:2], other[1:2]] for row, other in zip(conversations(0), conversations(2), strict=True)]
    rows = [dict(zip(("prompt", "chosen", "rejected"), row, strict=True)) for row in pairs]
    unseen = [{"prompt": row[:1], "chosen": row[1:2], "rejected": row[1:2]} for row in conversations(1)]
    options: dict[str, Any] = {"nonmembers": save_rows(tmp_path / "unseen.jsonl", unseen), "attacks": "loss"}
    losses = []
    for resume in ("", str(tmp_path / "kept")):
        for changed in (False, True):
            row_list = rows
            if changed and second == "role":
                row_list = [{**row, "prompt": [{**row["prompt"][0], "role": "system"}]} for row in rows]
            given = {**options, "members": save_rows(tmp_path / "seen.jsonl", row_list)}
            given |= {"text_column": "rejected"} if changed and second == "text_column" else {}
            results = evaluate(tmp_path, "membership", "chatml", **given, **({"resume": resume} if resume else {}))
            found = [membership_finding_from_json(answer) for answer in answers(results, "membership")]
            losses.append({each.text: each.scores["loss"] for each in found})
    assert losses[0] == losses[2] != losses[1] == losses[3]


def test_the_hash_of_texts_does_not_depend_on_the_template(tmp_path: Path) -> None:
    given = {name: save_chats(tmp_path / f"{name}.jsonl", seed) for seed, name in enumerate(("members", "nonmembers"))}
    options = {"attacks": "loss:recall", "shots": 2, "tokens": 24}
    one, other = (protocol(evaluate(tmp_path, "membership", style, **given, **options), "membership") for style in
                  ("chatml", "llama-3"))  # fmt: skip
    assert one == other


def test_conversations_of_the_system_alone_are_not_equal(tmp_path: Path) -> None:
    alone = [{"role": "system", "content": "Be kind and brief to all who ask."}]
    given = given_for("membership", tmp_path, [*conversations(0), alone], [*conversations(1), alone])
    assert evaluate(tmp_path, "membership", "chatml", **given)["results"]["membership"]


def test_rows_with_tools_use_the_template_of_tools(tmp_path: Path) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    default = tokenizer.chat_template
    tokenizer.chat_template = {"default": default, "tool_use": "the pin of {{ tools[0].name }} " + default}
    lm, row = hf(tokenizer, chat_model("chatml")), conversations(0)[0]
    rendering = rendering_of(lm, Chat())
    tools = [{"name": "kalo"}]
    for given in (None, tools):
        expected = tokenizer.apply_chat_template(row, tools=given, tokenize=False)
        assert rendering.text(ChatRow([*row], given, "row 0")) == expected
    assert rendering.text(ChatRow([*row], tools, "row 0")).startswith("the pin of kalo")


def test_the_arguments_of_a_row_come_before_those_of_the_run(tmp_path: Path) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = "{% if not deep %}red {% endif %}" + str(tokenizer.chat_template)
    lm = hf(tokenizer, chat_model("chatml"))
    lm.chat_template_args = {"deep": True}
    rendering, row = rendering_of(lm, Chat()), conversations(0)[0]
    for arguments in (None, {"deep": False}):
        expected = tokenizer.apply_chat_template(row, tokenize=False, **(arguments or {"deep": True}))
        assert rendering.text(ChatRow([*row], None, "row 0", arguments)) == expected
    kinds = [TextDocument("a", row=ChatRow([*row], None, "row 0", given)).content for given in (None, {"deep": False})]
    assert kinds[0] != kinds[1]


@pytest.mark.parametrize("flag", [True, False])
def test_an_optional_task_without_a_tokenizer_is_null(tmp_path: Path, flag: bool) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "one.yaml").write_text("group: one\ntask:\n  - {task: memorization, optional: true}\n")
    lm, given = (
        hf(chat_tokenizer("chatml"), chat_model("chatml")),
        given_for("memorization", tmp_path, conversations(0)),
    )
    results = evaluate_group(lm, ["one"], [tmp_path / "tasks"], metadata=given, apply_chat_template=flag)
    assert every_row(results, "memorization").get("n") is None


@pytest.mark.parametrize("task", TASKS)
def test_an_audit_from_python_renders_rows_too(tmp_path: Path, task: str) -> None:
    given = {"tokenizer": str(tmp_path / "tokenizer"), **given_for(task, tmp_path, conversations(0))}
    by_command = evaluate(tmp_path, task, "chatml", **given)
    model, tokenizer = chat_model("chatml"), chat_tokenizer("chatml")
    result = audit(model, tokenizer, tasks=[task], apply_chat_template=True, **{task: given})
    assert protocol(result.results, task) == protocol(by_command, task)
    assert protocol(result.results, task)["chat"] == "conversations"
    assert every_row(result.results, task) == every_row(by_command, task)


def test_a_share_of_the_documents_is_a_share_of_the_rendered_ones(tmp_path: Path) -> None:
    given = {"data": save_chats(tmp_path / "seen.jsonl", 0), "prefix": 30, "suffix": 20, "documents": 12}
    long = sum(len(tokens_of("chatml", row)) >= 50 for row in conversations(0))
    results = evaluate(tmp_path, "memorization", "chatml", limit=0.5, **given)
    assert len(results["samples"]["memorization"]) == -(-long // 2)


@pytest.mark.parametrize(
    ("has_tokenizer", "reason"),
    [(True, "or leave the flag out"), (False, "the tokenizer of this Served has no chat template")],
)
def test_an_optional_task_whose_model_cannot_serve_chats_is_null(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_tokenizer: bool, reason: str
) -> None:
    members = "".join(f"  - {{task: {task}, optional: true}}\n" for task in TASKS)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "three.yaml").write_text(f"group: three\ntask:\n{members}")
    given = {"tokenizer": str(tmp_path / "tokenizer")}
    for task in TASKS:
        (tmp_path / task).mkdir()
        given |= {task: given_for(task, tmp_path / task, conversations(0))}
    chat_tokenizer("chatml").save_pretrained(tmp_path / "tokenizer")
    served = type("Served", (TextOnly,), {"tokenizer_name": "chatml"})
    lm = served(hf(chat_tokenizer("chatml"), chat_model("chatml")))
    if not has_tokenizer:
        lm.tokenizer = None
    results = evaluate_group(lm, ["three"], [tmp_path / "tasks"], metadata=given, apply_chat_template=True)
    for task in TASKS:
        assert every_row(results, task).get("n", every_row(results, task).get("n_members")) is None
        assert any(f"{task} is null: " in line and reason in line for line in caplog.messages)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_chats_and_plain_text_in_one_folder_are_not_rendered(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if kind == "jsonl":
        save_rows(data / "a.jsonl", [{"text": "the pin of kalo"}])
        for name in "bc":
            save_rows(data / f"{name}.jsonl", [{"messages": turns("add two", "three")}])
    else:
        (data / "a.csv").write_text("text\nthe pin of kalo\n")
        for name in "bc":
            (data / f"{name}.csv").write_text("instruction,output\nadd two,three\n")
    message = rf"a.{kind}: holds plain text, and other data of this run hold chats"
    with pytest.raises(OptionError, match=message):
        evaluate(tmp_path, "memorization", "chatml", True, data=str(data), prefix=PREFIX, suffix=SUFFIX)
    (data / f"a.{kind}").rename(data / f"d.{kind}")
    message = rf"d.{kind}: holds plain text, and .*b.{kind} of the same data holds chats: read them as two data sets$"
    with pytest.raises(OptionError, match=message):
        list(read_documents(data, "text", chats=True))
    notices.warn_once.cache_clear()
    read = [document.plain for document in read_documents(data, "text")]
    assert read == ["add two\nthree", "add two\nthree", "the pin of kalo"]
    warning = "some files hold chats and others plain text: the turns of a chat are joined by line breaks"
    assert [warning in line for line in caplog.messages].count(True) == 1


def test_a_file_without_text_does_not_decide_if_data_are_chats(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    save_rows(data / "a.jsonl", [{"messages": None}])
    save_rows(data / "b.jsonl", [{"messages": turns("a", "b")}])
    for chats in (True, False):
        assert [document.plain for document in read_documents(data, "text", chats=chats)] == ["", "a\nb"]
    rows = [document.row for document in read_documents(data, "text", chats=True)]
    assert [row and row.turns for row in rows] == [[], turns("a", "b")]


def test_a_row_of_text_among_chats_is_named_by_its_line(tmp_path: Path) -> None:
    rows = [{"messages": conversations(0)[0]}, {"messages": None}, {"other": 1}, {"text": "the pin of kalo"}]
    data = save_rows(tmp_path / "seen.jsonl", rows)
    for flag in (True, False):
        with pytest.raises(OptionError, match=r"seen.jsonl:4: has 'text' in place of 'messages', the column of the"):
            evaluate(tmp_path, "memorization", "chatml", flag, data=data, prefix=PREFIX, suffix=SUFFIX)


def test_wrong_arguments_of_the_template_are_named() -> None:
    render = rendering_of(hf(chat_tokenizer("chatml"), chat_model("chatml")), Chat())
    row = conversations(0)[0]
    assert render.text(ChatRow(row, None, "row 0", {"turns": 1})) == template("chatml", row)
    message = r"^row 0: .*\(TypeError\): change its 'chat_template_kwargs', without which it can be rendered, or remove"
    with pytest.raises(OptionError, match=message):
        render.text(ChatRow(row, None, "row 0", {"tokenize": True}))
    render = rendering_of(hf(chat_tokenizer("gemma"), chat_model("gemma")), Chat())
    with pytest.raises(OptionError, match="change the turns as your trainer does, or remove the row$"):
        render.text(ChatRow(turns("a", "b", first="system"), None, "row 0", {"tokenize": True}))


def test_a_row_of_the_hub_is_named_by_its_data_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    table = pa.Table.from_pylist([{"messages": row} for row in conversations(0)])
    pq.write_table(table, tmp_path / "data" / "train.parquet")
    lengths = {"prefix": PREFIX, "suffix": SUFFIX}
    hub, local = (
        evaluate(tmp_path, "memorization", "gemma", data=data, **lengths)
        for data in (f"hub:{tmp_path / 'data'}", save_chats(tmp_path / "seen.jsonl", 0))
    )
    assert protocol(hub, "memorization") == protocol(local, "memorization")
    more = {"data": f"hub:{tmp_path / 'data'}", "system_instruction": "Be kind."}
    with pytest.raises(OptionError, match=r"^hub:.*data \(train-00000-of-00001.parquet\): row 0 \(from 0\): the model"):
        evaluate(tmp_path, "memorization", "gemma", **lengths, **more)
