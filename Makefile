# Everything on a machine that has only Python 3.11 or newer and make. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
UV := .tools/bin/uv
PYTEST := $(BIN)/python -m pytest
TESTS ?= tests
WORKERS ?= 2
ARGS ?=
# The tests of one file run in one process, which starts one Spark session for all its files.
BESIDE := -n $(WORKERS) --dist loadfile --durations 40
# Without compiled modules every process of the tests would compile some thousands first.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo serve check test soak bench lint format lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/.installed ## build .venv from the locked requirements (Java too, where there is none)

# Where `make setup` had to prepare a Java, what make starts uses it.
WITH_JAVA = $(shell test -x .venv/java/bin/java && echo 'JAVA_HOME="$(CURDIR)/.venv/java"')

demo: .venv/.installed ## build a small lake, clean it, let a night pass, and check every row and file
	@$(WITH_JAVA) $(BIN)/python -m demo $(ARGS)

serve: .venv/.installed ## serve a small lake of its own: pages, API, something to agree to (ARGS="--port 8788")
	@$(WITH_JAVA) $(BIN)/python -m demo.serve $(ARGS)

check: .venv/.installed ## run the tests that need no Spark, Java or server: a few minutes
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m alone $(TESTS) $(ARGS)

test: .venv/.installed .venv/.jars ## run the tests (ARGS="-k name" to narrow)
	@tools/postgres.sh
	@tools/tmux.sh
	@tools/chromium.sh
	@tools/prometheus.sh
	@$(WITH_JAVA) $(PYTEST) $(BESIDE) $(TESTS) $(ARGS)

soak: .venv/.installed .venv/.jars ## run the long tests
	@tools/postgres.sh
	@$(WITH_JAVA) $(PYTEST) $(TESTS) -m soak --timeout 7200 $(ARGS)

bench: .venv/.installed .venv/.jars ## measure against Iceberg's own procedure
	@$(WITH_JAVA) $(BIN)/python -m bench $(ARGS)

lint: .venv/.installed ## style, types and the arrows between the packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src
	@$(BIN)/lint-imports

format: .venv/.installed ## let ruff lay the code out
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: .tools/.installed ## resolve the requirements anew
	@tools/lock.sh

clean: ## remove what make made
	rm -rf .venv .tools demo-lake demo-service .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.tools/.installed: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lakewarden needs Python 3.11 or newer; say which with make PYTHON=python3.12")'
	@echo "setting up: the installer (.tools)"
	@$(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

# An existing .venv is completed, not replaced.
.venv/.installed: .tools/.installed pyproject.toml requirements/runtime.txt requirements/dev.txt requirements/java.txt
	@echo "setting up: the locked packages (.venv)"
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/runtime.txt -r requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m lakewarden.pipeline.spark.java || { echo "setting up: Java (none of 17 or newer was found)" \
		&& $(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/java.txt \
		&& $(BIN)/python -m lakewarden.pipeline.spark.java .venv/java; }
	@echo "setting up: the archive that lets Spark start quickly"
	@$(BIN)/python -m lakewarden.pipeline.spark.class_archive >.venv/class-archive.log 2>&1 || cat .venv/class-archive.log
	@touch $@

.venv/.jars: .venv/.installed tests/support/spark.py tests/support/rest.py tests/support/nessie.py
	@echo "setting up: the jars that the tests' Spark session and catalog servers load"
	@$(BIN)/python -m tools.jars >.venv/jars.log 2>&1 || { cat .venv/jars.log; exit 1; }
	@touch $@
