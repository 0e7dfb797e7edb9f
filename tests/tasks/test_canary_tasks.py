"""The tasks inside the real harness."""

import hashlib
import json
import logging
import math
from dataclasses import replace

import pytest
from lm_eval.models.huggingface import HFLM
from lm_eval.utils import make_table

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, plant, write_manifest
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.report.load.results_file import every_row
from leakage_tasks.tasks import canary_tasks as tasks
from tests.oracles import brute_rank, letters, tiny_gpt2
from tests.report.saved import Writer
from tests.targets.text_models import Limited

BOTH = ["canary_exposure", "canary_extraction"]


@pytest.fixture
def lm():
    return HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)


def write_canaries(folder):
    canaries = make_canaries("pin {unique} is {digits:2}", 3, repetitions=(1, 10), controls=2)
    write_manifest(canaries, folder / "canaries.jsonl")
    return folder / "canaries.jsonl", canaries


@pytest.fixture
def manifest(tmp_path):
    return write_canaries(tmp_path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Both tasks on :func:`manifest`, without options and with every row."""
    path, _ = write_canaries(tmp_path_factory.mktemp("runs"))
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    return {rows: evaluate(lm, BOTH, {"canaries": str(path), "rows": rows}) for rows in ("brief", "all")}


def evaluate(lm, names, metadata=None, **settings):
    return evaluate_tasks(lm, names, metadata or {}, **settings)


def findings_of(results):
    """Findings by task and canary."""
    return {
        task: {sample["doc"]["id"]: finding_from_json(sample["resps"][0][0]) for sample in samples}
        for task, samples in results["samples"].items()
    }


def test_results_are_those_of_brute_force(runs, manifest):
    canaries, results = manifest[1], runs["all"]
    ranks = {canary.id: brute_rank(tiny_gpt2(letters()), letters(), canary)[0] for canary in canaries}
    bits = {name: math.log2(100 / rank) for name, rank in ranks.items()}
    planted = [canary.id for canary in canaries if canary.planted]
    exposure = results["results"]["canary_exposure"]
    assert exposure["exposure,none"] == pytest.approx(sum(bits[name] for name in planted) / 3)
    assert exposure["exposure_max,none"] == pytest.approx(max(bits[name] for name in planted))
    assert exposure["rank,none"] == sorted(ranks[name] for name in planted)[1]
    controls = [bits[name] for name in bits if name not in planted]
    assert exposure["control_exposure,none"] == pytest.approx(sum(controls) / 2)
    extraction = results["results"]["canary_extraction"]
    assert extraction["extracted,none"] == sum(ranks[name] == 1 for name in planted) / 3
    assert extraction["success_at_10,none"] == sum(ranks[name] <= 10 for name in planted) / 3
    assert (extraction["n_planted,none"], extraction["n_controls,none"]) == (3, 2)


def test_the_results_are_strict_json_with_directions(runs):
    json.dumps(runs["brief"]["results"], allow_nan=False)
    better = runs["brief"]["higher_is_better"]["canary_exposure"]
    assert (better["exposure_x1"], better["exposure"], better["rank"]) == (False, False, None)


def test_the_finding_is_in_each_logged_sample_with_its_hashes(lm, manifest, runs):
    samples = runs["brief"]["samples"]["canary_exposure"]
    findings = [finding_from_json(sample["resps"][0][0]) for sample in samples]
    assert [found.canary for found in findings] == ["canary-0", "control-0", "canary-1", "control-1", "canary-2"]
    assert len({found.manifest for found in findings}) == 1
    assert all(len(found.manifest) == len(found.settings_hash) == 64 for found in findings)
    other = evaluate(lm, ["canary_exposure"], {"canaries": str(manifest[0]), "seed": 1})["samples"]["canary_exposure"]
    assert finding_from_json(other[0]["resps"][0][0]).settings_hash != findings[0].settings_hash


def test_options_for_one_task_leave_the_other_alone(lm, manifest):
    metadata = {"canaries": str(manifest[0]), "rows": "all", "canary_extraction": {"attack": "greedy"}}
    samples = evaluate(lm, BOTH, metadata)["samples"]
    attacks = {name: finding_from_json(samples[name][0]["resps"][0][0]).attack for name in BOTH}
    assert attacks == {"canary_exposure": "exposure", "canary_extraction": "greedy"}


@pytest.mark.parametrize(
    ("part", "chosen"),
    [({"limit": 2}, ["canary-0", "control-0"]), ({"samples": {"canary_exposure": [0, 4]}}, ["canary-0", "canary-2"])],
)
def test_a_run_of_some_canaries_has_their_rows_and_no_verdict_and_says_that_it_was_limited(lm, manifest, part, chosen):
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(manifest[0])}, **part)
    whole, row = len(manifest[1]), results["results"]["canary_exposure"]
    assert [sample["doc"]["id"] for sample in results["samples"]["canary_exposure"]] == chosen
    assert row["n_x1,none"] == sum(name.startswith("canary") for name in chosen)
    assert "exposure_x10,none" not in row
    assert row["alias"] == f"canary_exposure (limited to 2 of {whole})"
    declared = results["configs"]["canary_exposure"]["leakage"]
    assert declared["no_headline"] == (
        f"the run was limited to 2 of {whole} canaries (--limit or --samples): run all of them"
    )


@pytest.mark.parametrize("part", [{"limit": 100}, {"samples": {"canary_exposure": [2, 1, 0, 4, 3]}}])
def test_a_limit_that_leaves_no_canary_out_is_none(lm, tmp_path, part):
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2), tmp_path / "c.jsonl")
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")}, **part)
    assert "no_headline" not in results["configs"]["canary_exposure"]["leakage"]
    assert "chance" in results["results"]["canary_exposure"]["alias"]


def test_without_canaries_built_in_controls_run_and_show_chance(lm, caplog):
    notices.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        results = evaluate(lm, ["canary_exposure"], limit=2)
    row = results["results"]["canary_exposure"]
    assert row["control_exposure,none"] is not None
    assert row["alias"] == "canary_exposure (self-test)"
    rows = {name.removesuffix(",none") for name in row if "_stderr" not in name} - {"alias", "name", "sample_len"}
    assert rows == {"control_exposure", "control_exposure_max", "control_p", "control_p_low", "n_controls"}
    assert "a self-test on built-in canaries" in caplog.text
    assert results["configs"]["canary_exposure"]["leakage"]["built_in"]


def test_a_self_test_that_is_asked_for_needs_no_warning(lm, caplog):
    notices.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        results = evaluate(lm, ["canary_exposure"], {"canaries": "builtin"}, limit=2)
    assert results["results"]["canary_exposure"]["alias"] == "canary_exposure (self-test)"
    assert results["configs"]["canary_exposure"]["leakage"]["built_in"]
    assert "self-test on built-in canaries" not in caplog.text


def test_canaries_for_trying_out_have_no_headline(lm, tmp_path):
    made = make_canaries("pin {unique} is {digits:2}", 1, controls=1)
    write_manifest([replace(canary, profile="smoke") for canary in made], tmp_path / "c.jsonl")
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")})
    assert results["results"]["canary_exposure"]["alias"] == "canary_exposure (no primary metric)"
    assert "--profile smoke" in results["configs"]["canary_exposure"]["leakage"]["no_headline"]


@pytest.mark.parametrize(("bits", "said"), [(6.0, "above chance"), (1.0, "not above chance")])
def test_the_table_tells_the_verdict_beside_the_name(lm, manifest, monkeypatch, bits, said):
    usual = tasks.CanaryExposure.SCORING

    def metrics(task_settings, copies):
        rows = usual.metrics(task_settings, copies)
        return [replace(row, aggregate=lambda values: bits) if row.title.startswith("Exp") else row for row in rows]

    monkeypatch.setattr(tasks.CanaryExposure, "SCORING", replace(usual, metrics=metrics))
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(manifest[0])})
    assert results["results"]["canary_exposure"]["alias"] == f"canary_exposure ({said})"


@pytest.mark.parametrize("named", [False, True])
def test_the_task_says_whether_planting_is_proven(manifest, tmp_path, named):
    path, _ = manifest
    (tmp_path / "train.txt").write_text("line\n" * 20)
    plant(path, tmp_path / "train.txt", tmp_path / "planted.txt")
    given = {"canaries": str(path)} | ({"planted": str(tmp_path / "planted.txt")} if named else {})
    tested = tasks.CanaryExposure({"task": "canary_exposure", "metadata": given}).tested()
    assert (tested["planting"], tested["planted_data"]) == ("proven", "planted.txt")
    assert tested["planted_sha256"] == hashlib.sha256((tmp_path / "planted.txt").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("task", "attack", "classes"),
    [
        ("canary_exposure", "auto", ["attribute inference", "membership inference"]),
        ("canary_extraction", "beam", ["reconstruction"]),
        ("canary_extraction", "greedy", ["regurgitation"]),
    ],
)
def test_the_results_declare_the_classes_of_the_attacks_that_ran(lm, manifest, task, attack, classes):
    results = evaluate(lm, [task], {"canaries": str(manifest[0]), "attack": attack}, limit=2)
    assert results["configs"][task]["leakage"]["classes"] == classes


def test_planted_data_without_a_manifest_are_refused(lm, tmp_path):
    with pytest.raises(OptionError, match=r"planted=.*: goes with canaries=…: give their manifest too"):
        evaluate(lm, ["canary_exposure"], {"planted": str(tmp_path / "planted.txt")})


def test_supporting_canaries_are_not_attacked(lm, tmp_path):
    items = make_canaries(
        "pin {unique} is {digits:2}", 1, label="a", supporting=1, supporting_labels=["a", "b"], controls=1
    )
    assert any(item.kind == "supporting" for item in items)
    write_manifest(items, tmp_path / "c.jsonl")
    samples = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")})["samples"]["canary_exposure"]
    assert [sample["doc"]["kind"] for sample in samples] == ["random", "random"]


SECRET = tuple("739")


def test_a_natural_secret_shows_only_when_asked(lm, tmp_path):
    # The guesses are made to hold the secret: it is the model's own favourite.
    favourite = evaluate_favourite(lm, tmp_path)
    natural = Canary("n", "pin {digits:3}", favourite, kind="natural")
    write_manifest([natural], tmp_path / "n.jsonl")
    for reveal in (False, True):
        results = evaluate(lm, BOTH, {"canaries": str(tmp_path / "n.jsonl"), "reveal": reveal})
        assert results["results"]["canary_extraction"]["success_at_10,none"] == 1
        assert "extracted,none" not in results["results"]["canary_extraction"]
        logged = json.dumps({name: results[name] for name in ("samples", "configs", "results")}, default=str)
        spelled = ("pin " + "".join(favourite) in logged, json.dumps(list(favourite)) in logged.replace("\\", ""))
        assert spelled == (reveal, reveal)


def test_made_and_natural_canaries_have_equal_rows(lm, tmp_path, caplog):
    """The harness warns of metrics that were not scored on the same number of documents."""
    made = make_canaries("pin {digits:3}", 2, controls=2, seed=1)
    natural = [replace(canary, kind="natural", id=f"n-{canary.id}", uniform=True) for canary in made]
    write_manifest([*made, *natural], tmp_path / "mixed.jsonl")
    row = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "mixed.jsonl")})["results"]["canary_exposure"]
    assert row["n_identifiers,none"] == 2
    assert "same number of documents" not in caplog.text.replace("\n", " ")


def evaluate_favourite(lm, tmp_path):
    write_manifest([Canary("x", "pin {digits:3}", SECRET)], tmp_path / "x.jsonl")
    samples = evaluate(lm, ["canary_extraction"], {"canaries": str(tmp_path / "x.jsonl")})["samples"]
    return finding_from_json(samples["canary_extraction"][0]["resps"][0][0]).guesses[0].filling


ROWS = {
    "exposure_x1",
    "n_x1",
    "exposure_x10",
    "n_x10",
    "control_exposure",
    "control_p",
    "min_detectable_exposure",
    "hidden_metrics",
}


def test_the_table_is_short_and_the_other_rows_are_in_results_and_samples(runs):
    results, every = runs["brief"], runs["all"]
    names = (name.split(",")[0] for name in results["results"]["canary_exposure"] if name.endswith(",none"))
    shown = {name for name in names if not name.endswith("_stderr")}
    assert shown == ROWS | {"n_planted", "n_controls"}
    assert "exposure_x1" in make_table(results)
    told = every_row(results, "canary_exposure")
    assert told == every_row(every, "canary_exposure")
    assert {f"{name},none" for name in told} <= set(every["results"]["canary_exposure"])
    assert results["results"]["canary_exposure"]["hidden_metrics,none"] == len(told) - len(shown) + 1
    pairs = zip(results["samples"]["canary_exposure"], every["samples"]["canary_exposure"], strict=True)
    for brief, whole in pairs:
        rows = {**{name: brief[name] for name in brief["metrics"]}, **brief["hidden_metrics"]}
        assert {name: rows[name] for name in whole["metrics"]} == {name: whole[name] for name in whole["metrics"]}


class Ranked(Limited):
    """One process of several: it sees its share of the documents."""

    def __init__(self, inner, rank, world_size):
        super().__init__()
        self.inner, self._rank, self._world_size = inner, rank, world_size

    def loglikelihood(self, requests):
        return self.inner.loglikelihood(requests)


def shard(manifest, rank, world_size):
    task = tasks.CanaryExposure({"task": "canary_exposure", "metadata": {"canaries": str(manifest), "budget": 40}})
    task.build_all_requests(rank=rank, world_size=world_size)
    return task.instances


def test_more_processes_than_canaries_are_refused_on_every_one(manifest):
    for rank in (0, 5):
        with pytest.raises(OptionError, match="5 canaries for 6 processes"):
            shard(manifest[0], rank, 6)


def test_another_model_gives_the_same_numbers(lm, manifest, runs):
    metadata = {"canaries": str(manifest[0]), "rows": "all"}
    fast = runs["all"]["results"]["canary_exposure"]
    slow = evaluate(Ranked(lm, 0, 1), ["canary_exposure"], metadata)["results"]["canary_exposure"]
    for name in ("exposure,none", "rank,none", "log_perplexity,none", "control_exposure,none"):
        assert slow[name] == pytest.approx(fast[name], abs=1e-3)


def test_an_attack_of_the_other_task_is_refused_with_the_way_out(lm, manifest):
    with pytest.raises(
        OptionError, match="attack='greedy' is for extraction, not for canary_exposure: use auto, "
    ) as caught:
        evaluate(lm, BOTH, {"canaries": str(manifest[0]), "attack": "greedy"})
    assert '{"canary_exposure": {"attack": ' in str(caught.value)


def test_the_harness_request_cache_does_not_bring_back_another_manifest(lm, manifest, tmp_path, monkeypatch):
    first = evaluate(lm, ["canary_exposure"], {"canaries": str(manifest[0])}, cache_requests=True)
    others = make_canaries("code {unique} is {digits:2}", 2, controls=1, seed=9)
    write_manifest(others, tmp_path / "other.jsonl")
    second = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "other.jsonl")}, cache_requests=True)
    hashes = [
        finding_from_json(run["samples"]["canary_exposure"][0]["resps"][0][0]).manifest for run in (first, second)
    ]
    assert hashes[0] != hashes[1]
    assert second["results"]["canary_exposure"]["n_planted,none"] == 2


def test_a_model_that_only_writes_can_still_be_guessed_from(lm, manifest):
    metadata = {"canaries": str(manifest[0]), "rows": "all", "canary_extraction": {"attack": "greedy"}}
    row = evaluate(Writer(), ["canary_extraction"], metadata)["results"]["canary_extraction"]
    assert row["extracted,none"] == sum(canary.secret == ("4", "2") for canary in manifest[1] if canary.planted) / 3
    with pytest.raises(TargetError, match="gives no log-likelihoods"):
        evaluate(Writer(), ["canary_exposure"], {"canaries": str(manifest[0])})


def test_processes_that_would_wait_for_each_other_are_refused(lm, manifest):
    item = Ranked(lm, 0, 2)
    item.batch_size = "auto"
    with pytest.raises(TargetError, match="pass --batch_size with a number"):
        item.attack(shard(manifest[0], 0, 1))


def test_an_attack_the_model_cannot_serve_says_what_would_do(lm, manifest):
    with pytest.raises(TargetError, match="attack=brute-force"):
        evaluate(Ranked(lm, 0, 1), ["canary_extraction"], {"canaries": str(manifest[0]), "attack": "shortest-path"})


def test_usefulness_is_the_harness_bits_per_byte(lm, tmp_path):
    (tmp_path / "t.txt").write_text("the pin is lost\n")
    row = evaluate(lm, ["heldout_bits_per_byte"], {"text": str(tmp_path / "t.txt")})["results"]["heldout_bits_per_byte"]
    from tests.oracles import direct_costs

    expected = direct_costs(lm.model, lm.tokenizer, ["the pin is lost\n"])[0] / 16
    assert row["bits_per_byte,none"] == pytest.approx(expected, abs=1e-4)
