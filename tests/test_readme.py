"""The README is true: its snippets run, its answers are real, its tables are those of the code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.app import create_app
from service.catalogue import CATALOGUE
from service.http.problems import status_of
from service.settings import Settings, variable_of
from tests.running import host_app, in_process

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def section(name: str) -> str:
    """What stands between the markers of a generated section."""
    found = re.search(rf"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->", README, re.DOTALL)
    assert found is not None
    return found[1]


def errors_table() -> str:
    """The table of errors, by status."""
    rows = sorted(((status_of(code), entry) for code, entry in CATALOGUE.items()), key=lambda row: row[0])
    lines = ["| status | code | `detail` |", "|---|---|---|"]
    lines += [f"| {status} | `{entry.code}` | {entry.template} |" for status, entry in rows]
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    """The table of settings."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = f"`{field.default}`" if field.default != "" else "(empty)"
        lines.append(f"| `{variable_of(name)}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


def test_the_curl_examples_are_answered_as_it_says() -> None:
    calls = re.findall(r"curl -s(?: -X (PUT))? http://127.0.0.1:8000(/\S+) -H '[^']*' -d '(.*?)'", README, re.DOTALL)
    assert len(calls) == README.count("curl -s")
    with in_process(host_app()) as service:
        answers = [service.request(method or "POST", path, content=body) for method, path, body in calls]
    assert [answer.is_success for answer in answers] == [True] * 6
    (answer,) = blocks("json")
    assert answers[0].json() == json.loads(answer)
    groups = answers[-1].json()["groups"]
    told = [", ".join(map(str, groups[name]["verify_slot_indices"])) for name in ("full", "swa")]
    assert f"The last answers slots {told[0]} for `full`, and {told[1]} for `swa`." in README


@pytest.mark.parametrize("snippet", blocks("python"))
def test_a_python_snippet_runs(snippet: str) -> None:
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_make_targets_it_names_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)`", README)) | set(re.findall(r"^\$ make ([a-z]+)$", README, re.MULTILINE))
    assert {"serve", "test", "lint", "openapi"} <= named
    for target in named:
        subprocess.run(["make", "--dry-run", target], capture_output=True, check=True, cwd=ROOT)  # noqa: S607


def test_the_files_it_names_exist() -> None:
    paths = re.findall(r"`((?:service|docker|tests)/[\w./]*)`", README)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_its_routes_are_those_of_the_service() -> None:
    routes = create_app(Settings(device="cpu", kernels="host")).openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in routes.items() for method in methods}
    named = set(re.findall(r"^\| `((?:GET|POST|PUT|DELETE) [^`]+)` \|", README, re.MULTILINE))
    assert named == served | {"GET /docs", "GET /openapi.json"}


def test_its_error_table_is_the_catalogue() -> None:
    assert section("errors") == errors_table()


def test_its_settings_table_is_that_of_the_settings() -> None:
    assert section("settings") == settings_table()
