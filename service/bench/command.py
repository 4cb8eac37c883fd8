"""The benchmark's options, and what they run. Needs only what the chosen measurement needs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from service.bench.machine import is_installed

_HTTP_PACKAGES = ("fastapi", "httptools", "orjson", "pydantic_settings", "typer", "uvicorn")


class BenchError(RuntimeError):
    """A measurement that this machine cannot make; ends the command with exit code 2."""


def run_bench(arguments: Sequence[str], program: str) -> int:
    """Measure what the arguments say; the exit code.

    0 measured, 1 a server failed or an answer is wrong, 2 cannot be measured here. Bad options raise SystemExit(2).
    """
    options = _parser(program).parse_args(arguments)
    try:
        return _run(options)
    except BenchError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: interrupted\n")
        return 130


def _run(options: argparse.Namespace) -> int:
    missing = [package for package in _HTTP_PACKAGES if not is_installed(package)]
    if missing:
        raise BenchError(f"measuring over HTTP needs {', '.join(missing)}; --kernels and --codecs do not")
    from service.bench.equality import DifferentAnswer
    from service.bench.http_command import run_http
    from service.bench.http_run import HttpOptions
    from service.bench.load import LoadError
    from service.bench.servers import ServerError

    requests, seconds, rounds = (100, 1.0, 2) if options.quick else (2000, 3.0, 5)
    chosen = HttpOptions(
        concurrencies=options.concurrency,
        requests=options.requests or requests,
        seconds=options.seconds or seconds,
        rounds=options.rounds or rounds,
    )
    try:
        run_http(chosen, options.output, options.device)
    except (DifferentAnswer, LoadError, ServerError) as error:
        sys.stderr.write(f"no result: {error}\n")
        return 1
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Starts the service and, in the same run, what it is measured against: a plain FastAPI "
        "implementation, a bare echo and a bare drain; drives them over loopback and prints throughput, latency, "
        "ratios and stage times. Tells no ratio of answers that differ.",
        allow_abbrev=False,
    )
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it works")
    parser.add_argument(
        "--concurrency", type=_concurrencies, default=(1, 16, 64), help="requests in flight, default 1,16,64"
    )
    parser.add_argument("--requests", type=_positive_int, help="small requests of a round, default 2000")
    parser.add_argument("--seconds", type=_positive_float, help="after which a round begins no more, default 3")
    parser.add_argument("--rounds", type=_positive_int, help="rounds that medians are taken of, default 5")
    parser.add_argument("--device", help="cpu, cuda, cuda:N or auto; default: KV_PLAN_DEVICE, else auto")
    parser.add_argument("--output", type=Path, default=Path("bench"), help="folder of the results, default bench")
    return parser


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _concurrencies(text: str) -> tuple[int, ...]:
    return tuple(_positive_int(part) for part in text.split(","))
