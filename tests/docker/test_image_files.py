"""The files of the image name only what exists: settings, ports, commands, paths, versions. They are read as text; an
image is built and started by hand, as docker/Dockerfile says."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from typer.main import get_group

from service.__main__ import cli
from service.settings import PREFIX, Settings, variable_of

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
IGNORE_FILE = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PORT: int = Settings.model_fields["port"].default


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as pairs of instruction and argument, without comments, continued lines joined."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    pairs = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", lines).splitlines()]
    return [(name, argument) for name, argument in pairs]


def arguments(instruction: str) -> list[str]:
    """What the Dockerfile says after each occurrence of an instruction."""
    return [argument for name, argument in instructions() if name == instruction]


def assignments(instruction: str) -> dict[str, str]:
    """The ``name=value`` pairs of every ENV, LABEL or ARG."""
    words = [word for argument in arguments(instruction) for word in shlex.split(argument)]
    return dict(word.split("=", 1) for word in words if "=" in word)


def final_stage() -> list[tuple[str, str]]:
    """The instructions of the stage that becomes the image."""
    begin = max(number for number, (name, _) in enumerate(instructions()) if name == "FROM")
    return instructions()[begin:]


def test_every_setting_that_the_files_name_exists() -> None:
    known = {variable_of(name) for name in Settings.model_fields}
    for file in sorted(path for path in DOCKER.iterdir() if path.is_file()):
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+", file.read_text(encoding="utf-8")))
        assert named <= known, file.name


def test_the_image_listens_on_the_default_port_from_outside() -> None:
    assert arguments("EXPOSE") == [str(PORT)]
    assert assignments("ENV")["KV_PLAN_HOST"] == "0.0.0.0"  # noqa: S104 - a container's own addresses
    assert "KV_PLAN_PORT" not in assignments("ENV")


def test_compose_publishes_the_port_to_this_host_only() -> None:
    published = re.findall(r"^ +ports: \[(.*)\]$", COMPOSE, re.MULTILINE)
    assert published == [f'"127.0.0.1:{PORT}:{PORT}"']


def test_signals_reach_the_service_since_no_shell_stands_before_it() -> None:
    assert arguments("ENTRYPOINT") == ['["/opt/kv-plan/bin/kv-plan"]']
    assert arguments("CMD") == ['["serve"]']
    assert "kv-plan" in PROJECT["scripts"]
    assert "serve" in get_group(cli).commands


def test_the_process_is_a_numbered_user_without_rights() -> None:
    users = [argument for name, argument in final_stage() if name == "USER"]
    assert users == ["10001:10001"]
    assert "--uid 10001 --gid 10001" in " ".join(arguments("RUN"))


def test_the_probe_of_the_image_and_of_compose_are_one_command() -> None:
    (probe,) = arguments("HEALTHCHECK")
    command = re.findall(r'"([^"]+)"', probe)
    assert command[-1] == "/opt/kv-plan/healthcheck.py"
    assert re.findall(r"^ +test: \[CMD, (.*)\]$", COMPOSE, re.MULTILINE) == [", ".join(command)]


def test_the_version_label_is_that_of_the_project() -> None:
    assert assignments("LABEL")["org.opencontainers.image.version"] == PROJECT["version"]


def test_the_default_base_has_a_python_that_the_project_takes() -> None:
    base = assignments("ARG")["BASE_IMAGE"]
    found = re.search(r"python:3\.(\d+)-slim", base)
    needed = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    assert found is not None
    assert needed is not None
    assert int(found[1]) >= int(needed[1])
    assert f"${{BASE_IMAGE:-{base}}}" in COMPOSE


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    allowed = {line.removeprefix("!") for line in IGNORE_FILE.splitlines() if line.startswith("!")}
    copied = {
        source
        for argument in arguments("COPY")
        if "--from=" not in argument
        for source in [word for word in argument.split() if not word.startswith("--")][:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_compiled_kernels_go_to_a_place_that_the_user_owns_and_compose_keeps() -> None:
    cache = Path(assignments("ENV")["TRITON_CACHE_DIR"])
    assert f"--owner 10001 --group 10001 --mode 0755 {cache.parent};" in " ".join(arguments("RUN"))
    assert f"- triton-cache:{cache.parent}\n" in COMPOSE


def test_compose_waits_for_plans_in_flight_before_it_kills() -> None:
    (grace,) = re.findall(r"^ +stop_grace_period: (\d+)s$", COMPOSE, re.MULTILINE)
    assert int(grace) > Settings.model_fields["deadline_seconds"].default
