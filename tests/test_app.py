"""What a server process does beside wiring the service together."""

import gc

import pytest

from service.app import create_app_from_environment


def test_a_server_process_spares_collections_what_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_DEVICE", "cpu")
    try:
        app = create_app_from_environment()
        assert gc.get_freeze_count() > 0
        assert not any(tracked is app for tracked in gc.get_objects())
    finally:
        gc.unfreeze()
