"""The schema is true: in step with the code, complete, its examples real, its pages served from here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from service.bodies import PLAN_BODY
from service.catalogue import CATALOGUE
from service.http.body_models import PlanGroupsRequest, PlanRequest, PoolRequest, ScatterRequest, StepRequest
from service.http.examples import (
    GROUPS_EXAMPLES,
    POOL_EXAMPLES,
    SCATTER_EXAMPLES,
    STEP_EXAMPLES,
    WORKED_EXAMPLES,
    WorkedExample,
)
from service.http.openapi import build_openapi, openapi_text
from service.http.problems import status_of
from service.spec import PLAN_INPUTS, PLAN_OUTPUTS, TensorSpec
from tests.problems import MEMBERS
from tests.running import GOOD_REQUEST, InProcess, host_app, in_process, on_socket

FILE = Path(__file__).parent.parent / "openapi.json"
DOCUMENT: dict[str, Any] = orjson.loads(FILE.read_bytes())
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS: list[dict[str, Any]] = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
MISTAKES: dict[str, bytes] = {
    "malformed-json": b'{"req_pool_indices": [1], "prefix_lens": [2,], "extend_seq_lens": [1], "req_to_token": []}',
    "duplicate-field": b'{"prefix_lens": [1], "prefix_lens": [2]}',
    "body-too-large": b" " * 64 * 2**20 + b" ",
    "window-requires-lut": orjson.dumps(GOOD_REQUEST | {"swa_window_size": 1}),
    "row-outside-table": orjson.dumps(
        GOOD_REQUEST
        | {
            "req_pool_indices": [1, 900],
            "prefix_lens": [1, 1],
            "extend_seq_lens": [1, 1],
            "req_to_token": [[0], [1], [2], [3]],
        }
    ),
    "value-does-not-fit": orjson.dumps(
        GOOD_REQUEST | {"req_to_token": [[0] * 6, [0] * 6, [0, 0, 0, 0, 0, 2147483648], [0] * 6]}
    ),
    "unknown-field": orjson.dumps(GOOD_REQUEST | {"prefix_len": [2]}),
    "pool-with-inline-tables": orjson.dumps(GOOD_REQUEST | {"pool": "example"}),
}
"""Bodies that meet the errors shown as examples; those that no body meets are provoked elsewhere."""


@pytest.fixture(scope="module")
def service() -> Iterator[InProcess]:
    with in_process(host_app()) as running:
        yield running


def _problems() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every problem that the schema shows: the status it stands under, and the problem."""
    for operation in OPERATIONS:
        for status, response in operation["responses"].items():
            if "application/problem+json" in response.get("content", {}):
                examples = response["content"]["application/problem+json"]["examples"]
                yield from ((status, example["value"]) for example in examples.values())


def test_the_file_is_what_the_code_makes(service: InProcess) -> None:
    in_step = FILE.read_text(encoding="utf-8") == openapi_text(build_openapi(host_app()))
    assert in_step, "openapi.json is out of date; run: make openapi"
    assert service.get("/openapi.json").json() == DOCUMENT


@pytest.mark.parametrize("spec", PLAN_INPUTS, ids=lambda spec: spec.name)
def test_every_input_says_shape_dtype_and_meaning(spec: Any) -> None:
    described = SCHEMAS["PlanRequest"]["properties"][spec.name]
    shape = spec.shape_text if isinstance(spec, TensorSpec) else spec.dtype
    unless = " Required unless `pool` is given." if spec.name == "req_to_token" else ""
    assert described["description"] == f"{shape}. {spec.sentence}{unless}"
    assert f'"format":"{spec.dtype}"' in orjson.dumps(described).decode()
    required = isinstance(spec, TensorSpec) and spec.required and not unless
    assert (spec.name in SCHEMAS["PlanRequest"]["required"]) == required


@pytest.mark.parametrize("spec", PLAN_OUTPUTS, ids=lambda spec: spec.name)
def test_every_output_says_shape_dtype_and_meaning(spec: Any) -> None:
    for model in ("PlanResponse", "PlanOffsetsResponse"):
        described = SCHEMAS[model]["properties"].get(spec.name)
        if model == "PlanOffsetsResponse" and spec.entries:
            assert described is None
        else:
            assert described["description"] == f"{spec.shape_text}. {spec.sentence}"
            assert described["type"] == spec.kind


def test_the_schema_has_no_field_beside_the_table() -> None:
    assert list(SCHEMAS["PlanRequest"]["properties"]) == [spec.name for spec in PLAN_BODY]
    assert list(SCHEMAS["PlanResponse"]["properties"]) == [*(spec.name for spec in PLAN_OUTPUTS), "pool_version"]
    assert list(SCHEMAS["Problem"]["properties"]) == [*MEMBERS, "loc"]
    for operation in OPERATIONS:
        for body in operation.get("requestBody", {}).get("content", {}).values():
            name = body["schema"]["$ref"].rpartition("/")[2]
            assert SCHEMAS[name]["additionalProperties"] is False


