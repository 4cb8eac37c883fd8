"""The kernels and codecs are measured where only torch, numpy and Triton are installed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HIDE = """
import sys
hidden = ("fastapi", "starlette", "uvicorn", "pydantic", "pydantic_settings", "typer", "httpx", "rich", "orjson",
          "httptools", "uvloop", "click")
for name in hidden:
    sys.modules[name] = None
import runpy
sys.argv = ["bench", *sys.argv[1:]]
runpy.run_module("service.bench", run_name="__main__")
"""


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m service.bench`` in a process that cannot import a web package."""
    return subprocess.run(
        [sys.executable, "-c", HIDE, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_codecs_are_measured_without_web_packages(tmp_path: Path) -> None:
    done = bench("--codecs", "--quick", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "absent: the service (orjson is missing)" in done.stdout
    assert "json, torch.tensor" in done.stdout
    assert (tmp_path / "codecs.json").exists()


def test_kernels_ask_for_a_gpu_without_web_packages() -> None:
    done = bench("--kernels", "--device", "cpu")
    assert done.returncode == 2
    assert done.stderr == "python -m service.bench: --kernels needs a CUDA device, not cpu\n"


def test_kernel_plans_are_proved_without_web_packages() -> None:
    code = (
        HIDE.partition("import runpy")[0]
        + """
import torch
from service.bench.batches import BatchShape
from service.bench.kernel_run import require_right_plan
print(require_right_plan(BatchShape("it", (3, 5), 3, 6, window=2, tokens=True), torch.device("cpu")).answer())
"""
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "'verify_num_valid': 4" in done.stdout


def test_http_names_what_it_lacks() -> None:
    done = bench("--quick")
    assert done.returncode == 2
    assert "measuring over HTTP needs fastapi, httptools, orjson" in done.stderr
