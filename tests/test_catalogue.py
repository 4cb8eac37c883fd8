"""Every error has its texts, is provoked by a function of its own, and is raised somewhere; nothing else is."""

import ast
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import service
from service.catalogue import CATALOGUE
from service.errors import Refusal
from service.http.problems import STATUS_OF, status_of
from tests.problems import require_problem
from tests.provoked import BODIES, IN_PROCESS, SITUATIONS
from tests.provoked_pools import POOL_SITUATIONS
from tests.running import GOOD_REQUEST, InProcess, host_app, in_process

SOURCE = Path(service.__path__[0])
RAISERS = ("refusal", "refuse_first", "refuse_repeated", "_within")


@pytest.fixture(scope="module")
def service_with_limits() -> Iterator[InProcess]:
    app = host_app(max_body_bytes=2000, max_requests=8, max_table_cells=19, max_verify_entries=8)
    with in_process(app) as running:
        yield running


@pytest.mark.parametrize("code", IN_PROCESS)
def test_an_error_of_the_in_process_api_is_raised(code: str) -> None:
    with pytest.raises(Refusal) as caught:
        IN_PROCESS[code]()
    assert caught.value.code == code
    assert isinstance(caught.value, TypeError if CATALOGUE[code].kind == "dtype" else ValueError)


@pytest.mark.parametrize("code", BODIES)
def test_an_error_of_a_body_is_answered(service_with_limits: InProcess, code: str) -> None:
    body = BODIES[code]
    if isinstance(body, bytes):
        response = service_with_limits.post_plan(body)
    else:
        response = service_with_limits.post("/plan", json=GOOD_REQUEST | body)
    require_problem(response, code)
    assert response.status_code == status_of(code)


@pytest.mark.parametrize("code", SITUATIONS)
def test_an_error_of_a_situation_is_answered(code: str) -> None:
    SITUATIONS[code]()


@pytest.mark.parametrize("code", POOL_SITUATIONS)
def test_an_error_of_pools_is_answered(code: str) -> None:
    POOL_SITUATIONS[code]()


def test_every_error_is_provoked_by_one_function() -> None:
    assert sorted([*IN_PROCESS, *BODIES, *SITUATIONS, *POOL_SITUATIONS]) == sorted(CATALOGUE)


def _codes_raised_in(source: Path) -> Iterator[str]:
    """The codes that a module gives to what raises them, and those that stand for a status of the framework."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISERS:
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_CODE_OF_STATUS":
            yield from ast.literal_eval(node.value).values()


def test_every_error_is_raised_in_the_source_and_nothing_else_is() -> None:
    raised = {code for source in SOURCE.rglob("*.py") for code in _codes_raised_in(source)}
    assert raised == set(CATALOGUE)


def test_only_known_errors_have_a_status() -> None:
    assert set(STATUS_OF) <= set(CATALOGUE)
    assert all(400 <= status < 600 for status in STATUS_OF.values())


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_an_entry_is_complete(entry: Any) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.code)
    texts = [entry.title, entry.template, entry.meaning, entry.trigger, *entry.situations, *entry.remedies]
    texts += [entry.example.before, entry.example.after]
    assert all(text.strip() == text != "" for text in texts)
    assert entry.situations
    assert entry.remedies
    assert entry.example.before != entry.example.after
    assert all(text.endswith(".") for text in (entry.meaning, entry.trigger, *entry.situations, *entry.remedies))
    assert entry.template.startswith("kv-canary: ") == (entry.kind != "serving")
    assert entry.related
    assert set(entry.related) <= set(CATALOGUE) - {entry.code}


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_page_of_an_error_is_its_entry(service_with_limits: InProcess, code: str) -> None:
    page = service_with_limits.get(f"/errors/{code}").json()
    entry = asdict(CATALOGUE[code])
    kind = entry.pop("kind")
    assert kind in ("value", "dtype", "serving")
    assert page == {name: list(value) if isinstance(value, tuple) else value for name, value in entry.items()} | {
        "status": status_of(code)
    }


def test_the_list_of_errors_has_every_page(service_with_limits: InProcess) -> None:
    pages = service_with_limits.get("/errors").json()["errors"]
    assert [page["code"] for page in pages] == list(CATALOGUE)
    assert pages == [service_with_limits.get(f"/errors/{code}").json() for code in CATALOGUE]
