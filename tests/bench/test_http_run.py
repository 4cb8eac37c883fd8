"""A measurement over HTTP, its servers replaced: order, bounds, medians, and what is refused before any number."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from service.bench import http_run
from service.bench.equality import DifferentAnswer, expected_plan
from service.bench.http_run import HttpOptions, ScenarioResult, measure, stage_medians
from service.bench.http_scenarios import SCENARIOS
from service.bench.load import Bounds, Call, Round
from service.bench.servers import DRAIN, ECHO, SERVICE, Program, RunningServer, ServerError, plain_program

OPTIONS = HttpOptions(concurrencies=(1, 16), requests=40, seconds=9.0, rounds=3)
SMALL, POOLED = SCENARIOS[:2]
PLAIN = cast("Program", plain_program())
PLAN = expected_plan(SMALL.inputs())


class FakeServer:
    """A server that answers with a plan, or as it is told."""

    def __init__(self, program: Program, answer: Callable[[str, str, bytes], tuple[int, bytes]]) -> None:
        self.program = program
        self.port = len(program.name)
        self.asked: list[tuple[str, str, bytes]] = []
        self._answer = answer

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The answer; the question is kept."""
        assert headers == {"content-type": "application/json"}
        self.asked.append((method, path, body))
        return self._answer(method, path, body)


def right(method: str, _: str, __: bytes) -> tuple[int, bytes]:
    """What a server answers that has pools and computes."""
    return (201, b"{}") if method == "PUT" else (200, json.dumps(PLAN | {"device": "cpu"}).encode())


def fakes(**answers: Callable[[str, str, bytes], tuple[int, bytes]]) -> dict[str, Any]:
    """All four servers, right unless told otherwise."""
    usual = {
        "service": right,
        "plain": right,
        "echo": lambda _, __, body: (200, body),
        "drain": lambda _, __, ___: (200, b"{}"),
    }
    programs = (SERVICE, PLAIN, ECHO, DRAIN)
    return {program.name: FakeServer(program, (usual | answers)[program.name]) for program in programs}


Log = list[tuple[int, int, Bounds]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Scenarios with the small table only, and rounds that are noted instead of run."""
    noted: Log = []

    def run_round(call: Call, concurrency: int, bounds: Bounds) -> Round:
        noted.append((call.port, concurrency, bounds))
        second = float(len(noted))
        return Round([0.001 * n for n in range(1, 101)], second, 0.5, [b"decode;dur=%d" % call.port])

    monkeypatch.setattr(http_run, "SCENARIOS", (SMALL, POOLED))
    monkeypatch.setattr(http_run, "run_round", run_round)
    return noted


def results(servers: dict[str, Any], begun: list[str] | None = None) -> list[ScenarioResult]:
    """All results of a measurement."""
    begin = ([] if begun is None else begun).append
    return list(measure(cast("dict[str, RunningServer]", servers), OPTIONS, begin))


def test_the_servers_are_taken_in_turn_after_a_warm_up(log: Log) -> None:
    begun: list[str] = []
    results(fakes(), begun)
    ports = [7, 5, 4, 5]
    assert [port for port, _, _ in log[:16]] == ports * 4
    assert [bounds.requests for _, _, bounds in log[:16]] == [4] * 4 + [40] * 12
    assert [bounds.requests for _, _, bounds in log[16:32]] == [4] * 4 + [40] * 12
    assert {concurrency for _, concurrency, _ in log[:16]} == {1}
    assert {bounds.seconds for _, _, bounds in log} == {9.0}
    assert begun[:2] == ["small batch, table inline, 1 at a time", "small batch, table inline, 16 at a time"]


def test_a_cell_is_the_median_of_its_rounds(log: Log) -> None:
    cells = results(fakes())[0].cells
    assert [(cell.concurrency, cell.server) for cell in cells[:4]] == [(1, name) for name in fakes()]
    service, plain = cells[:2]
    assert (service.rounds, service.requests) == (3, 300)
    assert service.requests_per_second == pytest.approx(100 / 9)  # rounds of 5, 9 and 13 seconds
    assert service.p50_seconds == pytest.approx(0.05)
    assert service.p99_seconds == pytest.approx(0.099)
    assert service.service_speedup == 1
    assert plain.service_speedup == pytest.approx(10 / 9)  # 6, 10 and 14 seconds
    assert service.stage_seconds == {"decode": 0.007}


def test_the_pool_is_made_first_and_the_plain_implementation_gets_the_table_inline(log: Log) -> None:
    servers = fakes()
    inline, pooled = results(servers)
    asked = servers["service"].asked
    assert [(method, path) for method, path, _ in asked] == [
        ("POST", "/plan"),
        ("PUT", "/pools/bench"),
        ("POST", "/plan"),
    ]
    assert len({body for _, _, body in servers["plain"].asked}) == 1
    assert servers["echo"].asked[1][2] == asked[2][2]
    assert pooled.skipped is None
    assert pooled.body_bytes == len(asked[2][2]) < inline.body_bytes == len(asked[0][2])
    assert len(pooled.cells) == 8


@pytest.mark.parametrize("status", [404, 405])
def test_a_service_without_pools_leaves_the_pool_out_and_says_why(log: Log, status: int) -> None:
    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        return (status, b"") if method == "PUT" else right(method, path, body)

    inline, pooled = results(fakes(service=answer))
    assert inline.skipped is None
    assert pooled.skipped == f"the service has no pools: it answers PUT /pools/bench with {status}"
    assert pooled.cells == ()


def test_a_pool_that_is_refused_is_an_error(log: Log) -> None:
    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        return (507, b"no room") if method == "PUT" else right(method, path, body)

    with pytest.raises(ServerError, match="answered PUT /pools/bench with 507: b'no room'"):
        results(fakes(service=answer))


@pytest.mark.parametrize("name", ["service", "plain"])
def test_a_different_plan_is_told_before_anything_is_measured(log: Log, name: str) -> None:
    wrong = json.dumps(PLAN | {"verify_total": 1}).encode()
    with pytest.raises(DifferentAnswer, match=r", small_inline: verify_total is 1, not \d+$"):
        results(fakes(**{name: lambda *_: (200, wrong)}))
    assert log == []


@pytest.mark.parametrize("name", ["service", "plain", "echo", "drain"])
@pytest.mark.parametrize("answer", [(503, b"tired"), (200, b"tired")])
def test_a_server_that_does_not_answer_as_it_must_is_an_error(log: Log, name: str, answer: tuple[int, bytes]) -> None:
    with pytest.raises(ServerError, match=r", small_inline: answered .*b'tired'$"):
        results(fakes(**{name: lambda *_: answer}))
    assert log == []


def test_an_error_of_a_round_names_its_cell(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Round:
        raise ServerError("closed the connection")

    monkeypatch.setattr(http_run, "run_round", fail)
    with pytest.raises(ServerError, match=r"^service, small_inline, 1 at a time: closed the connection$"):
        results(fakes())


def test_stage_times_are_read_as_the_header_gives_them() -> None:
    assert stage_medians([]) == {}
    assert stage_medians([b'cache;desc="x", db;dur=4;desc=y', b"db;dur=2", b"db;dur=1"]) == {"db": 0.002}
