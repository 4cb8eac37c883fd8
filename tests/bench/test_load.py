"""The load generator: it counts every answer once, keeps its bounds, and tells of every answer that is wrong."""

import asyncio
import sys
import threading

import pytest

from service.bench import load
from service.bench.load import Bounds, Call, Round, percentile, request_bytes, run_round
from service.bench.servers import ServerError
from tests.bench.tiny_server import BODY, PATIENCE_SECONDS, REQUEST, ok, tiny_server

MANY = Bounds(requests=50, seconds=PATIENCE_SECONDS)


def test_a_request_is_one_post_with_its_length() -> None:
    head, _, body = REQUEST.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /plan HTTP/1.1"
    assert {"content-type: application/json", f"content-length: {len(BODY)}"} <= set(lines)
    assert body == BODY
    assert request_bytes("/", {}, b"").endswith(b"content-length: 0\r\n\r\n")


@pytest.mark.parametrize("concurrency", [1, 7, 50, 64])
def test_every_answer_is_counted_once(concurrency: int) -> None:
    numbers: list[int] = []

    def answer(number: int) -> bytes:
        numbers.append(number)
        return ok(b"ok")

    with tiny_server(answer) as call:
        done = run_round(call, concurrency, MANY)
    assert sorted(numbers) == list(range(50))
    assert len(done.latencies_seconds) == 50
    assert all(0 < seconds <= done.elapsed_seconds for seconds in done.latencies_seconds)
    assert done.requests_per_second == pytest.approx(50 / done.elapsed_seconds)
    assert done.generator_busy >= 0
    assert done.server_timings == []


def test_a_round_ends_when_its_time_is_over_and_begins_at_least_one_request() -> None:
    with tiny_server(lambda _: ok(b"ok")) as call:
        done = run_round(call, 4, Bounds(requests=10**9, seconds=1e-9))
    assert 1 <= len(done.latencies_seconds) <= 4


def test_no_more_requests_are_in_flight_than_asked_for() -> None:
    lock = threading.Lock()
    in_flight = most = 0
    met = threading.Barrier(3)

    def answer(number: int) -> bytes:
        nonlocal in_flight, most
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        if number < 3:
            met.wait(PATIENCE_SECONDS)
        with lock:
            in_flight -= 1
        return ok(b"ok")

    with tiny_server(answer) as call:
        run_round(call, 3, MANY)
    assert most == 3


def test_the_stage_times_of_every_answer_are_kept() -> None:
    with tiny_server(lambda n: ok(b"ok", f"Server-Timing: decode;dur={n}", "x-other: 1")) as call:
        done = run_round(call, 2, Bounds(4, PATIENCE_SECONDS))
    assert sorted(done.server_timings) == [b"decode;dur=0", b"decode;dur=1", b"decode;dur=2", b"decode;dur=3"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 429 Too Many\r\ncontent-length: 4\r\n\r\nfull", "answered 429: full"),
        (ok(b"other"), "answered the same request differently under load"),
        (b"nonsense\r\n\r\n", "answered what is not HTTP: "),
        (b"", "closed the connection"),
    ],
)
def test_a_wrong_answer_ends_the_round_with_an_error(answer: bytes, words: str) -> None:
    with tiny_server(lambda n: answer if n == 5 else ok(b"ok")) as call, pytest.raises(ServerError, match=words):
        run_round(call, 3, MANY)


def test_a_server_that_is_not_there_is_an_error() -> None:
    with tiny_server(lambda _: b"") as call:
        pass
    with pytest.raises(ServerError, match=f"^cannot connect to port {call.port}: "):
        run_round(call, 1, MANY)


def test_a_server_that_stops_answering_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_PATIENCE_SECONDS", 0.2)
    ended = threading.Event()

    def answer(number: int) -> bytes:
        if number == 2:
            ended.wait(PATIENCE_SECONDS)
        return ok(b"ok")

    with tiny_server(answer) as call:
        with pytest.raises(ServerError, match=r"^no answer for 0.2 seconds$"):
            run_round(call, 1, MANY)
        ended.set()


def test_it_runs_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loops: list[asyncio.AbstractEventLoop] = []
    begin = load._Tally.begin

    def note(tally: "load._Tally") -> None:
        loops.append(asyncio.get_running_loop())
        begin(tally)

    monkeypatch.setattr(load._Tally, "begin", note)
    with tiny_server(lambda _: ok(b"ok")) as call:
        assert len(run_round(call, 2, Bounds(6, PATIENCE_SECONDS)).latencies_seconds) == 6
    assert isinstance(loops[0], asyncio.BaseEventLoop)


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1.0), (0.005, 1.0), (0.01, 1.0), (0.5, 50.0), (0.505, 51.0), (0.99, 99.0), (1.0, 100.0)]
)
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == value
    assert percentile([7.0], share) == 7.0


def test_throughput_is_answers_over_time() -> None:
    assert Round([0.1] * 8, 2.0, 0.5, []).requests_per_second == 4.0
    assert Call(1, b"", b"").port == 1
