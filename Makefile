# Targets: serve, test, lint, openapi, bench, clean. Each makes its own virtual environment in .venv with the pinned versions.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint docker/constraints.txt

.PHONY: serve test lint openapi bench clean

serve: .venv/installed
	$(BIN)/kv-plan serve

test: .venv/installed-dev
	$(BIN)/python -m pytest --cov --cov-report=term

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/kv-plan openapi --check

openapi: .venv/installed
	$(BIN)/kv-plan openapi

bench: .venv/installed
	$(BIN)/kv-plan bench

clean:
	rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find service tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found; install Python 3.11 or newer, or run: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old; Python 3.11 or newer is needed, run: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; install its venv package (Debian: python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/python pyproject.toml docker/constraints.txt
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@
