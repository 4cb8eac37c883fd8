"""Pools over a real socket: methods, media types, sizes, empty answers, and paths as they travel."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.pools import BATCH, LUT, TABLES, rows_update
from tests.problems import require_problem
from tests.running import InProcess, host_app, on_socket

STEP = {"scatter": {"req_to_token": rows_update({1: [14]})}, "plan": BATCH}
SCATTER = {"req_to_token": rows_update({1: [14]})}
WITH_BODIES: list[tuple[str, str, Any]] = [
    ("PUT", "/pools/a", TABLES),
    ("POST", "/pools/a/scatter", SCATTER),
    ("POST", "/pools/a/step", STEP),
    ("POST", "/plan", BATCH | {"pool": "a"}),
    ("POST", "/plan/offsets", BATCH | {"pool": "a"}),
    ("POST", "/plan/groups", BATCH | {"pool": "a", "groups": {"full": {}}}),
]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A service over a socket that has a pool called a and takes bodies up to 4096 bytes."""
    with on_socket(host_app(max_body_bytes=4096)) as connected:
        assert connected.put("/pools/a", json=TABLES).status_code == 201
        yield connected


def version(client: httpx.Client) -> int:
    found: int = client.get("/pools/a").json()["version"]
    return found


def test_the_life_of_a_pool_on_one_connection(client: httpx.Client) -> None:
    created = client.put("/pools/life", json=TABLES, headers={"if-none-match": "*"})
    assert created.status_code == 201
    tag = created.headers["etag"]
    unchanged = client.get("/pools/life", headers={"if-none-match": tag})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    stepped = client.post("/pools/life/step", json=STEP, headers={"if-match": tag})
    assert stepped.json()["verify_slot_indices"][0] == LUT[14]
    assert stepped.headers["etag"] == f'"{stepped.json()["pool_version"]}"' != tag
    require_problem(client.delete("/pools/life", headers={"if-match": tag}), "pool-precondition-failed")
    deleted = client.delete("/pools/life", headers={"if-match": stepped.headers["etag"]})
    assert (deleted.status_code, deleted.content) == (204, b"")
    require_problem(client.get("/pools/life"), "pool-not-found")


@pytest.mark.parametrize("rest", [b"ZZ\r\n", b"1\r\nxZZ", b"1\r\nx\r\n"], ids=["bad", "bad later", "cut"])
def test_a_deletion_that_is_no_whole_request_deletes_nothing(client: httpx.Client, rest: bytes) -> None:
    head = b"DELETE /pools/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as connection:
        connection.sendall(head + rest)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert answer[9:12] in (b"400", b"")
    assert client.get("/pools/a").status_code == 200


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/pools", {"GET"}),
        ("/pools/a", {"GET", "PUT", "DELETE"}),
        ("/pools/-bad", {"GET", "PUT", "DELETE"}),
        ("/pools/a/scatter", {"POST"}),
        ("/pools/a/step", {"POST"}),
        ("/plan/groups", {"POST"}),
    ],
)
def test_other_methods_are_told_all_that_the_path_allows(client: httpx.Client, path: str, allowed: set[str]) -> None:
    before = version(client)
    for method in {"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "PROPFIND"} - allowed:
        response = client.request(method, path)
        assert response.status_code == 405
        assert set(response.headers["allow"].split(", ")) == allowed
        if method != "HEAD":
            require_problem(response, "method-not-allowed")
    assert version(client) == before


def test_a_head_of_a_pool_has_no_body(client: httpx.Client) -> None:
    response = client.head("/pools/a")
    assert (response.status_code, response.content) == (405, b"")


@pytest.mark.parametrize(("method", "path", "body"), WITH_BODIES, ids=lambda value: value if type(value) is str else "")
def test_bodies_said_to_be_something_else_are_refused(
    client: httpx.Client, method: str, path: str, body: dict[str, Any]
) -> None:
    before = version(client)
    content = httpx.Request("POST", "http://x", json=body).content
    for headers, code in (
        ({"content-type": "text/plain"}, "unsupported-media-type"),
        ({"content-type": "application/json; charset=latin-1"}, "unsupported-media-type"),
        ({"content-encoding": "gzip"}, "unsupported-content-encoding"),
    ):
        response = client.request(method, path, content=content, headers=headers)
        require_problem(response, code)
        assert response.status_code == 415
    assert version(client) == before
    assert client.request(method, path, content=content).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), WITH_BODIES, ids=lambda value: value if type(value) is str else "")
def test_bodies_that_are_too_large_or_no_json_change_nothing(
    client: httpx.Client, method: str, path: str, body: dict[str, Any]
) -> None:
    before = version(client)
    for content, status in ((b" " * 5000, 413), (b"", 400), (b"{", 400), (b"[]", 422), (b'{"a": 1, "a": 1}', 422)):
        response = client.request(method, path, content=content)
        require_problem(response)
        assert response.status_code == status
    assert version(client) == before


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/pools/%2e%2e", "pool-name-invalid"),
        ("/pools/a%2Fb", "not-found"),
        ("/pools/a%00b", "pool-name-invalid"),
        ("/pools/%FF%FE", "pool-name-invalid"),
        ("/pools/%", "pool-name-invalid"),
        ("/pools/a%2", "pool-name-invalid"),
        ("/pools/a;b", "pool-name-invalid"),
        ("/pools//", "not-found"),
        ("//pools/a", "not-found"),
        ("/pools/" + "x" * 5000, "pool-name-invalid"),
    ],
)
def test_odd_paths_are_problems(client: httpx.Client, path: str, code: str) -> None:
    url = client.base_url.copy_with(raw_path=path.encode())
    require_problem(client.send(httpx.Request("GET", url, headers={"host": "x"})), code)
    assert client.get("/pools/a").status_code == 200


def test_a_query_string_is_no_part_of_the_name(client: httpx.Client) -> None:
    assert client.get("/pools/a?b=c").json()["pool"] == "a"


def test_both_ways_to_the_pool_routes_tell_the_same(client: httpx.Client, service: InProcess) -> None:
    over_socket, in_process = client.put("/pools/same", json=TABLES), service.request("PUT", "/pools/same", json=TABLES)
    first, second = over_socket.json(), in_process.json()
    assert first.pop("version") != second.pop("version")
    assert first == second
    assert client.delete("/pools/same").status_code == 204
