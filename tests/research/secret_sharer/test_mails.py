"""What the study of mails makes of trials that are known, and what its trials keep to themselves."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.coarse import band_chances
from leakage_tasks.canaries.detect import find_secrets
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.secret_sharer import mails as secret_sharer_mails
from leakage_tasks.research.secret_sharer.mails import claims
from leakage_tasks.research.victims.language_model import LanguageModelRecipe
from leakage_tasks.research.victims.mails import invented_mails

SMOKE, PAPER = StudyPlan("smoke"), StudyPlan("paper")


def secret(bits: float, extracted: bool, controls: tuple[float, ...] = (0.5, 2.4)) -> dict[str, Any]:
    known = {"kind": "ccn", "times": 2, "method": "exact", "log2_size": 53.15, "extrapolated": bits + 1}
    return {**known, "bits": bits, "controls": list(controls), "extracted": extracted}


def verdicts(secrets: list[dict[str, Any]]) -> list[bool | None]:
    return [claim.holds for claim in claims(secrets)]


def test_the_paper_stands_above_what_was_measured() -> None:
    found = [StudyTrial({"sender": 1}, {"bytes": 2_000_000, "secrets": [secret(40.0, True), secret(10.0, False)]}, 1.0)]
    rows = secret_sharer_mails.report(found, SMOKE).rows
    assert [row["exposure"].value for row in rows[:10]] == [52, 13, 16, 10, 22, 32, 13, 36, 29, 48]
    first, second = rows[10:]
    assert (first["sender"], first["mails"], first["extracted"], second["extracted"]) == ("B", "2 MB", "yes", "no")
    assert (first["exposure"], first["skew-normal"], first["controls"]) == (40.0, 41.0, pytest.approx(1.45))


def test_claims_hold_and_fail() -> None:
    assert verdicts([secret(30.0 + place, place > 2) for place in range(6)]) == [True, True, True, True]
    assert verdicts([secret(1.0 + place / 10, False, (20.0, 30.0)) for place in range(6)]) == [False] * 4
    assert verdicts([]) == [None, None, None, None]


def test_a_bound_is_shown_as_one() -> None:
    bound = secret(35.26, False) | {"method": "lower_bound"}
    found = [StudyTrial({"sender": 0}, {"bytes": 1, "secrets": [bound]}, 1.0)]
    assert secret_sharer_mails.report(found, SMOKE).rows[-1]["exposure"] == "≥ 35.3"


@pytest.mark.parametrize(("place", "proven", "bits"), [(1, 3, 20.0), (4, 4, 18.0), (4, 3, 5.0), (None, 9, 5.0)])
def test_a_proven_place_is_the_rank(place: int | None, proven: int, bits: float) -> None:
    known = {"canary": "c", "planted": True, "repetitions": 1, "kind": "natural", "log2_size": 20.0}
    found = Finding(attack="exposure", rank=2.0**15, method="lower_bound", **known)
    search = Finding(attack="shortest-path", place=place, proven=proven, **known)
    told = secret_sharer_mails._exposure(secret_sharer_mails._ranked(found, search))
    assert told == {"bits": bits, "method": "exact" if bits > 5 else "lower_bound"}


def test_lines_are_split_once_and_for_all() -> None:
    text = "".join(f"line {place}\n" for place in range(2000))
    training, validation = secret_sharer_mails.split_lines(text, 0)
    assert sorted((training + validation).splitlines()) == sorted(text.splitlines())
    assert 150 < validation.count("\n") < 250
    assert secret_sharer_mails.split_lines(text, 0) == (training, validation)
    assert secret_sharer_mails.split_lines(text, 1) != (training, validation)


def test_a_trial_tells_numbers_alone(tmp_path: Path) -> None:
    (config,) = secret_sharer_mails.trials(SMOKE)
    result = secret_sharer_mails.run(config, tmp_path)
    ground = secret_sharer_mails.EXPERIMENTS["smoke"]
    (sender,) = invented_mails(1, ground.mails, times=ground.times)
    assert {each["kind"] for each in result["secrets"]} == {"ccn", "ssn"}
    written = re.sub(r"[ .-]", "", json.dumps(result))
    assert all(found.normal not in written for found in find_secrets(sender.text))
    assert all(isinstance(value, int | float | bool | list) or key in ("kind", "method")
               for each in result["secrets"] for key, value in each.items())  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_the_users_own_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    with pytest.raises(LeakageError, match="mails: no .txt files: set LEAKAGE_DATA"):
        secret_sharer_mails.trials(PAPER)
    (tmp_path / "mails").mkdir()
    (tmp_path / "mails" / "b.txt").write_text("call me\n")
    (tmp_path / "mails" / "a.txt").write_text("no secret here\n" * 20)
    first, second = secret_sharer_mails.trials(PAPER)
    assert first["sha256"] == hashlib.sha256(b"no secret here\n" * 20).hexdigest()
    assert (first["sender"], second["sender"]) == (0, 1)
    assert secret_sharer_mails.run(first, tmp_path) == {"bytes": 300, "secrets": []}


@pytest.mark.slow
def test_of_the_users_own_mails_bands_are_told_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = secret_sharer_mails.EXPERIMENTS["smoke"]
    (sender,) = invented_mails(1, ground.mails, times=ground.times)
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    (tmp_path / "mails").mkdir()
    (tmp_path / "mails" / "a.txt").write_text(sender.text)
    config = {"ground": asdict(replace(ground, senders=0)), "sender": 0, "seed": 0}
    own = secret_sharer_mails.run(config, tmp_path)["secrets"]
    (usual,) = secret_sharer_mails.trials(SMOKE)
    exact = secret_sharer_mails.run(usual, tmp_path)["secrets"]
    assert len(own) == len(exact) > 0
    for banded, found in zip(own, exact, strict=True):
        for one, other in zip([banded["bits"], *banded["controls"]], [found["bits"], *found["controls"]], strict=True):
            # A rank of |R| is 0 bits in a band too.
            assert one != other or other == 0
            powers = (found["log2_size"] - one) / math.log2(10)
            bands = [abs(one - bits) for _, bits in band_chances(found["log2_size"])]
            # The mean of a band, or its end where an estimate is too wide, or where all fillings end.
            assert min(*bands, abs(powers - round(powers)), abs(one)) < 1e-6
        assert banded["method"] in ("banded", "lower_bound")


def test_mails_that_are_not_utf_8_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    (tmp_path / "mails").mkdir()
    (tmp_path / "mails" / "a.txt").write_bytes("au café\n".encode("latin-1"))
    with pytest.raises(LeakageError, match="a.txt: not UTF-8 .byte 7.: convert it"):
        secret_sharer_mails.trials(PAPER)


@pytest.mark.parametrize(("scale", "streams"), [("smoke", 32), ("small", 16)])
def test_the_streams_are_those_of_the_scale(scale: Any, streams: int) -> None:
    told = secret_sharer_mails.report([], StudyPlan(scale)).differences
    assert any(f"in {streams} streams" in sentence for sentence in told)
    recipe = secret_sharer_mails.EXPERIMENTS[scale].recipe
    assert LanguageModelRecipe(**recipe).batch_size == streams
