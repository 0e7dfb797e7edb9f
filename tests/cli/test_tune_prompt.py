"""``leakage tune-prompt`` from files to a folder, interrupted and resumed, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.training.prompt import tuning as prompt_tuning
from tests.conftest import Leakage, Refused
from tests.training.prompt.prompt_oracle import VOCABULARY, make_model, make_pairs

SMALL = ("--prompt-length", 3, "--epochs", 3, "--batch-size", 8, "--learning-rate", 0.05, "--device", "cpu")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ``model`` with its tokenizer, and ``data`` of 60 pairs of tokens."""
    folder = tmp_path_factory.mktemp("tune")
    make_model().save_pretrained(folder / "model")
    char_tokenizer([chr(97 + place) for place in range(VOCABULARY - 2)]).save_pretrained(folder / "model")
    (folder / "data").mkdir()
    pairs = make_pairs(60)
    np.save(folder / "data" / "train_prefix.npy", np.array([pair.prefix for pair in pairs], dtype=np.uint16))
    np.save(folder / "data" / "train_suffix.npy", np.array([pair.suffix for pair in pairs], dtype=np.uint16))
    return folder


def words(given: Path, output: Path, *more: object) -> list[object]:
    return ["tune-prompt", "--model", given / "model", "--data", given / "data", "-o", output, *SMALL, *more]


def vectors(output: Path) -> Any:
    return load_file(output / "adapter_model.safetensors")["prompt_embeddings"]


def test_it_tunes_on_the_data_s_own_splits_and_saves_an_adapter(leakage: Leakage, given: Path, tmp_path: Path) -> None:
    code, out, err = leakage(*words(given, tmp_path / "prompt"))
    assert (code, "MLE" in err) == (0, True)
    first, last = out.splitlines()
    assert first == (
        "51 training and 5 validation pairs; at most 21 steps, the first 2 of them warm-up (a tenth; the paper uses "
        "500)"
    )
    assert last.startswith(f"{tmp_path / 'prompt'}: 3 vectors for {given / 'model'}, from epoch ")
    config = json.loads((tmp_path / "prompt" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(given / "model")
    assert vectors(tmp_path / "prompt").shape == (3, 16)
    assert [each.name for each in tmp_path.iterdir()] == ["prompt"]


def test_interrupted_and_resumed_it_writes_the_same_prompt(
    leakage: Leakage, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leakage(*words(given, tmp_path / "whole"))[0] == 0
    save = prompt_tuning.save_checkpoint

    def interrupted(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(prompt_tuning, "save_checkpoint", interrupted)
        code, _, err = leakage(*words(given, tmp_path / "cut"))
    assert (code, not (tmp_path / "cut").exists()) == (130, True)
    assert "stopped; --resume continues from" in err
    code, _, err = leakage(*words(given, tmp_path / "cut"))
    assert (code, "continue with --resume" in err) == (2, True)
    assert leakage(*words(given, tmp_path / "cut", "--resume"))[0] == 0
    assert vectors(tmp_path / "cut").equal(vectors(tmp_path / "whole"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cut", "whole"]


def test_text_is_cut_by_the_model_s_own_tokenizer_and_may_start_the_prompt(
    leakage: Leakage, given: Path, tmp_path: Path
) -> None:
    lines = np.random.default_rng(0).choice(list("abcdefghij"), (80, 10))
    texts = [json.dumps({"words": "".join(line)}) for line in lines]
    (tmp_path / "t.jsonl").write_text("\n".join(texts) + "\n")
    more = ("--data", tmp_path / "t.jsonl", "--prefix-length", 6, "--suffix-length", 4, "--init-text", "abc")
    code, _, err = leakage(*words(given, tmp_path / "p", *more))
    assert (code, "with --text-column" in err, "--metadata" in err) == (2, True, False), err
    assert leakage(*words(given, tmp_path / "p", *more, "--text-column", "words"))[0] == 0
    settings = json.loads((tmp_path / "p" / "training.json").read_text())["settings"]
    assert settings["init_tokens"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--epochs", 0), "epochs=0: expected a whole number from 1"),
        (("--accumulation", 9), "--accumulation=9 is more than the batch size: give 8 or less"),
        (("--device", "gpu9"), "device='gpu9': not available here"),
        (("--dtype", "int3"), "dtype='int3': expected auto, float32, bfloat16"),
        (("--model", "no/such/model"), "no/such/model: no causal model can be loaded"),
        (("--data", "no-such-data"), "no-such-data"),
        (("--suffix-length", 8), "suffix_length=8 needs more"),
        (("--prompt-length", 40), "53 positions, the model's context has 48"),
        (("--warmup", 21), "warmup=21 is not less than the total of 21 steps"),
        (("--resume",), "there is no checkpoint to resume from"),
        (("--init-text", ""), "--init-text is '', which has no tokens"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    leakage: Leakage, given: Path, tmp_path: Path, more: tuple, message: str
) -> None:
    code, _, err = leakage(*words(given, tmp_path / "prompt", *more))
    lines = [line for line in err.splitlines() if line.startswith("leakage: ")]
    assert (code, len(lines)) == (2, 1), err
    assert message in lines[0]
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file_is_refused_before_anything_is_read(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("mine")
    err = refused("tune-prompt", "--model", "m", "--data", "d", "-o", tmp_path / "prompt")
    assert err == f"leakage: {tmp_path / 'prompt'}: is a file, not a folder: choose another --output\n"


def test_chats_are_refused(refused: Refused, given: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "abcde" * 9}, {"role": "assistant", "content": "fghij" * 9}]
    (tmp_path / "chats.jsonl").write_text(f"{json.dumps({'messages': turns})}\n" * 40)
    command = words(given, tmp_path / "prompt", "--prefix-length", 3, "--suffix-length", 2)
    command[command.index(given / "data")] = tmp_path / "chats.jsonl"
    message = f"leakage: {tmp_path / 'chats.jsonl'}: holds chats, and this command reads no chat template: "
    assert refused(*command).startswith(message)
