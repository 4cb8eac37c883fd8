"""The rules on structure: imports point down, the planner needs no web package and no Triton, files stay small."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*ROOT.glob("service/**/*.py"), *ROOT.glob("tests/**/*.py")])
WEB_PACKAGES = ("fastapi", "starlette", "uvicorn", "pydantic", "pydantic_settings", "typer", "httpx", "rich", "orjson")
PLAN_ON_THE_CPU = """
import sys
import torch
from service.plan import VerifyPlan, WritePlan, launch_canary_plan_kernels, launch_scatter_req_token_ids_kernel
verify = VerifyPlan.allocate(verify_capacity=2, device="cpu")
launch_canary_plan_kernels(
    verify_plan_out=verify,
    write_plan_out=WritePlan.allocate(write_req_capacity=1, device="cpu"),
    req_pool_indices=torch.tensor([1]),
    prefix_lens=torch.tensor([2]),
    extend_seq_lens=torch.tensor([1]),
    req_to_token=torch.tensor([[0, 0], [5, 6]], dtype=torch.int32),
    verify_capacity=2,
)
assert verify.verify_slot_indices.tolist() == [5, 6]
pool = torch.zeros((2, 2), dtype=torch.int32)
launch_scatter_req_token_ids_kernel(
    flat_in=torch.tensor([7]), offsets=torch.tensor([0, 1]), req_pool_indices=torch.tensor([1]), pool_out=pool
)
assert pool.tolist() == [[0, 0], [7, 0]]
"""


def _python(code: str) -> str:
    """What ``code`` prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _imported(source: Path) -> set[str]:
    """The names of the modules that a file imports, at any level of it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            names.add(str(node.module))
    return names


def test_the_import_contracts_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"[1-9]\d* kept, 0 broken", done.stdout)


def test_the_planner_works_on_the_cpu_without_web_packages_and_triton() -> None:
    loaded = _python(PLAN_ON_THE_CPU + "print(*sys.modules)").split()
    ours = {name for name in loaded if name.startswith("service.")}
    assert {name.split(".")[1] for name in ours} <= {"plan", "kernels", "spec", "errors", "catalogue"}
    assert not {name.partition(".")[0] for name in loaded} & set(WEB_PACKAGES)
    assert "service.kernels.triton_backend" not in loaded
    assert "triton" not in loaded


def test_the_planner_works_where_triton_cannot_be_imported() -> None:
    _python("import sys\nsys.modules['triton'] = None\n" + PLAN_ON_THE_CPU)


def test_the_service_works_where_triton_cannot_be_imported() -> None:
    code = """
import sys
sys.modules['triton'] = None
from service.app import create_app
from service.settings import Settings
create_app(Settings(device="cpu"))
print("made")
"""
    assert _python(code) == "made\n"


@pytest.mark.parametrize("folder", ["kernels", "plan"])
def test_tests_of_the_planner_import_no_web_package(folder: str) -> None:
    for source in ROOT.glob(f"tests/{folder}/**/*.py"):
        assert not {name.partition(".")[0] for name in _imported(source)} & set(WEB_PACKAGES), source


def test_importing_a_module_touches_no_device_and_no_environment() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in ROOT.glob("service/**/*.py")
        if path.stem not in ("__init__", "__main__") and not path.stem.startswith("_")
    ]
    code = f"""
import os, sys
before = dict(os.environ)
import torch
for name in {[name for name in modules if name != "service.kernels.triton_backend"]!r}:
    __import__(name)
assert dict(os.environ) == before
print(torch.cuda.is_initialized())
"""
    assert _python(code) == "False\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_says_what_it_owns_and_has_no_loose_end(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) < 300
    assert not re.search(r"# *(TODO|FIXME)\b(?!.*#\d)", text)
    assert ast.get_docstring(tree) or not tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.body[0].lineno < 50, f"the body of {node.name}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not {source.stem for source in SOURCES} & {"utils", "helpers", "common", "manager"}


def test_the_planners_tests_are_collected_where_triton_is_not_installed() -> None:
    script = (
        "import sys; sys.modules['triton'] = None; import pytest; "
        "sys.exit(pytest.main(['--collect-only', '-q', 'tests/kernels', 'tests/plan', 'service']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout
