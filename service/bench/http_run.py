"""Measures the servers over HTTP: equality first, then every cell in rounds that take the servers in turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from service.bench.baselines import DRAINED
from service.bench.equality import expected_plan, require_same_plan
from service.bench.http_scenarios import INLINE_JSON, POOL, SCENARIOS, Form, HttpScenario, pool_body
from service.bench.load import Bounds, Call, Round, percentile, request_bytes, run_round
from service.bench.servers import DRAIN, ECHO, SERVICE, Program, RunningServer, ServerError
from service.plan.inputs import PlanInputs

_WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How much is measured. A round ends after ``requests`` or ``seconds``, whichever comes first."""

    concurrencies: tuple[int, ...]
    requests: int
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What one server did with one scenario at one concurrency: medians of its rounds."""

    scenario: str
    concurrency: int
    server: str
    rounds: int
    requests: int
    """Requests of all rounds together."""
    requests_per_second: float
    p50_seconds: float
    p99_seconds: float
    service_speedup: float
    """Throughput of the service over this server's, round by round; the median."""
    generator_busy: float
    stage_seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A scenario's cells, or why it was left out."""

    name: str
    title: str
    skipped: str | None
    body_bytes: int = 0
    answer_bytes: int = 0
    cells: tuple[Cell, ...] = ()


def measure(
    servers: Mapping[str, RunningServer], options: HttpOptions, begin: Callable[[str], None]
) -> Iterable[ScenarioResult]:
    """The result of each scenario, in order; ``begin`` is told of every cell before it is measured.

    Raises ``DifferentAnswer`` before anything of a scenario is measured if a server's plan is not the reference's,
    and ``ServerError`` for a server that does not answer.
    """
    for scenario in SCENARIOS:
        inputs = scenario.inputs()
        skipped = _make_pool(servers[SERVICE.name], inputs) if scenario.pool else None
        if skipped:
            yield ScenarioResult(scenario.name, scenario.title, skipped)
            continue
        calls = _judged_calls(servers, scenario, inputs)
        cells = []
        for concurrency in options.concurrencies:
            begin(f"{scenario.title}, {concurrency} at a time")
            cells += _cells(calls, scenario, concurrency, options)
        body_bytes, answer_bytes = len(calls[ECHO.name].expected), len(calls[SERVICE.name].expected)
        yield ScenarioResult(scenario.name, scenario.title, None, body_bytes, answer_bytes, tuple(cells))


def _make_pool(service: RunningServer, inputs: PlanInputs) -> str | None:
    """Make the batch's tables resident; why not, if the service has no pools."""
    body = pool_body(inputs)
    status, answer = service.request("PUT", f"/pools/{POOL}", body.content, body.headers)
    if status in (404, 405):
        return f"the service has no pools: it answers PUT /pools/{POOL} with {status}"
    if status not in (200, 201):
        raise ServerError(f"{service.program.title} answered PUT /pools/{POOL} with {status}: {answer[:200]!r}")
    return None


def _judged_calls(servers: Mapping[str, RunningServer], scenario: HttpScenario, inputs: PlanInputs) -> dict[str, Call]:
    """A call for each server, with the answer that it gave once and that was found to be right."""
    expected = expected_plan(inputs)
    calls = {}
    for name, server in servers.items():
        form = _form(server.program, scenario)
        body = form.encode(inputs)
        status, answer = server.request("POST", form.path, body.content, body.headers)
        who = f"{server.program.title}, {scenario.name}"
        if status != 200:
            raise ServerError(f"{who}: answered {status}: {answer[:200]!r}")
        if server.program.computes:
            require_same_plan(who, _decoded(who, form, answer), expected)
        elif answer != (DRAINED if name == DRAIN.name else body.content):
            raise ServerError(f"{who}: answered {answer[:200]!r}")
        calls[name] = Call(server.port, request_bytes(form.path, body.headers, body.content), answer)
    return calls


def _decoded(who: str, form: Form, answer: bytes) -> Mapping[str, object]:
    try:
        return form.decode(answer)
    except ValueError as error:
        raise ServerError(f"{who}: answered {answer[:200]!r}") from error


def _form(program: Program, scenario: HttpScenario) -> Form:
    """The form of the scenario; a baseline that computes knows inline JSON only."""
    return INLINE_JSON if program.computes and program.name != SERVICE.name else scenario.form


def _cells(calls: Mapping[str, Call], scenario: HttpScenario, concurrency: int, options: HttpOptions) -> list[Cell]:
    requests = max(round(options.requests * scenario.request_share), concurrency)
    bounds = Bounds(requests, options.seconds)
    warm_up = Bounds(max(round(requests * _WARM_UP_SHARE), 1), options.seconds)
    measured: dict[str, list[Round]] = {name: [] for name in calls}
    for number, (name, call) in product(range(options.rounds + 1), calls.items()):
        try:
            done = run_round(call, concurrency, bounds if number else warm_up)
        except ServerError as error:
            raise ServerError(f"{name}, {scenario.name}, {concurrency} at a time: {error}") from error
        if number:
            measured[name].append(done)
    return [_cell(scenario, concurrency, name, measured) for name in calls]


def _cell(scenario: HttpScenario, concurrency: int, name: str, measured: Mapping[str, Sequence[Round]]) -> Cell:
    rounds = measured[name]
    return Cell(
        scenario=scenario.name,
        concurrency=concurrency,
        server=name,
        rounds=len(rounds),
        requests=sum(len(done.latencies_seconds) for done in rounds),
        requests_per_second=median(done.requests_per_second for done in rounds),
        p50_seconds=median(percentile(done.latencies_seconds, 0.5) for done in rounds),
        p99_seconds=median(percentile(done.latencies_seconds, 0.99) for done in rounds),
        service_speedup=median(
            ours.requests_per_second / theirs.requests_per_second
            for ours, theirs in zip(measured[SERVICE.name], rounds, strict=True)
        ),
        generator_busy=median(done.generator_busy for done in rounds),
        stage_seconds=stage_medians([value for done in rounds for value in done.server_timings]),
    )


def stage_medians(headers: Sequence[bytes]) -> dict[str, float]:
    """The median of each stage over Server-Timing headers, in seconds.

    >>> stage_medians([b"decode;dur=1.5, compute;dur=2", b"decode;dur=2.5, compute;dur=2"])
    {'decode': 0.002, 'compute': 0.002}
    """
    stages: dict[str, list[float]] = {}
    for header in headers:
        for metric in header.decode().split(","):
            name, *parameters = (part.strip() for part in metric.split(";"))
            for parameter in parameters:
                key, _, value = parameter.partition("=")
                if key == "dur":
                    stages.setdefault(name, []).append(float(value) / 1e3)
    return {name: median(values) for name, values in stages.items()}
