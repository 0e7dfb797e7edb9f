"""``--metadata resume=DIR``: what a killed run found is used again, by the same run alone."""

import copy
import json
import logging
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig, get_peft_model

from benchmarks.kill_and_resume import difference, without_seconds
from benchmarks.kill_and_resume import main as kill_and_resume
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.former_names import with_former_attacks
from leakage_tasks.core.journal import FILES, Journal, open_journal
from leakage_tasks.tasks import attack_handler
from leakage_tasks.tasks import resume as resuming
from leakage_tasks.tasks.label_accuracy import LABEL_OPTIONS
from leakage_tasks.tasks.options import typed_options
from leakage_tasks.tasks.resume import Findings, Resume
from tests.chats import chat_model, chat_tokenizer
from tests.core.test_processes import run
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import TextOnly
from tests.tasks.test_canary_tasks import BOTH, evaluate

CANARIES = make_canaries("pin {unique} is {digits:2}", 3, repetitions=(1, 10), controls=2, seed=3)


def model(**settings):
    return HFLM(**{"pretrained": tiny_gpt2(letters()), "tokenizer": letters(), "batch_size": 4, **settings})


@pytest.fixture
def manifest(tmp_path):
    write_manifest(CANARIES, tmp_path / "canaries.jsonl")
    return tmp_path / "canaries.jsonl"


@pytest.fixture
def attacked(monkeypatch):
    """The canaries of every attack that was run."""
    seen = []

    def noting(settings, target, canaries):
        seen.append([canary.id for canary in canaries])
        return choose(settings, target, canaries)

    choose = attack_handler.chosen_attacks
    monkeypatch.setattr(attack_handler, "chosen_attacks", noting)
    return seen


class Killed(BaseException):
    """What nothing of ours catches."""


def killed_after(monkeypatch, number, torn=b""):
    """Let the process end as so many findings have been appended."""
    left = iter(range(number))
    append = Journal.append

    def appending(self, record):
        if next(left, None) is None:
            if torn:
                with next(self.folder.glob(FILES)).open("ab") as out:
                    out.write(torn)
            raise Killed
        append(self, record)

    monkeypatch.setattr(Journal, "append", appending)


