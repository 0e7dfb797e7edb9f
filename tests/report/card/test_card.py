"""``leakage card``: the section, the marks around it, and the command."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from leakage_tasks.attacks.finding import Finding, finding_from_json
from leakage_tasks.core.errors import LeakageError, OptionError, ResultsError
from leakage_tasks.metrics.audit import audit
from leakage_tasks.report.card.card import make_card, read_measured_run
from leakage_tasks.report.card.file import END, START, split_card
from leakage_tasks.report.card.index import unfit
from leakage_tasks.report.card.sentences import describe_attacks
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.figures import Flag
from leakage_tasks.report.load.markdown import escaped
from tests.conftest import Refused
from tests.report.made import STAMP, declaration, leaking, results, tiered, write

MARKDOWN = MarkdownIt("commonmark").enable("table")
USEFUL = {"lambada": {"acc": 0.5, "acc_stderr,none": 0.05}, "heldout_bits_per_byte": {"bits_per_byte": 1.25}}
RUDE = "a`b|c\n<!-- leakage:end -->\n<b>--> [x](http://e) : # '\"&lt; \\ *y* _z_ ~~\n---\n\u2028{é"
HARMLESS = {"text", "softbreak", "strong_open", "strong_close", "code_inline", "text_special"}
"""What may stand in a line that holds text from outside: no link, no picture, no HTML, nothing slanted."""


def card(folder: Path, old: str | None = None, *, name: str | None = None, content: dict | None = None, **changed):
    found = results({**leaking(), **USEFUL}, **changed) if content is None else content
    run = read_measured_run(write(folder, found))
    return make_card(old, Path("README.md"), run, name=name, audited=[])


def test_every_headline_figure_is_there_with_what_belongs_to_it(tmp_path):
    text = card(tmp_path).section
    row = next(line for line in text.splitlines() if line.startswith("| Exposure, pooled"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    chance = declaration("canary_exposure")["rows"]["exposure"]["chance"]
    assert cells == ["Exposure, pooled, bits ↓", "9.00", "[7.50, 10.5]", "20 canaries planted", chance, "1.50"]
    assert "- Exposure, pooled: bits of the secret that the model reveals" in text
    assert "| lambada acc ↑ | 0.500 | [0.402, 0.598] | 40 documents |" in text
    assert "lm_eval --model hf --model_args pretrained=models/one --tasks canary_exposure," in text
    assert "measured on 1970-01-01 how much" in text


def test_the_day_is_that_on_which_leakage_was_measured(tmp_path):
    write(tmp_path / "a", results(leaking(), date=86400.0))
    write(tmp_path / "b", results({"arc": {"acc": 0.5}}, date=10 * 86400.0))
    run = read_measured_run(tmp_path)
    made = make_card(None, Path("README.md"), run, audited=[])
    assert "measured on 1970-01-02 how much" in made.section
    assert "in the same run" not in made.section


def test_the_headline_is_what_was_planted_once_and_each_number_of_copies_has_its_row(tmp_path):
    made = card(tmp_path, content=tiered())
    titles = [line.split("|")[1].strip() for line in made.section.splitlines() if line.startswith("| E")]
    assert titles[:4] == [
        "Exposure, planted once, bits ↓",
        "Exposure, planted 16 times, bits ↓",
        "Exposure, pooled, bits ↓",
        "Exposure, maximum, bits ↓",
    ]
    named = [each.metric_type for each in ModelCard(made.text).data.eval_results]
    few = tiered(n_x1=9)
    for rows in (*few["results"].values(), *(each["leakage"]["hidden_metrics"] for each in few["configs"].values())):
        for name in [name for name in rows if "_x1_ci" in name]:
            del rows[name]
    alone = [each.metric_type for each in ModelCard(card(tmp_path, content=few).text).data.eval_results]
    assert alone == ["exposure", "exposure_max", "extracted"]
    assert named == ["exposure_x1", "exposure", "exposure_max", "extracted_x1", "extracted"]


def test_it_says_what_the_figures_are_not(tmp_path):
    text = card(tmp_path, content=tiered()).section
    assert "An exposure of 1.44 bits is chance: the mean over secrets that the model never saw. It" in text
    assert "They do not show if a benchmark's test set was in the training data, which is called contamination." in text
    assert (
        "- Not tried: the tasks contamination\\_test, membership, memorization, suffix\\_extraction, "
        "untargeted\\_extraction; the attacks beam, brute-force, contrastive-beam, " in text
    )
    assert "### Sentences to quote" in text


def test_on_a_classifier_it_names_no_task_that_needs_text(tmp_path):
    attacks = [{"attack": "class-loss", "access": "black box"}]
    declared = {"canary_exposure": declaration("canary_exposure", attacks=attacks)}
    text = card(tmp_path, content=results({"canary_exposure": {"exposure": 9.0}}, declared=declared)).section
    assert "- Not tried: the task canary\\_extraction; other prompts before a secret" in text


def test_rows_that_are_not_shown_are_counted(tmp_path):
    content = results(
        {
            "canary_exposure": {
                "exposure": 9.0,
                "control_exposure": 1.5,
                "rank": 3.0,
                "rank,exact": 4.0,
                "class_loss": None,
            }
        }
    )
    assert f"2 more rows are in `results_{STAMP}.json`" in card(tmp_path, content=content).section


def test_the_results_are_the_headline_figures(tmp_path):
    found = ModelCard(card(tmp_path).text).data.eval_results
    told = {(each.dataset_type, each.metric_type): each.metric_value for each in found}
    assert told == {
        ("lm-eval-leakage/canary_exposure", "exposure"): 10.5,
        ("lm-eval-leakage/canary_exposure", "exposure_max"): 12.0,
        ("lm-eval-leakage/canary_extraction", "extracted"): 0.49,
        ("lm-eval-leakage/lambada", "acc"): 0.5,
        ("lm-eval-leakage/heldout_bits_per_byte", "bits_per_byte"): 1.25,
    }
    exposure = next(each for each in found if each.metric_type == "exposure")
    assert exposure.metric_name == "Exposure, pooled (worse end of the interval)"
    assert exposure.metric_args["estimate"] == 9.0
    assert exposure.metric_args["ci_low"] == 7.5
    assert exposure.metric_args["ci_high"] == 10.5
    assert exposure.metric_args["controls"] == 1.5
    assert exposure.metric_args["count"] == 20


@pytest.mark.parametrize(
    ("model", "front", "task"),
    [
        ("hf", "", "text-generation"),
        ("classifier-scorer", "", "text-classification"),
        ("masked-lm", "", "fill-mask"),
        ("hf", "pipeline_tag: translation", "translation"),
    ],
)
def test_the_task_type_is_the_cards_or_the_models(tmp_path, model, front, task):
    changed = {"config": {"model": model, "model_args": {"pretrained": "m"}}}
    found = ModelCard(card(tmp_path, f"---\n{front}\n---\n", **changed).text).data.eval_results
    assert {each.task_type for each in found} == {task}


def test_figures_that_are_null_are_left_out_and_a_null_task_is_named(tmp_path):
    content = results({**leaking(exposure_max=None), "canary_extraction": {"extracted": None, "n_planted": None}})
    made = card(tmp_path, content=content)
    assert [each.metric_type for each in ModelCard(made.text).data.eval_results] == ["exposure"]
    assert "Exposure, maximum" not in made.section
    assert "`canary_extraction`: no values" in made.section


def test_warnings_come_before_the_figures(tmp_path):
    text = card(tmp_path, content=results(leaking(n_planted=4))).section
    assert "Read with care" in text
    assert text.index("underpowered") < text.index("| Metric |")


def test_a_fault_is_said_and_its_figures_do_not_go_to_the_index(tmp_path):
    tasks = leaking()
    tasks["canary_exposure"]["control_p"] = 1e-9
    made = card(tmp_path, content=results(tasks))
    heading = "The measurement of `canary_exposure` is faulty: do not rely on its values."
    assert made.section.index(heading) < made.section.index("| Metric |")
    assert [each.metric_type for each in ModelCard(made.text).data.eval_results] == ["extracted"]
    assert made.unfit == (("canary_exposure", "the controls show a fault"),)
    del tasks["canary_extraction"]
    assert "The measurement is faulty: do not rely on these values." in card(tmp_path, content=results(tasks)).section


def test_only_faults_are_listed_below_the_sentence_on_faults(tmp_path):
    tasks = leaking(n_planted=4)
    tasks["canary_exposure"]["control_p"] = 1e-9
    declared = {"canary_extraction": declaration("canary_extraction", no_headline="a profile for trials")}
    made = card(tmp_path, content=results(tasks, declared=declared)).section
    warnings = [part for part in made.split("\n\n") if part.startswith("> **")]
    assert [part.splitlines()[0] for part in warnings] == [
        "> **The measurement of `canary_exposure` is faulty: do not rely on its values.**",
        "> **For trial use: the values of `canary_extraction` do not represent the model.**",
        "> **Read with care.**",
    ]
    faults, trial, care = (part.splitlines()[2:] for part in warnings)
    assert [line.split(":")[1] for line in (*faults, *trial)] == [
        " controls are not at chance",
        " no primary metric",
    ]
    assert care
    assert all("underpowered" in line for line in care)


def test_a_fault_of_other_tasks_is_named_by_its_own_reason_without_the_remedy():
    flag = Flag("membership", "auc", 0.5, "inconclusive: the texts differ: take others", True, waiver="texts-differ")
    board = SimpleNamespace(entries=[SimpleNamespace(flags=[flag])])
    assert unfit(cast(Any, board)) == {"membership": "inconclusive: the texts differ"}


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ({"log2_size": [7.81, 7.81], "sizes": [225, 225]}, "225"),
        ({"log2_size": [7.81, 14.0], "sizes": [225, None]}, "225 to 2^14.0 (about 16,000)"),
        ({"log2_size": [7.81, 13.2], "sizes": [225, 9417]}, "225 to 9,417"),
        # Results of earlier versions have only rounded logarithms.
        ({"log2_size": [7.81, 7.81]}, "2^7.8 (about 220)"),
        ({"log2_size": [3.32, 6.64]}, "10 to 100"),
        ({"log2_size": 6.64}, "100"),
        ({"log2_size": [60.0, 60.0]}, "2^60.0"),
        ({"log2_size": [7.81, 7.81], "sizes": [225]}, "2^7.8 (about 220)"),
    ],
)
def test_a_small_size_is_exact(tested, words):
    assert describe_tested(tested) == f"each secret is one of {words} possible values"


def test_what_was_tested_in_words():
    tested = {
        "planted": 20,
        "controls": 1000,
        "repetitions": {"1": 7, "4": 13},
        "kinds": ["random"],
        "log2_size": [6.64, 29.9],
        "example": "The <pin> of nudilu is {digits:9}.",
    }
    assert escaped(describe_tested(tested)) == (
        "20 canaries planted (7 of them once, 13 of them 4 times); 1,000 controls, generated like the canaries and "
        "never planted; kind: synthetic, drawn at random; each secret is one of 100 to 2^29.9 (about "
        "1,000,000,000) possible "
        "values; for example "
        "“The &lt;pin&gt; of nudilu is {digits:9}.”, with the secret in braces"
    )
    pairs = {"pairs": 1000, "prefix_tokens": [50, 50], "suffix_tokens": [10, 50]}
    assert describe_tested(pairs) == (
        "1,000 pairs of a prefix and the suffix that follows it; prefixes of 50 tokens; suffixes of 10 to 50 tokens"
    )


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ({}, "not recorded in the results"),
        ({"canaries": 12}, "canaries: 12"),
        ({"uniform": True}, "by the secrets' format every possible value was equally likely"),
        ({"planted": "many", "log2_size": None, "kinds": 3}, "planted: many; log2\\_size: null; kinds: 3"),
        ({"planted": 2, "repetitions": ["x"]}, "2 canaries planted"),
        ({"a|b": {"c": "<d>"}}, 'a\\|b: {"c": "&lt;d&gt;"}'),
    ],
)
def test_what_is_not_known_stands_as_name_and_value(tested, words):
    assert escaped(describe_tested(tested)) == words


def test_texts_and_items_of_a_benchmark_are_described_without_names_of_entries():
    texts = {"members": 30, "nonmembers": 40, "members_available": 30, "nonmembers_available": 2000}
    attacks = {"seed": 0, "chosen_attack": "min-k++", "not_run": {"ratio": "no reference model"}}
    assert describe_tested({**texts, "clusters": 12, **attacks}) == (
        "30 texts that the model was trained on, all in the data; 40 texts that it was not trained on, drawn from "
        "2,000; 12 groups of texts that belong together; seed 0; the values are of the attack min-k++, chosen on the "
        "other half of the texts; not run: the attack ratio"
    )
    items = {"benchmark": "gsm8k", "items": 1000, "items_available": 1319, "shards": 50, "shuffles": 30, "twins": 7}
    assert describe_tested(items) == (
        "the benchmark gsm8k; 1,000 items of the benchmark, the first of 1,319; 50 shards of consecutive items; "
        "30 shuffles of each shard; 7 items with a twin in other words"
    )


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ({"corpus_documents": 1}, "1 document of the training text"),
        ({"pairs": 1}, "1 pair of a prefix and the suffix that follows it"),
        ({"documents_repeated": 1}, "1 drawn document equal to others"),
        ({"near_copies": 1}, "1 of the copies has other words around the secret"),
        ({"planted": 1}, "1 canary planted"),
        ({"planted": 1, "kinds": ["natural"], "planting": "none"}, "1 secret of the training text"),
        ({"corpus_documents": 21}, "21 documents of the training text"),
    ],
)
def test_one_document_is_in_the_singular(tested, words):
    assert describe_tested(tested).split(";")[0] == words


def test_the_generator_of_candidates_is_named():
    generator = "text:./writer, 300 texts pruned to template, seed 3"
    assert describe_tested({"generator": generator}) == f"candidates of the generator {generator}"


def test_a_natural_example_is_not_shown():
    assert "secret" not in describe_tested({"kinds": ["natural", "random"], "example": "a secret"})


def test_attacks_with_their_access():
    assert describe_attacks([("exposure", "next-token probabilities"), ("greedy", "")]) == (
        "exposure (next-token probabilities); greedy"
    )
    assert "not recorded" in describe_attacks([])


@pytest.mark.parametrize(
    ("tested", "said", "unsaid"),
    [
        ({"planted": 1}, "Canaries represent", "Some suffixes"),
        ({"pairs": 1}, "Some suffixes", "Canaries"),
        ({"planted": 1, "kinds": ["natural"]}, "Natural secrets", "Suffixes"),
    ],
)
def test_limits_are_those_of_what_was_tested(tmp_path, tested, said, unsaid):
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    content = results({"canary_exposure": {"exposure": 9.0}}, declared=declared)
    text = card(tmp_path, content=content).section.split("### Limits")[1]
    assert said in text
    assert unsaid not in text


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(name=st.one_of(st.just(RUDE), st.text(min_size=1, max_size=30).filter(str.strip)))
def test_a_rude_name_breaks_nothing(tmp_path_factory, name):
    made = card(tmp_path_factory.mktemp("run"), "# Body\n", name=name)
    again = card(tmp_path_factory.mktemp("run"), made.text, name=name)
    assert again.text == made.text
    assert len(re.findall(f"^{START}$", made.text, re.M)) == len(re.findall(f"^{END}$", made.text, re.M)) == 1
    assert (
        ModelCard(made.text).data.model_name == made.name == " ".join(name.encode("utf-8", "replace").decode().split())
    )
    parts = split_card(made.text, Path("README.md"))
    assert parts.after == f"---\n# Body\n\n{START}\n{made.section}\n{END}\n"
    tokens = MARKDOWN.parse(made.section)
    opening = next(token for token in tokens if token.type == "inline" and "how much" in token.content)
    bold = [child.type for child in opening.children].index("strong_open")
    assert [child.type for child in opening.children].count("strong_close") == 1
    assert opening.children[bold - 1].content.endswith("from ")
    assert kinds_of(tokens) <= HARMLESS


@pytest.mark.parametrize("where", ["model", "task", "words", "attack", "tested", "version"])
def test_rude_results_break_nothing(tmp_path, where):
    declared = declaration("canary_exposure")
    task = RUDE if where == "task" else "canary_exposure"
    if where == "words":
        declared["rows"]["exposure"] |= {"description": RUDE, "title": RUDE, "chance": RUDE, "unit": RUDE}
    if where == "attack":
        declared["attacks"] = [{"attack": RUDE, "access": RUDE}]
    if where == "tested":
        declared["tested"] = {RUDE: RUDE, "kinds": [RUDE], "planted": 3, "example": RUDE}
    content = results({task: leaking()["canary_exposure"]}, declared={task: declared})
    if where == "model":
        content |= {"model_name": RUDE, "config": {"model": RUDE, "model_args": {"pretrained": RUDE, "x": RUDE}}}
    if where == "version":
        content["lm_eval_version"] = RUDE
    made = card(tmp_path, "# Body\n", content=content)
    assert card(tmp_path, made.text, content=content).text == made.text
    assert made.text.count(f"\n{END}\n") == made.text.count(f"\n{START}\n") == 1
    assert ModelCard(made.text).data.eval_results[0].metric_value == 10.5
    text = MARKDOWN.parse(made.section)
    assert [token.type for token in text].count("table_open") == 1
    assert {len(row) for row in rows_of(text)} == {6}
    assert kinds_of(text) <= HARMLESS
    assert [token.content for token in text if token.type == "html_block"] == [made.section.split("\n")[0] + "\n"]
    assert [token.info for token in text if token.type == "fence"] == ["bash"]


def kinds_of(tokens: list) -> set[str]:
    return {child.type for token in tokens for child in token.children or ()}


def rows_of(tokens: list) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            rows[-1].append(token.type)
    return rows


@pytest.mark.parametrize(
    "body", ["", "Body", "Body\n", "Body\n\n", "Body\n \n", "---\n\n---\n", "\tcode\n```\nx\n```\n"]
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_section_comes_after_the_body_and_is_replaced_there(body, newline):
    old = f"---\na: 1\n---\n{body}".replace("\n", newline)
    first = split_card(old, Path("README.md")).with_section("one\n\ntwo")
    assert first.text.startswith(old)
    lines = ["", START, "one", "", "two", END, ""]
    assert first.text.endswith(newline.join(lines))
    after = f"{newline}more"
    moved = split_card(first.text + after, Path("README.md")).with_section("three")
    assert moved.text.startswith(old)
    assert moved.text.endswith(newline.join(["", START, "three", END, ""]) + after)
    assert moved.with_section("three") == moved


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f"x\n{START}\ny\n",
            f"README.md:5: '{START}' without '{END}': add '{END}' after the section",
        ),
        (
            f"x\n{END}\ny\n",
            f"README.md:5: '{END}' without '{START}': add '{START}' before the section",
        ),
        (f"{START}\n{START}\n{END}\n", f"README.md: '{START}' is in lines 4 and 5: keep one of each mark"),
        (f"{START}\n{END}\n{END}\n", f"README.md: '{END}' is in lines 5 and 6: keep one of each mark"),
        (f"{END}\n{START}\n", f"README.md:4: '{END}' is before '{START}'"),
    ],
)
def test_marks_that_do_not_fit_are_refused(body, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        split_card(f"---\na: 1\n---\n{body}", Path("README.md")).with_section("x")


def test_a_mark_within_a_line_is_none():
    text = f"Between `{START}` and `{END}`.\n"
    assert split_card(text, Path("README.md")).with_section("x").text == f"{text}\n{START}\nx\n{END}\n"


def test_a_card_of_bare_carriage_returns_gets_its_results_once(ran, tmp_path):
    path, place = write(tmp_path / "results", results(leaking())), tmp_path / "README.md"
    place.write_bytes(b"# One\r\rText.\r")
    ran("card", path, "--card", place)
    assert ModelCard.load(place).data.model_name == "one"
    assert ran("card", path, "--card", place)[0] == f"{place}: up to date, nothing written\n"


def test_a_name_in_the_card_sends_no_control_characters_to_the_terminal(ran, tmp_path):
    path, place = write(tmp_path / "results", results(leaking())), tmp_path / "README.md"
    place.write_text('---\nmodel-index:\n- name: "m\\e[2J\\a"\n  results: []\n---\n')
    assert "of m\\x1b[2J\\x07 written" in ran("card", path, "--card", place)[0]


def test_a_new_card_is_made_and_then_left_alone(ran, tmp_path):
    path, place = write(tmp_path / "results", results(leaking())), tmp_path / "README.md"
    assert ran("card", path, "--card", place)[0] == f"{place}: section and 3 model-index results of one written\n"
    data = ModelCard.load(place).data
    assert data.model_name == "one"
    before = place.stat()
    assert ran("card", tmp_path / "results", "--card", place)[0] == f"{place}: up to date, nothing written\n"
    assert place.stat() == before
    text = place.read_text()
    assert text.startswith("---\nmodel-index:\n- name: one\n")
    assert f"---\n\n# one\n\n{START}\n" in text


def test_mode_link_mark_and_line_ends_of_the_file_stay(ran, tmp_path):
    path, real = write(tmp_path / "results", results(leaking())), tmp_path / "real.md"
    old = "\ufeff---\r\nlicense: mit # é\r\n---\r\n# T\r\nno end"
    real.write_bytes(old.encode())
    real.chmod(0o640)
    link = tmp_path / "README.md"
    link.symlink_to(real)
    ran("card", path, "--card", link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    new = real.read_bytes().decode()
    assert new.startswith("\ufeff---\r\nlicense: mit # é\r\nmodel-index:\r\n")
    assert f"\r\n---\r\n# T\r\nno end\r\n\r\n{START}\r\n" in new
    assert "\n" not in new.replace("\r\n", "")
    # The hub's library reads a file with that mark from version 2 on.
    assert ModelCard(new.removeprefix("\ufeff")).data.license == "mit"
    ran("card", path, "--card", link)
    assert real.read_bytes().decode() == new


def test_a_dry_run_prints_the_section_and_writes_nothing(ran, tmp_path):
    path, place = write(tmp_path / "results", results(leaking())), tmp_path / "README.md"
    assert "\n## Training-data leakage\n" in ran("card", path, "--card", place, "--dry-run")[0]
    assert not place.exists()


def test_samples_give_the_audit(ran, tmp_path):
    run = results({"canary_exposure": leaking()["canary_exposure"]}, samples=12)
    path, place = write(tmp_path, run), tmp_path / "README.md"
    assert "### Audit" not in ran("card", path, "--card", place, "--dry-run")[0]
    found = [sample(number, planted=number < 6) for number in range(12)]
    logged = tmp_path / f"samples_canary_exposure_{STAMP}.jsonl"
    logged.write_text("".join(json.dumps(line) + "\n" for line, _ in found))
    text = ran("card", path, "--card", place, "--dry-run", "--delta", "1e-5")[0]
    assert "### Audit with controls, at δ = 1e-05" in text
    auc, tpr = audit([finding for _, finding in found], 1e-5)[:2]
    assert f"| {auc.title} | 1.00 | [" in text
    assert f"- {tpr.title}: no value: requires 100 controls" in text


def sample(number: int, planted: bool):
    """A logged line of canary_exposure, and the finding in it."""
    finding = Finding(
        canary=f"c{number}",
        kind="random",
        attack="exposure",
        planted=planted,
        repetitions=int(planted),
        rank=1 if planted else 500 + number,
        method="exact",
        log2_size=10.0,
    )
    task_settings = {"attack": "exposure", "budget": 10, "seed": 0, "settings": {}}
    line = {
        "doc_id": number,
        "doc": {"id": f"c{number}"},
        "filter": "none",
        "resps": [[finding.to_json()]],
        "arguments": {"gen_args_0": {"arg_0": "", "arg_1": task_settings}},
    }
    return line, finding_from_json(finding.to_json())


@pytest.fixture
def declined(refused: Refused) -> Callable[..., str]:
    """The words of an error that leaves the card ``place`` as it was; ``old`` is its text before."""

    def run(*arguments: object, place: Path, old: str | bytes | None = None) -> str:
        if old is not None:
            place.write_bytes(old if isinstance(old, bytes) else old.encode())
        before = place.read_bytes() if place.is_file() else None
        error = refused("card", *arguments, "--card", place)
        assert (place.read_bytes() if place.is_file() else None) == before
        assert not [each for each in place.parent.iterdir() if each.name.endswith(".part")]
        return error.removeprefix("leakage: ")

    return run


def test_what_is_not_one_run_with_leakage_figures_is_refused(declined, tmp_path):
    place, folder = tmp_path / "README.md", tmp_path / "results"
    write(folder / "a", results(leaking(), model="m/one"))
    write(folder / "b", results(leaking(), model="m/two"))
    message = declined(folder, place=place)
    assert "2 runs (one, two)" in message
    assert "give the results file of one run" in message
    useful = write(tmp_path / "useful", results({"lambada": {"acc": 0.5}}))
    assert "no leakage was measured" in declined(useful, place=place)
    null = write(tmp_path / "null", results({"canary_exposure": {"exposure": None}}))
    assert "no leakage was measured" in declined(null, place=place)
    assert isinstance(pytest.raises(ResultsError, read_measured_run, null).value, LeakageError)


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (b"# \xff\n", "not UTF-8 at byte 2"),
        ("---\na: [\n---\n", "README.md:3: the front matter is not YAML"),
        ("---\ntags: 5\n---\n", "huggingface_hub cannot load it"),
        ("---\nmodel-index:\n- name: one\n  results:\n  - task: 1\n---\n", "huggingface_hub cannot load it"),
        (f"# T\n{START}\n", "README.md:2: "),
    ],
)
def test_a_card_that_cannot_be_written_to_is_left_alone(declined, tmp_path, old, message):
    path = write(tmp_path / "results", results(leaking()))
    assert message in declined(path, place=tmp_path / "README.md", old=old)


@pytest.mark.parametrize(
    ("option", "value"), [("--delta", "1"), ("--delta", "-0.1"), ("--delta", "nan"), ("--name", " ")]
)
def test_unusable_options_are_refused(declined, tmp_path, option, value):
    path = write(tmp_path / "results", results(leaking()))
    assert declined(path, option, value, place=tmp_path / "README.md").startswith(option)


def test_places_that_cannot_be_written_to_are_refused(refused, tmp_path):
    path = write(tmp_path / "results", results(leaking()))
    assert "no folder" in refused("card", path, "--card", tmp_path / "no" / "a.md")
    assert "not a file" in refused("card", path, "--card", tmp_path)
    assert os.listdir(tmp_path) == ["results"]


def test_names_are_kept_from_the_card(tmp_path):
    old = "---\nmodel-index:\n- name: My model: v2\n  results: []\n---\n".replace("My model: v2", "'My model: v2'")
    made = card(tmp_path, old)
    assert made.name == "My model: v2"
    assert "**My model: v2**" in made.section
    assert yaml.safe_load(made.text.split("---")[1])["model-index"][0]["name"] == "My model: v2"