@pytest.mark.parametrize("example", WORKED_EXAMPLES, ids=lambda example: example.name)
def test_a_worked_example_is_the_real_answer(service: InProcess, example: WorkedExample) -> None:
    PlanRequest.model_validate(example.request, strict=True)
    for path in ("/plan", "/plan/offsets"):
        operation = DOCUMENT["paths"][path]["post"]
        shown = operation["requestBody"]["content"]["application/json"]["examples"][example.name]["value"]
        answer = operation["responses"]["200"]["content"]["application/json"]["examples"][example.name]["value"]

        real = service.post(path, json=shown).json()

        assert real == answer | {"device": "cpu", "backend": "host"}


@pytest.mark.parametrize("example", GROUPS_EXAMPLES, ids=lambda example: example.name)
def test_a_worked_example_of_groups_is_the_real_answer(service: InProcess, example: WorkedExample) -> None:
    PlanGroupsRequest.model_validate(example.request, strict=True)
    real = service.post("/plan/groups", json=example.request).json()
    assert real == example.response | {"device": "cpu", "backend": "host"}


def test_the_worked_examples_of_pools_are_real_answers_one_after_the_other(service: InProcess) -> None:
    calls = [
        ("PUT", "/pools/example", PoolRequest, POOL_EXAMPLES),
        ("POST", "/pools/example/scatter", ScatterRequest, SCATTER_EXAMPLES),
        ("POST", "/pools/example/step", StepRequest, STEP_EXAMPLES),
    ]
    version = 0
    for method, path, model, examples in calls:
        for example in examples:
            model.model_validate(example.request, strict=True)
            response = service.request(method, path, json=example.request)
            signature = {"device": "cpu", "backend": "host"} if path.endswith("step") else {}
            name = "pool_version" if signature else "version"
            real = response.json()
            assert real == example.response | signature | {name: real[name]}
            assert response.headers["etag"] == f'"{real[name]}"'
            assert real[name] > version
            version = real[name]


def test_operation_ids_are_unique_and_fit_for_client_generators() -> None:
    ids = [operation["operationId"] for operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", operation_id) for operation_id in ids)
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(operation["tags"] and set(operation["tags"]) <= tags for operation in OPERATIONS)
    assert all(operation["summary"] and operation["description"] for operation in OPERATIONS)


def test_every_status_of_a_plan_error_is_listed_with_an_example() -> None:
    listed = set(DOCUMENT["paths"]["/plan"]["post"]["responses"]) - {"200"}
    assert listed == set(DOCUMENT["paths"]["/plan/offsets"]["post"]["responses"]) - {"200"}
    elsewhere = {"not-found", "method-not-allowed", "not-ready"}
    elsewhere |= {"pool-precondition-failed", "resident-budget-exceeded"}
    assert listed == {str(status_of(code)) for code in CATALOGUE if code not in elsewhere} | {"404"}


def test_every_example_of_an_error_is_a_problem_of_the_catalogue() -> None:
    for status, problem in _problems():
        entry = CATALOGUE[problem["code"]]
        assert list(problem) == MEMBERS
        assert problem["type"] == f"/errors/{entry.code}"
        assert problem["title"] == entry.title
        assert problem["status"] == status_of(entry.code)
        assert status in (str(problem["status"]), "default")
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(entry.template)).replace(".+.+", ".*")
        assert re.fullmatch(pattern, problem["detail"])
        assert problem["detail"] == problem["error"]


@pytest.mark.parametrize("code", MISTAKES)
def test_an_example_of_an_error_has_the_words_that_are_answered(service: InProcess, code: str) -> None:
    shown = [problem["detail"] for _, problem in _problems() if problem["code"] == code]
    assert shown
    assert {service.post_plan(MISTAKES[code]).json()["detail"]} == set(shown)


def test_the_docs_page_and_all_it_needs_come_from_here(service: InProcess) -> None:
    page = service.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)["']""", page.text)
    assert len(links) >= 4
    for link in links:
        assert link.startswith("/")
        assert not link.startswith("//")
        assert service.get(link).status_code == 200
    assert "://" not in page.text
    assert service.get("/docs/oauth2-redirect").status_code == 200


def test_behind_a_proxy_that_strips_a_prefix_the_links_have_it() -> None:
    with on_socket(host_app(), root_path="/kv") as client:
        page = client.get("/docs").text
        assert client.get("/static-offline-docs/swagger-ui.css").status_code == 200
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/kv"}]
        assert client.post("/plan", json=GOOD_REQUEST).status_code == 200
    links = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)["']""", page)
    assert links
    assert all(link.startswith("/kv/") for link in links)
