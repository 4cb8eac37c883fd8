"""The kernels compile for a GPU, also where there is none: Triton brings its own assembler."""

import collections
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.triton

_SCRIPT = Path(__file__).with_name("compile_for_gpu.py")


def test_every_kernel_variant_compiles_for_a_gpu() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environ["PYTHONPATH"] = str(_SCRIPT.parent.parent.parent)
    done = subprocess.run([sys.executable, str(_SCRIPT)], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    variants = collections.Counter(line.split()[0] for line in done.stdout.splitlines() if line.endswith(" cubin"))
    assert variants == {
        "_plan_kernel": 12,
        "_block_sums_kernel": 1,
        "_scatter_kernel": 2,
        "_quotes_kernel": 1,
        "_survey_kernel": 1,
        "_sum_kernel": 1,
        "_read_kernel": 2,
        "_lengths_kernel": 1,
        "_places_kernel": 1,
        "_text_kernel": 1,
    }
