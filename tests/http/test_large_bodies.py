"""While a large body is decoded the event loop serves others, whether the body is good or hostile."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from service.runtime import engine as engine_module
from service.spec import FieldSpec
from service.wire.json_body import BodyReader, decode_json_body
from tests.problems import require_good_plan, require_problem
from tests.running import GOOD_SLOTS, PATIENCE_SECONDS, InProcess, host_app, in_process

TOTAL_BYTES = 60_000_000
HEAD = b'{"req_pool_indices":[1],"prefix_lens":[2],"extend_seq_lens":[1],"req_to_token":[['


GOOD_ROW = b",".join([b"1234567"] * 3_700_000)
BODIES: dict[str, Callable[[], bytes]] = {
    "a good one": lambda: HEAD + GOOD_ROW + b"],[5,6," + GOOD_ROW[16:] + b"]]}",
    "a float at its end": lambda: HEAD + GOOD_ROW + b"],[5,6," + GOOD_ROW[18:] + b".5]]}",
    "no end": lambda: HEAD + GOOD_ROW + b"],[5,6," + GOOD_ROW[16:],
    "a ragged end": lambda: HEAD + GOOD_ROW + b"],[5,6," + GOOD_ROW[16:] + b",1]]}",
    "opening brackets": lambda: HEAD + b"[" * TOTAL_BYTES,
    "brackets in pairs": lambda: HEAD + b"],[" * (TOTAL_BYTES // 3) + b"]]}",
    "one number": lambda: HEAD + b"9" * TOTAL_BYTES + b"]]}",
    "strings": lambda: HEAD + b'"a",' * (TOTAL_BYTES // 4) + b"]]}",
    "one string": lambda: HEAD + b'"' + b"a" * TOTAL_BYTES + b'"]]}',
    "one escaped string": lambda: HEAD + b'"' + b"\\n" * (TOTAL_BYTES // 2) + b'"]]}',
    "one unknown name": lambda: b'{"' + b"a" * TOTAL_BYTES + b'":1}',
    "many unknown names": lambda: b"{" + b'"a":1,' * (TOTAL_BYTES // 6) + b'"b":1}',
    "white space": lambda: HEAD + b" " * TOTAL_BYTES + b"]]}",
    "commas": lambda: HEAD + b"," * TOTAL_BYTES + b"]]}",
    "zero bytes": lambda: b"\0" * TOTAL_BYTES,
    "invalid UTF-8": lambda: HEAD + b"\xff" * TOTAL_BYTES + b"]]}",
}


class WatchedDecode:
    """The real decoding, which ends only when the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.begun = threading.Event()
        self.let = threading.Event()
        monkeypatch.setattr(engine_module, "decode_json_body", self)

    def __call__(self, body: bytes, fields: Sequence[FieldSpec], reader: BodyReader) -> object:
        self.events.append("decoding began")
        self.begun.set()
        try:
            return decode_json_body(body, fields, reader)
        finally:
            self.events.append("the body was read")
            assert self.let.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def service() -> Iterator[InProcess]:
    with in_process(host_app()) as running:
        yield running


@contextmanager
def _asking_all_the_time(service: InProcess, events: list[str]) -> Iterator[None]:
    """Ask /livez over and over, and note each answer."""
    enough = threading.Event()

    def ask() -> None:
        while not enough.is_set():
            service.get("/livez").raise_for_status()
            events.append("another was served")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        enough.set()
        asking.join()


@pytest.mark.parametrize("name", BODIES)
def test_others_are_served_while_a_large_body_is_in_decoding(
    service: InProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = BODIES[name]()
    with monkeypatch.context() as patched:
        decode = WatchedDecode(patched)
        large = service.start("POST", "/plan", content=body)
        assert decode.begun.wait(PATIENCE_SECONDS)

        assert service.get("/livez").status_code == 200

        assert not large.done()
        decode.let.set()
        response = large.result(PATIENCE_SECONDS)
    if name == "a good one":
        assert response.json()["verify_slot_indices"] == GOOD_SLOTS
    else:
        require_problem(response)
        assert response.status_code < 500
    require_good_plan(service)


def test_decoding_gives_way_to_others_before_it_is_done(service: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    body = BODIES["a good one"]()
    decode = WatchedDecode(monkeypatch)
    decode.let.set()

    with _asking_all_the_time(service, decode.events):
        assert service.post_plan(body).status_code == 200

    began, read = decode.events.index("decoding began"), decode.events.index("the body was read")
    assert "another was served" in decode.events[began:read]


@pytest.mark.parametrize("part_bytes", [1, 7, 80, 1000])
def test_a_body_that_comes_in_parts_is_put_together(service: InProcess, part_bytes: int) -> None:
    body = HEAD + b"1,2,3],[5,6,7]]}"

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), part_bytes):
            yield body[start : start + part_bytes]
            yield b""

    response = service.post("/plan", content=parts(), headers={"content-type": "application/json"})
    assert response.json()["verify_slot_indices"] == GOOD_SLOTS
