"""A user's YAML file in a folder of ``--include_path`` that names a class of this package and other options."""

from __future__ import annotations

from pathlib import Path

from lm_eval.tasks import TaskManager

from leakage_tasks.tasks.canary_tasks import CanaryExposure

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
CLASS = "leakage_tasks.tasks.canary_tasks.CanaryExposure"


def test_a_file_with_other_options_names_the_class_of_the_page(tmp_path: Path) -> None:
    assert f"`{CLASS}`" in PAGE
    (tmp_path / "mine.yaml").write_text(
        f"task: mine\nclass: !function {CLASS}\noutput_type: attack\nmetadata:\n  version: 1.0\n  budget: 500\n"
    )
    task = TaskManager(include_path=str(tmp_path), include_defaults=False).load(["mine"])["tasks"]["mine"]
    assert isinstance(task, CanaryExposure)
    assert task.config.metadata["budget"] == 500
