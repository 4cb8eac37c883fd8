"""What only a socket shows: bytes that are no HTTP, lengths that lie, clients that leave, connections that end."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.problems import require_problem
from tests.running import GOOD_REQUEST, GOOD_SLOTS, PATIENCE_SECONDS, host_app, on_socket

GOOD = json.dumps(GOOD_REQUEST).encode()


def _connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 80), PATIENCE_SECONDS)


def _exchange(client: httpx.Client, request: bytes) -> httpx.Response:
    """The one answer to raw bytes, read until the server closes the connection."""
    with _connect(client) as connection:
        connection.sendall(request)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines[1:])]
    return httpx.Response(int(lines[0].split()[1]), headers=headers, content=body)


def _require_still_serving(client: httpx.Client) -> None:
    assert client.post("/plan", json=GOOD_REQUEST).json()["verify_slot_indices"] == GOOD_SLOTS


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"no http at all\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /plan HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /plan HTTP/1.1\r\nhost: x\r\na\x00b: c\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_bytes_that_are_no_http_request_are_a_problem(socket_client: httpx.Client, request_bytes: bytes) -> None:
    response = _exchange(socket_client, request_bytes)
    require_problem(response, "bad-request")
    assert response.status_code == 400
    assert response.headers["connection"] == "close"
    _require_still_serving(socket_client)


def _chunked(total_bytes: int) -> Iterator[bytes]:
    for _ in range(total_bytes // 1000):
        yield b" " * 1000


def test_a_body_over_the_limit_ends_the_connection(socket_client: httpx.Client) -> None:
    for content in (b" " * 5000, _chunked(10_000), _chunked(20_000_000)):
        response = socket_client.post("/plan", content=content)
        require_problem(response, "body-too-large")
        assert response.headers["connection"] == "close"
        _require_still_serving(socket_client)


def test_an_announced_length_over_the_limit_is_refused_before_any_byte_of_it(socket_client: httpx.Client) -> None:
    head = b"POST /plan HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n"
    response = _exchange(socket_client, head)
    require_problem(response, "body-too-large")
    assert response.status_code == 413


def test_a_client_that_leaves_in_the_middle_of_its_body_disturbs_nobody(socket_client: httpx.Client) -> None:
    with _connect(socket_client) as connection:
        connection.sendall(b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    _require_still_serving(socket_client)


def test_requests_in_one_connection_are_answered_in_order(socket_client: httpx.Client) -> None:
    plan = b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(GOOD) + GOOD
    last = b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with _connect(socket_client) as connection:
        connection.sendall(plan + plan + last)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"200", b"404"]


def test_an_upgrade_to_a_websocket_is_an_ordinary_request(socket_client: httpx.Client) -> None:
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-key": "x", "sec-websocket-version": "13"}
    require_problem(socket_client.get("/plan", headers=headers), "method-not-allowed")
    _require_still_serving(socket_client)


def test_head_has_the_headers_of_the_problem_and_no_body(socket_client: httpx.Client) -> None:
    response = socket_client.head("/plan")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.headers["x-request-id"]
    assert response.content == b""
    _require_still_serving(socket_client)


def test_an_answer_does_not_name_the_server_and_tells_its_stages(socket_client: httpx.Client) -> None:
    response = socket_client.post("/plan", json=GOOD_REQUEST)
    stages = [stage.partition(";dur=")[0] for stage in response.headers["server-timing"].split(", ")]
    assert stages == ["decode", "queue", "compute", "encode"]
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "names", [b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c", b"UPGRADE: h2c\r\nConnection: upgrade"]
)
@pytest.mark.parametrize("pause", [False, True])
def test_an_offer_to_upgrade_is_ignored_and_its_body_read(
    socket_client: httpx.Client, names: bytes, pause: bool
) -> None:
    head = b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%s\r\n\r\n" % (len(GOOD), names)
    with _connect(socket_client) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (head, GOOD) if pause else (head + GOOD,):
            connection.sendall(part)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("line", [b"x-long: ", b"GET /livez?"])
def test_headers_without_end_are_refused_and_the_connection_closed(socket_client: httpx.Client, line: bytes) -> None:
    start = line if line.startswith(b"GET") else b"GET /livez HTTP/1.1\r\nhost: x\r\n" + line
    received = b""
    with _connect(socket_client) as connection:
        try:
            connection.sendall(start)
            for _ in range(1000):
                connection.sendall(b"a" * 65536)
        except OSError:  # the server has closed it
            pass
        else:
            pytest.fail("64 MB of headers were taken")
        with contextlib.suppress(OSError):
            received = connection.recv(65536)
    assert not received or int(received.split()[1]) in (400, 431)
    _require_still_serving(socket_client)


def test_a_long_head_that_ends_is_refused_once(socket_client: httpx.Client) -> None:
    response = socket_client.get("/livez", headers={"x-long": "a" * 300_000})
    require_problem(response, "headers-too-large")
    assert response.status_code == 431
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize("kilobytes", [1, 60, 70, 200, 1000])
@pytest.mark.parametrize("piece", [1000, 65536, 2**20])
def test_a_body_is_not_taken_for_a_head_however_it_arrives(kilobytes: int, piece: int) -> None:
    request = GOOD_REQUEST | {"full_to_swa_index_mapping": list(range(100, 100 + kilobytes * 200))}
    body = json.dumps(request).encode()
    head = b"POST /plan HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    with on_socket(host_app()) as client, _connect(client) as connection:
        for _ in range(2):
            for start in range(0, len(head + body), piece):
                connection.sendall((head + body)[start : start + piece])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(2 * (head + body))  # pipelined
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 2:
            received = connection.recv(65536)
            assert received, answers
            answers += received


def test_many_requests_on_one_connection_are_not_added_up(socket_client: httpx.Client) -> None:
    for _ in range(20):
        assert socket_client.get("/livez", headers={"x-long": "a" * 10_000}).status_code == 200
