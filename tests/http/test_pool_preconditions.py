"""Which version a caller means: If-Match, If-None-Match and pool_version, on every route of pools."""

from typing import Any

import pytest
from starlette.datastructures import Headers

from service.http.preconditions import is_unchanged, precondition_of
from service.runtime.pools import ANY, Precondition
from tests.pools import BATCH, TABLES, contents, put, rows_update, version_of
from tests.problems import require_good_plan, require_problem
from tests.running import InProcess

CHANGES: list[tuple[str, str, Any]] = [
    ("PUT", "", TABLES),
    ("DELETE", "", None),
    ("POST", "/scatter", {"req_to_token": rows_update({1: [7]})}),
    ("POST", "/step", {"plan": BATCH}),
]
NEVER = 1
"""A version that no pool is ever at."""


def call(
    service: InProcess, change: tuple[str, str, Any], name: str, **headers: str
) -> tuple[int, dict[str, Any] | None]:
    """Status of a change of the pool, and the problem if it is one."""
    method, path, body = change
    response = service.request(
        method,
        f"/pools/{name}{path}",
        json=body,
        headers={key.replace("_", "-"): value for key, value in headers.items()},
    )
    if response.status_code >= 400:
        require_problem(response)
        return response.status_code, response.json()
    return response.status_code, None


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}{change[1]}")
@pytest.mark.parametrize(
    "form", ['"{v}"', ' "{v}" ', '"1", "{v}"', '"{v}","1"', 'W/"1", "{v}"', '"",\t"{v}"', "*", " * "]
)
def test_a_change_goes_through_when_if_match_names_the_version(
    service: InProcess, change: tuple[str, str, Any], form: str
) -> None:
    version = put(service, "matched")
    status, _ = call(service, change, "matched", if_match=form.format(v=version))
    assert status in (200, 204)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}{change[1]}")
@pytest.mark.parametrize(
    "form", ["{v}", 'W/"{v}"', '"1"', '"{v}', '{v}"', "'{v}'", "", ",", '"{v} "', '"1", *', '"1", W/"{v}"', '"0{v}"']
)
def test_any_other_if_match_refuses_the_change_and_nothing_changes(
    service: InProcess, change: tuple[str, str, Any], form: str
) -> None:
    version = put(service, "unmatched")
    before = contents(service, "unmatched")
    status, problem = call(service, change, "unmatched", if_match=form.format(v=version))
    assert status == 412
    assert problem is not None
    assert problem["code"] == "pool-precondition-failed"
    assert problem["detail"] == f"pool unmatched is at version {version}, which If-Match does not allow"
    assert contents(service, "unmatched") == before


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}{change[1]}")
@pytest.mark.parametrize("form", ["*", '"1"'])
def test_if_match_refuses_a_pool_that_is_not_there(service: InProcess, change: tuple[str, str, Any], form: str) -> None:
    status, problem = call(service, change, "missing", if_match=form)
    assert status == 412
    assert problem is not None
    assert problem["detail"] == "pool missing is absent, which If-Match does not allow"
    assert service.get("/pools/missing").status_code == 404


def test_several_lines_of_if_match_are_one_list() -> None:
    headers = Headers(raw=[(b"if-match", b'"1"'), (b"if-match", b'"2", W/"3"')])
    assert precondition_of(headers) == Precondition(etags=frozenset({'"1"', '"2"'}))


def test_headers_that_are_not_there_require_nothing() -> None:
    assert precondition_of(Headers({})) == ANY
    assert not is_unchanged(Headers({}), '"1"')


MALFORMED = ["7", '7, "5"', '*, "5"', '"5", *', '"5" "6"', '"5', "\x00", "malformed"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}{change[1]}")
def test_if_none_match_keeps_a_version_that_is_named(service: InProcess, change: tuple[str, str, Any]) -> None:
    put(service, "named")
    before = contents(service, "named")
    for tag in (f'"{before.version}"', f'"1", W/"{before.version}"', "*", f"{before.version}", *MALFORMED):
        status, problem = call(service, change, "named", if_none_match=tag)
        assert (status, (problem or {}).get("code")) == (412, "pool-precondition-failed"), tag
    assert contents(service, "named") == before
    assert call(service, change, "named", if_none_match='"1"')[0] in (200, 204)


def test_malformed_lists_match_nothing_and_allow_no_pool() -> None:
    for listed in MALFORMED:
        assert precondition_of(Headers({"if-match": listed})) == Precondition(etags=frozenset())
        assert precondition_of(Headers({"if-none-match": listed})) == Precondition(other_etags=frozenset({"*"}))
    assert precondition_of(Headers({"if-none-match": ' , "1" ,, W/"2",'})).other_etags == {'"1"', '"2"'}


def test_if_none_match_lets_a_pool_be_created_once(service: InProcess) -> None:
    service.request("DELETE", "/pools/once")
    status, _ = call(service, CHANGES[0], "once", if_none_match="*")
    assert status == 201
    before = contents(service, "once")
    status, problem = call(service, CHANGES[0], "once", if_none_match=" * ")
    assert status == 412
    assert problem is not None
    assert problem["detail"] == f"pool once is at version {before.version}, which If-None-Match does not allow"
    assert contents(service, "once") == before
    service.request("DELETE", "/pools/once")


