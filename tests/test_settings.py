"""Every setting is read, bounded, told, and seen to matter; a misspelt one is refused."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from service.app import create_app_from_environment
from service.server import server_config
from service.settings import Settings, SettingsError, load_settings, variable_of
from tests.problems import require_problem
from tests.running import GOOD_REQUEST, host_app, in_process

OTHER_VALUES: dict[str, Any] = {
    "host": "0.0.0.0",  # noqa: S104
    "port": 9000,
    "workers": 3,
    "root_path": "/kv",
    "log_level": "debug",
    "keep_alive_seconds": 5,
    "device": "cpu",
    "kernels": "host",
    "max_body_bytes": 100,
    "max_requests": 2,
    "max_table_cells": 3,
    "max_verify_entries": 4,
    "max_resident_bytes": 6,
    "max_queued_requests": 5,
    "body_timeout_seconds": 2.5,
    "deadline_seconds": 1.5,
    "inline_body_bytes": 0,
    "codec_threads": 1,
}
BAD_VALUES = {
    "host": [""],
    "port": ["-1", "65536", "http", ""],
    "workers": ["0", "65", "1.5"],
    "root_path": ["kv", "/kv/", "/<script>", "/a b"],
    "log_level": ["loud", "INFO "],
    "keep_alive_seconds": ["0"],
    "device": ["gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:200", "CPU", "cpu:0", "cpu\n"],
    "kernels": ["cuda", ""],
    "max_body_bytes": ["0", "64MiB"],
    "max_requests": ["0"],
    "max_table_cells": ["0"],
    "max_verify_entries": ["0"],
    "max_resident_bytes": ["-1"],
    "max_queued_requests": ["0"],
    "body_timeout_seconds": ["0", "-1", "nan", "inf", "86401"],
    "deadline_seconds": ["0", "-1", "nan", "inf", "86401"],
    "inline_body_bytes": ["-1"],
    "codec_threads": ["0", "65"],
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see their own settings alone."""
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Leave the loggers as they were found."""
    names = ("service", "uvicorn", "uvicorn.error", "uvicorn.access")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_the_tables_of_this_file_name_every_setting() -> None:
    assert list(OTHER_VALUES) == list(Settings.model_fields)
    assert set(BAD_VALUES) == set(Settings.model_fields)


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_variable_sets_its_setting_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = load_settings({}).model_dump()
    monkeypatch.setenv(variable_of(name), str(OTHER_VALUES[name]))

    assert load_settings({}).model_dump() == defaults | {name: OTHER_VALUES[name]}
    assert OTHER_VALUES[name] != defaults[name]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD_VALUES for value in BAD_VALUES[name]])
def test_a_value_that_a_setting_cannot_take_is_refused_by_the_variables_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable_of(name), value)
    with pytest.raises(SettingsError, match=f"^{variable_of(name)}: "):
        load_settings({})


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("KV_PLAN_PROT", "KV_PLAN_PROT: no such setting, did you mean KV_PLAN_PORT?"),
        ("kv_plan_devise", "kv_plan_devise: no such setting, did you mean KV_PLAN_DEVICE?"),
        ("KV_PLAN_MAX_BODY", "KV_PLAN_MAX_BODY: no such setting, did you mean KV_PLAN_MAX_BODY_BYTES?"),
        ("KV_PLAN_", "KV_PLAN_: no such setting"),
        ("KV_PLAN_QQQQQQ", "KV_PLAN_QQQQQQ: no such setting"),
    ],
)
def test_a_variable_that_no_setting_has_is_refused(variable: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"KV_PLAN_PORT": "1", "PATH": "x", variable: "1"})
    assert str(caught.value).startswith(words)


def test_every_misspelt_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"KV_PLAN_A: .*; KV_PLAN_B: "):
        load_settings({"KV_PLAN_B": "1", "KV_PLAN_A": "1"})


def test_every_setting_says_what_it_does_and_cannot_be_changed_later() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


def test_info_tells_every_setting_in_force() -> None:
    with in_process(host_app(max_requests=7)) as service:
        told = {setting["name"]: setting for setting in service.get("/info").json()["settings"]}
    assert list(told) == list(Settings.model_fields)
    assert told["max_requests"]["value"] == 7
    assert all(told[name]["variable"] == variable_of(name) for name in told)
    assert all(told[name]["meaning"] for name in told)


@pytest.mark.usefixtures("restored_logging")
def test_the_server_is_told_its_settings() -> None:
    config = server_config(
        Settings(
            workers=3,
            root_path="/kv",
            log_level="debug",
            keep_alive_seconds=5,
            body_timeout_seconds=2.5,
            deadline_seconds=1.75,
        )
    )
    assert (config.workers, config.root_path, config.timeout_keep_alive) == (3, "/kv", 5)
    assert config.timeout_graceful_shutdown == 5
    assert logging.getLogger("uvicorn.error").level == logging.getLogger("service").level == logging.DEBUG


LIMITED: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "max_body_bytes": (10, "body-too-large", GOOD_REQUEST),
    "max_requests": (1, "batch-too-large", GOOD_REQUEST | {"write_req_capacity": 2}),
    "max_table_cells": (5, "table-too-large", GOOD_REQUEST),
    "max_verify_entries": (1, "plan-too-large", GOOD_REQUEST),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_refuses_one_more_than_it_says_and_names_itself(name: str) -> None:
    limit, code, request = LIMITED[name]
    with in_process(host_app(**{name: limit})) as service:
        detail = require_problem(service.post("/plan", json=request), code)
    assert variable_of(name) in detail
    assert str(limit) in detail


@pytest.mark.parametrize(("name", "limit"), [("max_requests", 2), ("max_table_cells", 6), ("max_verify_entries", 2)])
def test_a_limit_takes_what_it_says(name: str, limit: int) -> None:
    settings: dict[str, Any] = {name: limit}
    with in_process(host_app(**settings)) as service:
        assert service.post("/plan", json=GOOD_REQUEST | {"write_req_capacity": 2}).status_code == 200


def test_vectors_count_as_requests_and_tables_as_cells() -> None:
    with in_process(host_app(max_requests=2, max_table_cells=6)) as service:
        batch = {name: [0, 0, 0] for name in ("req_pool_indices", "prefix_lens", "extend_seq_lens")}
        lut = {"full_to_swa_index_mapping": [0] * 7}
        assert require_problem(service.post("/plan", json=GOOD_REQUEST | batch), "batch-too-large") == (
            "bs=3 exceeds the limit of 2 requests (KV_PLAN_MAX_REQUESTS)"
        )
        assert require_problem(service.post("/plan", json=GOOD_REQUEST | lut), "table-too-large").startswith("full_to")


def test_offsets_and_disabled_plans_are_not_bounded_by_the_limit_on_entries() -> None:
    with in_process(host_app(max_verify_entries=1)) as service:
        assert service.post("/plan/offsets", json=GOOD_REQUEST).json()["verify_total"] == 2
        assert service.post("/plan", json=GOOD_REQUEST | {"verify_capacity": 1}).json()["verify_enable"] is False


def test_a_server_process_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_DEVICE", "cpu")
    monkeypatch.setenv("KV_PLAN_MAX_REQUESTS", "1")
    with in_process(create_app_from_environment()) as service:
        response = service.post("/plan", json=GOOD_REQUEST | {"write_req_capacity": 2})
    require_problem(response, "batch-too-large")
