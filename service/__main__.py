"""The command line: serve, openapi, plan, selftest, bench, info. Wires options to the service, decides nothing else."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console

from service.app import create_app, plan_limits, service_info
from service.bench.command import run_bench
from service.bodies import PLAN_BODY
from service.console import print_plan
from service.errors import Refusal
from service.http.openapi import openapi_text
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer
from service.runtime.device import DeviceError, refusing_out_of_memory, resolve_target
from service.runtime.plan_codec import encode_plan
from service.runtime.queries import plan_query
from service.selftest import run_selftest
from service.server import ListenError, serve_until_stopped
from service.settings import Settings, SettingsError, load_settings, variable_of
from service.wire.json_body import decode_json_body

cli = typer.Typer(
    name="kv-plan",
    help="KV-canary plans for LLM inference engines, over HTTP and in process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
SCHEMA_FILE = Path("openapi.json")

Device = Annotated[
    str | None,
    typer.Option(envvar=variable_of("device"), show_envvar=True, help="cpu, cuda, cuda:N or auto (the default)."),
]


def main() -> None:
    """Run the command line; a setting, device or address that cannot be used ends it with one line and exit code 2."""
    try:
        cli()
    except (SettingsError, DeviceError, ListenError) as error:
        Console(stderr=True).print(f"kv-plan: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(envvar=variable_of("host"), help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(envvar=variable_of("port"), help="Port; 0 takes a free one.")] = None,
    device: Device = None,
    workers: Annotated[int | None, typer.Option(envvar=variable_of("workers"), help="Server processes.")] = None,
) -> None:
    """Serve plans over HTTP until interrupted."""
    settings = _settings(host=host, port=port, device=device, workers=workers)
    resolve_target(settings.device, settings.kernels)
    serve_until_stopped(settings)


@cli.command()
def openapi(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when the file is out of date.")] = False,
) -> None:
    """Write the schema to openapi.json in this folder."""
    app = create_app(_settings(device="cpu", kernels="host"))
    text = openapi_text(app.openapi())
    if not check:
        SCHEMA_FILE.write_text(text, encoding="utf-8")
    elif not SCHEMA_FILE.exists() or SCHEMA_FILE.read_text(encoding="utf-8") != text:
        _fail("openapi.json is out of date; run: make openapi")


@cli.command()
def plan(
    file: Annotated[str, typer.Argument(help="A JSON body as POST /plan takes it; - reads standard input.")],
    table: Annotated[bool, typer.Option("--table", help="Print a readable table instead of JSON.")] = False,
    device: Device = None,
) -> None:
    """Compute one plan here, without a server. Exit code 1 and the message for a batch that is refused."""
    settings = _settings(device=device)
    target = resolve_target(settings.device, settings.kernels)
    compute = PlanComputer(Workspace(target), plan_limits(settings))
    try:
        with refusing_out_of_memory(str(target.device)):
            query = plan_query(decode_json_body(_read(file), PLAN_BODY))
            if query.pool is not None:
                _fail("there are no pools without a server; give the tables")
            (computed,) = compute(query.inputs(), True)
    except Refusal as error:
        _fail(error.detail)
    if table:
        print_plan(computed, Console())
    else:
        sys.stdout.buffer.write(encode_plan(computed, str(target.device), target.backend.name) + b"\n")


@cli.command()
def selftest(device: Device = None) -> None:
    """Send worked examples through the whole stack on the configured device and print the time of each stage."""
    settings = _settings(device=device)
    failures = run_selftest(create_app(settings), Console())
    if failures:
        _fail(f"{failures} checks of the self-test failed")


@cli.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def bench(context: typer.Context) -> None:
    """Measure the service against baselines; bench --help tells its options."""
    raise typer.Exit(run_bench(context.args, "kv-plan bench"))


@cli.command()
def info(device: Device = None) -> None:
    """Print device, backend, versions and every setting in force, as JSON."""
    settings = _settings(device=device)
    target = resolve_target(settings.device, settings.kernels)
    answer = service_info(settings, target).model_dump()
    sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _settings(**options: str | int | None) -> Settings:
    """Settings with the given options over the environment; the options are left there for server processes."""
    for name, value in options.items():
        if value is not None:
            os.environ[variable_of(name)] = str(value)
    return load_settings(os.environ)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        _fail(f"cannot read {file}: {error.strerror}")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    main()
