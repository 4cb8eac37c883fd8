"""The benchmark's options, and what they run. Needs only what the chosen measurement needs."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from service.bench.codec_command import run_codecs
from service.bench.codec_run import CodecOptions
from service.bench.cuda_timing import CudaTimer
from service.bench.equality import DifferentAnswer
from service.bench.kernel_command import run_kernels
from service.bench.kernel_run import KernelOptions
from service.bench.kernel_scenarios import KERNEL_SCENARIOS
from service.bench.machine import is_installed
from service.bench.servers import ServerError
from service.runtime.device import DeviceError, resolve_target

_HTTP_PACKAGES = ("fastapi", "httptools", "orjson", "pydantic_settings", "typer", "uvicorn")
_COPY_BYTES = 2**30
_TABLES = ((9, 64), (64, 1024), (256, 4096), (1900, 4096))
_ENTRIES = (256, 16 * 1024, 300_000, 2_500_000)
"""Texts from a few kilobytes to 60 MB."""


class BenchError(RuntimeError):
    """A measurement that this machine cannot make; ends the command with exit code 2."""


def run_bench(arguments: Sequence[str], program: str) -> int:
    """Measure what the arguments say; the exit code.

    0 measured, 1 a server failed or an answer is wrong, 2 cannot be measured here. Bad options raise SystemExit(2).
    """
    options = _parser(program).parse_args(arguments)
    run = _run_kernels if options.kernels else _run_codecs if options.codecs else _run_http
    try:
        run(options)
    except (BenchError, DeviceError) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 2
    except (DifferentAnswer, ServerError) as error:
        sys.stderr.write(f"{program}: no result: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: interrupted\n")
        return 130
    return 0


def _run_http(options: argparse.Namespace) -> None:
    missing = [package for package in _HTTP_PACKAGES if not is_installed(package)]
    if missing:
        raise BenchError(f"measuring over HTTP needs {', '.join(missing)}; --kernels and --codecs do not")
    from service.bench.http_command import run_http
    from service.bench.http_run import HttpOptions

    usual = HttpOptions((1, 4), 100, 1.0, 2) if options.quick else HttpOptions((1, 16, 64), 2000, 3.0, 5)
    chosen = HttpOptions(
        concurrencies=options.concurrency or usual.concurrencies,
        requests=options.requests or usual.requests,
        seconds=options.seconds or usual.seconds,
        rounds=options.rounds or usual.rounds,
    )
    run_http(chosen, options.output, options.device)


def _run_kernels(options: argparse.Namespace) -> None:
    device = resolve_target(options.device or os.environ.get("KV_PLAN_DEVICE", "auto"), "auto").device
    if device.type != "cuda":
        raise BenchError(f"--kernels needs a CUDA device, not {device}")
    chosen = KernelOptions(rounds=options.rounds or (2 if options.quick else 9), copy_bytes=_COPY_BYTES)
    with torch.cuda.device(device):
        run_kernels(KERNEL_SCENARIOS, device, CudaTimer(), chosen, options.output)


def _run_codecs(options: argparse.Namespace) -> None:
    sizes, rounds = (2, 2) if options.quick else (len(_TABLES), 5)
    chosen = CodecOptions(_TABLES[:sizes], _ENTRIES[:sizes], options.rounds or rounds)
    run_codecs(chosen, options.output)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Starts the service and, in the same run, what it is measured against: a plain FastAPI "
        "implementation, a bare echo and a bare drain; drives them over loopback and prints throughput, latency, "
        "ratios and stage times. Tells no ratio of answers that differ.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--kernels", action="store_true", help="plans on a CUDA device; needs torch and triton only")
    what.add_argument("--codecs", action="store_true", help="JSON decoders and encoders; needs torch only")
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it works")
    parser.add_argument("--concurrency", type=_concurrencies, help="requests in flight, default 1,16,64")
    parser.add_argument("--requests", type=_positive_int, help="small requests of a round, default 2000")
    parser.add_argument("--seconds", type=_positive_float, help="after which a round begins no more, default 3")
    parser.add_argument("--rounds", type=_positive_int, help="rounds that medians are taken of, default 5")
    parser.add_argument("--device", help="cpu, cuda, cuda:N or auto; default: KV_PLAN_DEVICE, else auto")
    parser.add_argument("--output", type=Path, default=Path("bench"), help="folder of the results, default bench")
    return parser


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value


def _concurrencies(text: str) -> tuple[int, ...]:
    return tuple(_positive_int(part) for part in text.split(","))
