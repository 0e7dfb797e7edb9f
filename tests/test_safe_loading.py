"""Nothing in this repository loads a file in a way that runs what is in it: each call is looked at, file by file."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("leakage_tasks", "adapters", "task_configs", "tests", "benchmarks")

ALLOWED = {
    ("leakage_tasks/research/ethicist/victims.py", "PeftModel.from_pretrained"): "a prompt that the trial has written",
    ("tests/core/test_errors.py", "pickle.loads"): "an error of ours, there and back",
    ("tests/core/test_former_names.py", "pickle.loads"): "a record of ours, there and back",
    ("tests/tasks/suffix/test_task.py", "pickle.loads"): "answers of ours, there and back",
    ("tests/quick_start/sitecustomize.py", "pickle.loads"): "what another process of the tests found out",
    ("tests/test_safe_loading.py", "compile"): "compiled, never run",
    ("tests/training/dp/test_private.py", "exec"): "an example of our own docs",
    ("tests/warm/server.py", "compile"): "a program that a test starts",
    ("tests/warm/server.py", "exec"): "a program that a test starts",
}
"""What may be called although the rules below forbid it, with the reason; a tests file's models are those it made."""

# What runs code whatever it is told; ``datasets`` runs none from version 4 on, which is asked for in pyproject.toml.
NEVER = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.unsafe_load", "yaml.full_load", "pd.read_pickle"}
NEVER_FROM = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
READS = {"load", "loads", "open", "Unpickler"}
WATCHED = {"from_pretrained", "from_config", "pipeline", "load", "load_all", *READS}
OURS = {"read_model", "read_tokenizer", "read_config", "load_causal"}
"""What our own loaders are called; without the flag they run no code."""
HANDED_ON = ("False", "trust_remote_code", "bool(trust_remote_code)")
WATCHED |= OURS
WATCHED |= {name.rpartition(".")[2] for name in NEVER}
SAFE_LOADERS = {"yaml.SafeLoader", "yaml.CSafeLoader"}


def calls(code: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """All calls of a program, each with the function around it, whose keywords may stand in a dict of its own."""

    def walk(node: ast.AST, around: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
        if isinstance(node, ast.Call):
            yield node, around
        for child in ast.iter_child_nodes(node):
            yield from walk(child, node if isinstance(node, ast.FunctionDef) else around)

    return walk(code, code)


def keywords(call: ast.Call, around: ast.AST) -> dict[str, str]:
    """What a call is given by name, ``**settings`` included where the function around it spells the dict out."""
    found = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg}
    spread = {ast.unparse(word.value) for word in call.keywords if word.arg is None}
    for node in ast.walk(around) if spread else ():
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and {ast.unparse(target) for target in targets} & spread:
            for inner in (inner for inner in ast.walk(node) if isinstance(inner, ast.Dict)):
                pairs = zip(inner.keys, inner.values, strict=True)
                found |= {str(key.value): ast.unparse(value) for key, value in pairs if isinstance(key, ast.Constant)}
    return found


def fault(call: ast.Call, around: ast.AST, place: str) -> str | None:
    """What is missing for a call to be safe, None if nothing is."""
    name = ast.unparse(call.func)
    owner, _, method = name.rpartition(".")
    if method not in WATCHED and not any(word.arg == "shell" for word in call.keywords):
        return None
    given = keywords(call, around)
    if name in NEVER or (owner in NEVER_FROM and method in READS) or given.get("shell", "False") != "False":
        return "runs what it is given"
    if name == "torch.load" and given.get("weights_only") != "True":
        return "weights_only=True is missing"
    if name in ("np.load", "numpy.load") and given.get("allow_pickle") != "False":
        return "allow_pickle=False is missing"
    if (
        name in ("yaml.load", "yaml.load_all")
        and not {*map(ast.unparse, call.args[1:]), *given.values()} & SAFE_LOADERS
    ):
        return "yaml.SafeLoader is missing"
    if method in OURS and given.get("trust_remote_code", "False") not in HANDED_ON:
        return "trust_remote_code=False is missing"
    if method in ("from_pretrained", "from_config") or name == "pipeline" and "model" in given:
        return model_fault(owner, method, given, place)
    return None


def model_fault(owner: str, method: str, given: dict[str, str], place: str) -> str | None:
    """The same for what transformers loads: the user's own flag may be handed on, nothing else than False."""
    if Path(place).name.startswith("test_"):  # its models are those it made
        return None
    if given.get("trust_remote_code") not in ("False", "trust_remote_code"):
        return "trust_remote_code=False is missing"
    ours = place.startswith(("leakage_tasks", "adapters"))
    weights = method == "from_pretrained" and not owner.endswith(("Tokenizer", "Config"))
    if ours and weights and "True" not in (given.get("use_safetensors"), given.get("weights_only")):
        return "use_safetensors=True or weights_only=True is missing"
    return None


def faults(code: str, place: str) -> list[tuple[str, int, str, str]]:
    """Place, line, call and fault of every call that is neither safe nor allowed."""
    found = ((call, fault(call, around, place)) for call, around in calls(ast.parse(code)))
    named = [(place, call.lineno, ast.unparse(call.func), wrong) for call, wrong in found if wrong]
    return [each for each in named if (place, each[2]) not in ALLOWED]


def files() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*found, ROOT / "leakage_tasks" / "harness" / "startup.pth"]


