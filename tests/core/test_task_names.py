"""The names of tasks are those of the files that define them."""

from leakage_tasks.core import task_names
from leakage_tasks.harness.places import task_folder


def test_each_name_has_a_file_that_defines_the_task() -> None:
    names = {value for name, value in vars(task_names).items() if name.isupper()}
    defined = [file.read_text().splitlines()[0] for file in task_folder().glob("*.yaml")]
    assert {line.removeprefix("task: ") for line in defined if line.startswith("task: ")} == names