@pytest.mark.parametrize("form", ['"{v}"', 'W/"{v}"', '"1", "{v}"', 'W/"1",W/"{v}"', "*", ' "1",\t"{v}" '])
def test_a_caller_that_has_the_version_is_told_so(service: InProcess, form: str) -> None:
    version = put(service, "had")
    response = service.get("/pools/had", headers={"if-none-match": form.format(v=version)})
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == f'"{version}"'
    assert "content-length" not in response.headers


@pytest.mark.parametrize("form", ["{v}", '"1"', '"{v}', "", 'W/"1"'])
def test_a_caller_that_has_another_version_gets_the_pool(service: InProcess, form: str) -> None:
    version = put(service, "newer")
    response = service.get("/pools/newer", headers={"if-none-match": form.format(v=version)})
    assert (response.status_code, response.json()["version"]) == (200, version)


def test_a_caller_of_a_pool_that_is_gone_is_not_told_that_it_is_unchanged(service: InProcess) -> None:
    require_problem(service.get("/pools/missing", headers={"if-none-match": "*"}), "pool-not-found")


def in_bodies(version: int | None) -> list[tuple[str, str, Any]]:
    """Everything whose body may say which version of the pool called bodies it means."""
    over = BATCH | {"pool": "bodies", "pool_version": version}
    return [
        ("POST", "/plan", over),
        ("POST", "/plan/offsets", over),
        ("POST", "/plan/groups", over | {"groups": {"full": {}}}),
        ("POST", "/pools/bodies/scatter", {"req_to_token": rows_update({1: [7]}), "pool_version": version}),
        ("POST", "/pools/bodies/step", {"plan": BATCH, "pool_version": version}),
    ]


@pytest.mark.parametrize("number", range(5))
def test_pool_version_lets_through_its_version_only(service: InProcess, number: int) -> None:
    version = put(service, "bodies")
    before = contents(service, "bodies")
    for wrong in (NEVER, version + 1, 0, 2**63 - 1):
        method, path, body = in_bodies(wrong)[number]
        response = service.request(method, path, json=body)
        detail = require_problem(response, "pool-version-conflict")
        assert detail == f"pool bodies is at version {version}, not {wrong}"
        assert response.status_code == 409
    assert contents(service, "bodies") == before
    for pinned in (False, True):
        method, path, body = in_bodies(version if pinned else None)[number]
        assert service.request(method, path, json=body).status_code == 200
        version = version_of(service, "bodies")
    require_good_plan(service)


@pytest.mark.parametrize("number", range(5))
def test_pool_version_of_a_pool_that_is_not_there_is_not_found(service: InProcess, number: int) -> None:
    service.request("DELETE", "/pools/bodies")
    method, path, body = in_bodies(NEVER)[number]
    require_problem(service.request(method, path, json=body), "pool-not-found")


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    ("version", "code"),
    [("7", "not-an-integer"), (1.0, "not-an-integer"), (True, "not-an-integer"), (2**63, "value-does-not-fit")],
)
def test_pool_version_is_an_integer(service: InProcess, number: int, version: Any, code: str) -> None:
    method, path, body = in_bodies(version)[number]
    require_problem(service.request(method, path, json=body), code)


def test_both_the_header_and_the_body_must_agree_with_the_pool(service: InProcess) -> None:
    version = put(service, "both")
    step = {"plan": BATCH, "pool_version": NEVER}
    response = service.post("/pools/both/step", json=step, headers={"if-match": f'"{version}"'})
    require_problem(response, "pool-version-conflict")
    response = service.post("/pools/both/step", json=step | {"pool_version": version}, headers={"if-match": '"1"'})
    require_problem(response, "pool-precondition-failed")
    response = service.post(
        "/pools/both/step", json=step | {"pool_version": version}, headers={"if-match": f'"{version}"'}
    )
    assert response.status_code == 200
    assert response.headers["etag"] == f'"{response.json()["pool_version"]}"' == f'"{version_of(service, "both")}"'


def test_a_body_without_a_pool_has_no_version(service: InProcess) -> None:
    tables = {"req_to_token": TABLES["req_to_token"]}
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/plan", {}),
        ("/plan/offsets", {}),
        ("/plan/groups", {"groups": {"full": {}}}),
    ]
    for path, more in ways:
        body: dict[str, Any] = BATCH | tables | more
        response = service.post(path, json=body | {"pool_version": 7})
        assert require_problem(response, "requires-pool") == "pool_version is only for plans over a pool"
        require_problem(service.post(path, json=body | {"pool_version": 7, "pool": None}), "requires-pool")
        answer = service.post(path, json=body | {"pool_version": None, "pool": None})
        assert answer.status_code == 200
        assert "pool_version" not in answer.json()