def outcome(results):
    samples = {
        task: [{name: each for name, each in sample.items() if name != "arguments"} for sample in every]
        for task, every in results["samples"].items()
    }
    return without_seconds(json.loads(json.dumps([samples, results["results"]], default=str)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The outcome of a run that nothing ended."""
    manifest = tmp_path_factory.mktemp("whole") / "canaries.jsonl"
    write_manifest(CANARIES, manifest)
    return outcome(evaluate(model(), BOTH, {"canaries": str(manifest)}))


TORN = b'{"key": "'


@pytest.mark.parametrize(("number", "torn"), [(0, b""), (1, TORN), (5, b""), (5, TORN), (8, b"")])
def test_a_run_that_was_killed_goes_on(manifest, tmp_path, monkeypatch, attacked, caplog, whole, number, torn):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    with monkeypatch.context() as patched:
        killed_after(patched, number, torn)
        with pytest.raises(Killed):
            evaluate(model(), BOTH, given)
    attacked.clear()
    with caplog.at_level(logging.INFO):
        results = evaluate(model(), BOTH, given)
    assert [len(each) for each in attacked] == [max(0, 5 - number), min(5, 10 - number)]
    assert difference(outcome(results), whole) < 1e-6
    assert f"canary_exposure: {min(5, number)} of 5 findings are already in" in caplog.text
    assert f"canary_extraction: {max(0, number - 5)} of 5 findings are already in" in caplog.text
    attacked.clear()
    assert difference(outcome(evaluate(model(), BOTH, given)), whole) < 1e-6
    assert attacked == [[], []]


def test_a_torn_line_is_said_once_and_found_out_anew(manifest, tmp_path, attacked, caplog):
    notices.warn_once.cache_clear()
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    evaluate(model(), ["canary_exposure"], given)
    (file,) = (tmp_path / "kept").glob(FILES)
    file.write_bytes(file.read_bytes()[:-7])
    attacked.clear()
    evaluate(model(), ["canary_exposure"], given)
    assert [len(each) for each in attacked] == [1]
    assert caplog.text.count("1 torn or damaged line left out") == 1


def test_findings_of_attacks_by_their_former_names_are_used_again(manifest, tmp_path, attacked, monkeypatch):
    """An earlier version stored them with hashes of the former names."""
    former = {
        **{"canaries": str(manifest), "resume": str(tmp_path / "stored"), "budget": 50},
        "canary_exposure": {"attack": "sampled", "sampled.histogram": 5},
        "canary_extraction": {"attack": "sampling", "sampling.draws": 5},
    }
    fingerprint = resuming.fingerprint

    def with_former_names(values):
        return fingerprint({**values, "asked": with_former_attacks(values["asked"])} if "asked" in values else values)

    with monkeypatch.context() as patched:
        patched.setattr(resuming, "fingerprint", with_former_names)
        first = evaluate(model(), BOTH, former)
    attacked.clear()
    current = {
        **{"canaries": str(manifest), "resume": str(tmp_path / "stored"), "budget": 50},
        "canary_exposure": {"attack": "rank-sample", "rank-sample.histogram": 5},
        "canary_extraction": {"attack": "sample-tokens", "sample-tokens.draws": 5},
    }
    assert difference(outcome(evaluate(model(), BOTH, current)), outcome(first)) < 1e-6
    assert attacked == [[], []]
    current["canary_exposure"]["rank-sample.histogram"] = 6
    evaluate(model(), BOTH, current)
    assert [len(canaries) for canaries in attacked[2:]] == [5, 0]


# -- what decides a finding -------------------------------------------------------------------------------------


def nudged(net):
    """One weight in its last bit."""
    with torch.no_grad():
        weight = net.transformer.h[1].mlp.c_fc.bias
        weight[3] = torch.nextafter(weight[3], torch.tensor(1.0))
    return net


def configured(net, **fields):
    for name, value in fields.items():
        setattr(net.config, name, value)
    return net


def adapted(alpha=1, seed=0):
    base = fresh()
    torch.manual_seed(seed)
    net = get_peft_model(base, LoraConfig(r=2, lora_alpha=alpha, target_modules=["c_attn"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    return net


def fresh():
    return copy.deepcopy(tiny_gpt2(letters()))


def renamed_tokens():
    tokenizer = copy.deepcopy(letters())
    tokenizer.chat_template = "{{ messages }}"
    return tokenizer


MODELS = {
    "one weight, by a bit": lambda: model(pretrained=nudged(fresh())),
    "another model": lambda: model(pretrained=tiny_gpt2(letters(), seed=1)),
    "dtype": lambda: model(pretrained=fresh().to(torch.bfloat16)),
    "configuration": lambda: model(pretrained=configured(fresh(), scale_attn_by_inverse_layer_idx=True)),
    "an adapter": lambda: model(pretrained=adapted()),
    "tokenizer": lambda: model(tokenizer=renamed_tokens()),
    "first token": lambda: model(prefix_token_id=5),
    "room": lambda: model(max_length=40),
    "model_id": model,
}
OPTIONS = {
    "seed": {"seed": 1},
    "budget": {"budget": 19_000},
    "known": {"known": "before"},
    "context": {"context": "Dear all, "},
    "attack": {"attack": "rank-sample"},
    "option": {"precision": 0.2},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with the findings of a run of ``canary_exposure``, and the manifest of the run."""
    folder = tmp_path_factory.mktemp("stored")
    write_manifest(CANARIES, folder / "canaries.jsonl")
    evaluate(model(), ["canary_exposure"], {"canaries": str(folder / "canaries.jsonl"), "resume": str(folder / "kept")})
    return folder


@pytest.fixture
def given(stored, tmp_path):
    """The settings of that run, with a copy of its folder."""
    shutil.copytree(stored / "kept", tmp_path / "kept")
    return {"canaries": str(stored / "canaries.jsonl"), "resume": str(tmp_path / "kept")}


def test_with_the_same_model_everything_is_used_again(given, attacked):
    evaluate(model(), ["canary_exposure"], given)
    assert attacked == [[]]


@pytest.mark.parametrize("changed", MODELS)
def test_with_another_model_nothing_is_used_again(given, attacked, changed):
    more = {"model_id": "mine"} if changed == "model_id" else {}
    evaluate(MODELS[changed](), ["canary_exposure"], given | more)
    assert [len(each) for each in attacked] == [5]


@pytest.mark.parametrize("changed", OPTIONS)
def test_with_another_option_nothing_is_used_again(given, attacked, changed):
    evaluate(model(), ["canary_exposure"], given | OPTIONS[changed])
    assert [len(each) for each in attacked] == [5]


def test_an_adapters_strength_counts(manifest, tmp_path, attacked):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    for alpha, new in ((1, 5), (1, 0), (2, 5)):
        attacked.clear()
        evaluate(model(pretrained=adapted(alpha)), ["canary_exposure"], given)
        assert [len(each) for each in attacked] == [new]


def test_a_finding_names_its_model_with_the_adapter(manifest, tmp_path):
    lm = model()
    lm.pretrained, lm.peft = "base", "adapter"
    evaluate(lm, ["canary_exposure"], {"canaries": str(manifest), "resume": str(tmp_path / "kept")})
    (file,) = (tmp_path / "kept").glob(FILES)
    assert {json.loads(line)["model"] for line in file.read_text().splitlines()} == {"base + adapter"}


def test_findings_of_another_arithmetic_are_not_used(manifest, tmp_path, attacked, monkeypatch):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    evaluate(model(), ["canary_exposure"], given)
    monkeypatch.setattr(resuming, "ARITHMETIC", resuming.ARITHMETIC + 1)
    attacked.clear()
    evaluate(model(), ["canary_exposure"], given)
    assert [len(each) for each in attacked] == [5]


@pytest.mark.parametrize("field", [{"secret": ("0", "7")}, {"template": "pin of {digits:2}"}])
def test_of_a_changed_manifest_the_changed_canary_alone_is_attacked(manifest, tmp_path, attacked, field):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    evaluate(model(), ["canary_exposure"], given)
    attacked.clear()
    write_manifest([replace(CANARIES[0], **field), *CANARIES[1:]], manifest)
    evaluate(model(), ["canary_exposure"], given)
    assert attacked == [[CANARIES[0].id]]


def test_the_reference_model_counts_by_its_content(manifest, tmp_path, attacked):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept"), "signal": "calibrated"}
    places = []
    for number in (0, 1):
        places.append(tmp_path / f"untuned{number}")
        letters().save_pretrained(places[-1])
        tiny_gpt2(letters(), seed=7 + number).save_pretrained(places[-1])
    shutil.copytree(places[0], tmp_path / "same")
    for place, new in ((places[0], 5), (tmp_path / "same", 0), (places[1], 5)):
        attacked.clear()
        evaluate(model(), ["canary_exposure"], given | {"untuned": str(place)})
        assert [len(each) for each in attacked] == [new]


def test_the_chat_template_and_the_system_text_count(manifest, tmp_path, attacked):
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"))
    write_manifest(make_canaries("pin is {digits:2}", 2, controls=1), manifest)
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    chat = {"apply_chat_template": True}
    for settings, new in (({}, 3), (chat, 3), (chat | {"system_instruction": "Be kind."}, 3), (chat, 0), ({}, 0)):
        attacked.clear()
        evaluate(lm, ["canary_exposure"], given, **settings)
        assert [len(each) for each in attacked] == [new]


def test_what_decides_nothing_does_not_count(manifest, tmp_path, attacked):
    """Company, the batch, the model's place and what the tokenizer was last used for."""
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    letters().save_pretrained(tmp_path / "model")
    fresh().save_pretrained(tmp_path / "model")
    evaluate(HFLM(pretrained=str(tmp_path / "model"), batch_size=4, device="cpu"), ["canary_exposure"], given)
    write_manifest([*CANARIES[1:], Canary("more", "pin {digits:2}", ("1", "2"))], manifest)
    (tmp_path / "model").rename(tmp_path / "moved")
    lm = HFLM(pretrained=str(tmp_path / "moved"), batch_size=3, device="cpu")
    lm.tokenizer(["a", "pin"], padding=True, truncation=True, max_length=2)
    attacked.clear()
    evaluate(lm, ["canary_exposure"], given)
    assert attacked == [["more"]]


# -- models whose weights are elsewhere ----------------------------------------------------------------------


def test_a_model_of_text_needs_a_name(manifest, tmp_path, attacked):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept")}
    with pytest.raises(OptionError, match="weights of this TextOnly cannot be read.*pass --metadata model_id=NAME"):
        evaluate(TextOnly(model()), ["canary_exposure"], given)
    for name, new in (("one", 5), ("one", 0), ("two", 5)):
        attacked.clear()
        evaluate(TextOnly(model()), ["canary_exposure"], given | {"model_id": name})
        assert [len(each) for each in attacked] == [new]


def test_a_named_model_may_be_served_at_another_address(manifest, tmp_path, attacked):
    given = {"canaries": str(manifest), "resume": str(tmp_path / "kept"), "model_id": "one"}
    for address, new in (("http://a:8000/v1/completions", 5), ("http://b:9000/v1/completions", 0)):
        attacked.clear()
        lm = TextOnly(model())
        lm.base_url = address
        evaluate(lm, ["canary_exposure"], given)
        assert [len(each) for each in attacked] == [new]


def test_a_class_of_its_own_needs_a_name_too(manifest, tmp_path):
    class Steered(HFLM):
        pass

    lm = Steered(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    with pytest.raises(OptionError, match="model_id"):
        evaluate(lm, ["canary_exposure"], {"canaries": str(manifest), "resume": str(tmp_path / "kept")})


# -- natural secrets, foreign folders, other tasks -------------------------------------------------------------

SECRET = ("7", "3", "9", "1", "4")


@pytest.mark.slow
@pytest.mark.parametrize("salt", ["5a" * 16, None])
@pytest.mark.parametrize("reveal", [False, True])
def test_of_a_natural_secret_no_more_is_kept_than_samples_show(tmp_path, attacked, salt, reveal):
    natural = Canary("n", "pin {digits:5}", SECRET, kind="natural", salt=salt)
    write_manifest([natural], tmp_path / "n.jsonl")
    given = {"canaries": str(tmp_path / "n.jsonl"), "resume": str(tmp_path / "kept"), "reveal": reveal}
    first = outcome(evaluate(model(), BOTH, given))
    kept = "".join(file.read_text() for file in (tmp_path / "kept").glob(FILES))
    assert "73914" not in "".join(each for each in kept if each.isalnum())
    assert ("guesses" in kept) == (salt is not None)
    assert ('\\"text\\"' in kept) == (reveal and salt is not None)
    attacked.clear()
    assert outcome(evaluate(model(), BOTH, given)) == first
    # Without a salt nothing tells it from another that would not confirm guesses at it.
    assert attacked == ([[], []] if salt else [["n"], ["n"]])
    attacked.clear()
    evaluate(model(), BOTH, given | {"reveal": not reveal})
    assert attacked == [["n"], ["n"]]
    write_manifest([replace(natural, secret=("0",) * 5)], tmp_path / "n.jsonl")
    attacked.clear()
    evaluate(model(), BOTH, given)
    assert attacked == [["n"], ["n"]]


def test_a_foreign_folder_ends_the_run_before_an_attack(manifest, tmp_path, attacked):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(LeakageError, match=r"holds 'thesis.tex'"):
        evaluate(model(), BOTH, {"canaries": str(manifest), "resume": str(tmp_path / "mine")})
    assert attacked == []


def test_tasks_of_one_pass_take_no_notice():
    _, given = typed_options({"data": "x.csv", "resume": "kept", "model_id": "m"}, "label_accuracy", LABEL_OPTIONS)
    assert given == {"data": "x.csv"}


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_killed_by_the_system_at_random(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        kill_and_resume(["-o", str(tmp_path / "runs"), "--kills", "3", "--canaries", "12"])
    assert stop.value.code == 0, capsys.readouterr().out
    assert "after 3 kills" in capsys.readouterr().out


def test_findings_that_another_process_has_just_made_are_not_called_earlier_ones(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(resuming, "processes_of", lambda lm: SimpleNamespace(size=2))
    monkeypatch.setattr(Resume, "_model", lambda self, model_id: {})
    with caplog.at_level(logging.INFO):
        Resume(SimpleNamespace(rank=0)).findings(str(tmp_path), None, "canary_exposure", {}, [1], str, whole=True)
    assert f"0 of 1 findings are already in {tmp_path}, from earlier runs or from other processes" in caplog.text


# -- a model in parts -------------------------------------------------------------------------------------------


def test_processes_that_hold_one_model_go_by_what_all_of_them_know_and_the_first_writes(tmp_path):
    """They read the folder one after the other, and another run may append meanwhile."""
    folder, about = tmp_path / "kept", {"group": "g", "task": "t", "model": "m"}

    def findings():
        return Findings(open_journal(folder), about, [*range(4)], str)

    def agreed(own):
        found = findings()
        found.known = dict.fromkeys([0, 1, 2] if own.rank == 0 else [0, 1, 3], "old")
        found.agree(own)
        for place in found.missing:
            found.add(place, "exposure", "new")
        return found.known

    assert run(2, agreed) == [{0: "old", 1: "old"}] * 2
    (file,) = folder.glob(FILES)
    assert findings().known == {2: "new", 3: "new"}
    assert file.read_text().count("\n") == 2