@pytest.mark.slow
def test_no_file_is_loaded_in_a_way_that_runs_it() -> None:
    sources = files()
    assert len(sources) > 500
    assert [each for path in sources for each in faults(path.read_text(), str(path.relative_to(ROOT)))] == []


@pytest.mark.slow
def test_models_are_loaded_in_one_place() -> None:
    loads = [
        (place, ast.unparse(call.func))
        for place in (str(path.relative_to(ROOT)) for path in files())
        if place.startswith(("leakage_tasks", "adapters")) and place.endswith(".py")
        for call, _ in calls(tree(place))
        if getattr(call.func, "attr", "") == "from_pretrained"
    ]
    assert {place for place, name in loads if (place, name) not in ALLOWED} == {"leakage_tasks/models/loading.py"}


def test_what_is_allowed_is_there() -> None:
    there = {(place, ast.unparse(call.func)) for place, _ in ALLOWED for call, _ in calls(tree(place))}
    assert set(ALLOWED) <= there


def tree(place: str) -> ast.AST:
    return compile((ROOT / place).read_text(), place, "exec", ast.PyCF_ONLY_AST)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("eval(x)", "runs what it is given"),
        ("exec(x)", "runs what it is given"),
        ("os.system(x)", "runs what it is given"),
        ("pickle.load(f)", "runs what it is given"),
        ("joblib.load(f)", "runs what it is given"),
        ("subprocess.run(x, shell=True)", "runs what it is given"),
        ("torch.load(f)", "weights_only=True is missing"),
        ("torch.load(f, weights_only=False)", "weights_only=True is missing"),
        ("np.load(f)", "allow_pickle=False is missing"),
        ("yaml.load(f, yaml.Loader)", "yaml.SafeLoader is missing"),
        ("AutoTokenizer.from_pretrained(x)", "trust_remote_code=False is missing"),
        ("AutoModel.from_config(x, trust_remote_code=True)", "trust_remote_code=False is missing"),
        ("def f(s):\n    AutoModel.from_pretrained(x, **s)", "trust_remote_code=False is missing"),
        ("pipeline('fill-mask', model=x)", "trust_remote_code=False is missing"),
        ("read_model(AutoModel, x, trust_remote_code=True)", "trust_remote_code=False is missing"),
        (
            "AutoModel.from_pretrained(x, trust_remote_code=False)",
            "use_safetensors=True or weights_only=True is missing",
        ),
    ],
)
def test_an_unsafe_call_is_found(code: str, wrong: str) -> None:
    assert [each[3] for each in faults(code, "leakage_tasks/made_up.py")] == [wrong]


@pytest.mark.parametrize(
    "code",
    [
        "model.eval()",
        "subprocess.run(x, shell=False)",
        "torch.load(f, weights_only=True)",
        "yaml.load(f, Loader=yaml.SafeLoader)",
        "AutoConfig.from_pretrained(x, trust_remote_code=trust_remote_code)",
        "read_tokenizer(x)",
        "def f():\n    s = {'weights_only': True, 'trust_remote_code': False}\n    AutoModel.from_pretrained(x, **s)",
    ],
)
def test_a_safe_call_is_not(code: str) -> None:
    assert faults(code, "leakage_tasks/made_up.py") == []


def test_datasets_is_asked_for_in_versions_that_run_no_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = (found for found in map(Requirement, project["dependencies"]) if found.name == "datasets")
    assert not wanted.specifier.contains("3.6.0")
