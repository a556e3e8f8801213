# `make` lists the commands. A machine needs python3 (3.11+), make and git.

# An installed uv is used as it is. Otherwise pip installs one into a plain directory, which also
# works where the system manages its Python ("externally managed").
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
PYTHON := .venv/bin/python
INSTALL := $(UV) pip install --quiet --python $(PYTHON)
PYTEST := $(PYTHON) -m pytest

# With this variable, every process that a test starts would compile everything it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up demo test faults check docs bench components screenshots lock

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: .venv/run.stamp ## run Rota on SQLite at http://127.0.0.1:8080
	.venv/bin/rota up

demo: .venv/run.stamp ## watch a fleet of scripted agents work through sample items
	.venv/bin/rota demo

test: .venv/dev.stamp ## run the tests on both databases; ARGS="-k claim" goes to pytest
	$(PYTEST) -n 4 --dist worksteal $(ARGS)

faults: .venv/dev.stamp ## run the fault tests with their long variants
	$(PYTEST) tests/faults -m "" -o faulthandler_timeout=3600 $(ARGS)

check: .venv/dev.stamp ## check format, lint, types and the import law
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

docs: .venv/dev.stamp ## build the documentation as a site in .cache/site, and test it: links, commands
	$(PYTHON) -m tools.site
	$(PYTEST) tests/docs $(ARGS)

bench: .venv/bench.stamp ## measure Rota, and other queues beside it
	$(PYTHON) -m bench $(ARGS)

components: .venv/dev.stamp ## get what the tests need beyond Python packages, and say what is missing
	$(PYTHON) -m tools.components

screenshots: .venv/dev.stamp ## take the pictures in docs/images anew, of a fleet that is played
	$(PYTHON) -m tools.screenshots

# Each lock is constrained by the one before it, so that all of them fit into one environment.
# uv.lock is not used, because it names the package index it was made with. These files hold hashes
# instead, so any mirror can serve them.
LOCK := $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11
lock: | $(UV) ## compile requirements/*.lock again; ARGS=--upgrade takes new versions
	$(LOCK) $(ARGS) requirements/build.in -o requirements/build.lock
	$(LOCK) $(ARGS) pyproject.toml --extra board --extra mcp -o requirements/run.lock
	$(LOCK) $(ARGS) pyproject.toml --extra board --extra mcp --extra traces --group test --group check -c requirements/run.lock -o requirements/dev.lock
	$(LOCK) $(ARGS) pyproject.toml --extra board --extra mcp --extra traces --group test --group check --group bench -c requirements/dev.lock -o requirements/bench.lock

# A stamp says that its lock is installed; a lock that has changed since is newer. Each lock contains
# the one before, so they share an environment. Rota itself is installed in place.
.venv/%.stamp: requirements/%.lock requirements/build.lock pyproject.toml | $(PYTHON)
	$(INSTALL) --require-hashes -r $<
	$(INSTALL) --no-deps --build-constraints requirements/build.lock -e .
	@touch $@

$(PYTHON): | $(UV)
	$(UV) venv --quiet --clear --python '>=3.11' .venv

.uv/bin/uv:
	@python3 -m pip --version >/dev/null || { echo 'python3 has no pip: install uv, or pip (Debian: python3-pip)' >&2; exit 1; }
	python3 -m pip install --quiet --require-hashes --target .uv -r requirements/build.lock
