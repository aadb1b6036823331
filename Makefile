# `make help` lists the commands.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test test-slow test-all check package mutants bench figures docs tutorial-pictures clean

help:
	@echo "make demo       track the built-in drifting stream: a table and a picture"
	@echo "make test       run the tests except the slow ones"
	@echo "make test-slow  run the slow tests (minutes)"
	@echo "make test-all   run all tests, the heavy ones included (three quarters of an hour)"
	@echo "make check      check format, lint, types and import layers"
	@echo "make package    build the wheel and the source archive in dist/, and check them"
	@echo "make mutants    make small faults and count how many the tests find (half an hour)"
	@echo "make bench      run the benchmarks and write benchmarks/results/"
	@echo "make figures    compute all figures of the paper at full size and write a report (90 minutes)"
	@echo "make docs       build the documentation in docs/_build/html"
	@echo "make tutorial-pictures  draw the pictures of the tutorials again"
	@echo "make clean      remove the virtual environment and all caches"

demo: .venv/.demo
	$(BIN)/ocelad demo

# Which tests to run, by their marks.
TESTS ?= not slow and not heavy

# The kernels are compiled once, before the workers of pytest start: otherwise each worker compiles them. The tests
# without the compiler run meanwhile.
test: .venv/.dev .venv/.system
	$(BIN)/ocelad warm & compiling=$$!; \
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n auto -q tests/test_engines.py tests/test_kernels.py tests/test_blocked.py \
	  tests/test_diagonal.py tests/test_margins.py tests/test_relatives.py tests/test_step_schedule.py \
	  tests/test_compiled_weightings.py tests/test_scores.py tests/test_adaptive_definition.py tests/test_losses.py \
	  tests/test_lmnn_kernels.py tests/test_curved_tracker.py tests/test_feature_maps.py \
	  tests/test_rehearsal.py tests/test_implied_answers.py && wait $$compiling
	$(BIN)/pytest -n auto --dist worksteal -m '$(TESTS)'

test-slow: .venv/.dev .venv/.system
	$(BIN)/ocelad warm
	$(BIN)/pytest -n auto --dist worksteal -m slow

test-all: .venv/.spark
	$(MAKE) test TESTS=

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

package: .venv/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

mutants: .venv/.dev .venv/.system
	$(BIN)/ocelad warm
	$(BIN)/python tools/mutation.py map
	$(BIN)/python tools/mutation.py run

bench: .venv/.dev
	$(BIN)/python benchmarks/first_answers.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/limits.py
	$(BIN)/python benchmarks/sparse_pairs.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/health.py
	$(BIN)/python benchmarks/trials.py
	$(BIN)/python benchmarks/diagonal.py
	$(BIN)/python benchmarks/relative.py
	$(BIN)/python benchmarks/l1.py
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/track.py
	$(BIN)/python benchmarks/scores.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/adaptive.py
	$(BIN)/python benchmarks/changes.py
	$(BIN)/python benchmarks/regret.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/river_knn.py
	$(BIN)/python benchmarks/choice.py
	$(BIN)/python benchmarks/choice_time.py
	$(BIN)/python benchmarks/implied_answers.py rows
	$(BIN)/python benchmarks/implied_answers.py rows --wrong 0.1
	$(BIN)/python benchmarks/implied_answers.py line
	$(BIN)/python benchmarks/implied_answers.py switch
	$(BIN)/python benchmarks/entities.py
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/records.py --large
	$(BIN)/python benchmarks/comparison_graph.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/fleet.py --keys 2000 --answers 100 --name fleet-100
	$(BIN)/python benchmarks/fleet.py --keys 2000 --answers 100 --durable --name fleet-durable
	$(BIN)/python benchmarks/fleet_prior.py
	$(BIN)/python benchmarks/fleet_sizes.py
	$(BIN)/python benchmarks/compact_form.py
	$(BIN)/python benchmarks/fleet_sizes.py --changing --answers 1000 --answers 3000
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/service_projects.py
	$(BIN)/python benchmarks/service_few_answers.py
	$(BIN)/python benchmarks/answer_weights.py
	$(BIN)/ocelad compare --seeds 50 --output benchmarks/compare/figure
	$(BIN)/ocelad compare ensembles online fixed --tune 12 --seeds 50 --output benchmarks/compare/tuned
	$(BIN)/ocelad compare rice batch fixed --seeds 20 --output benchmarks/compare/batch
	$(BIN)/ocelad compare --suite adaptivity --output benchmarks/compare/adaptivity

figures: .venv/.dev
	$(BIN)/ocelad reproduce

docs: .venv/.docs
	@rm -rf docs/reference/api  # it may hold pages of names that are gone
	@begin=$$(date +%s); \
	$(BIN)/sphinx-build -W --keep-going -q -j auto docs docs/_build/html && \
	echo "Documentation: docs/_build/html/index.html, built in $$(($$(date +%s) - begin)) s"

# The pictures that the tutorials show are drawn by their own code.
tutorial-pictures: .venv/.docs
	$(BIN)/python tools/run_page.py docs/get-started.md docs/tutorials/*-*.md --pictures docs/tutorials/pictures

clean:
	rm -rf .venv .import_linter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build

.venv/bin/python:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; choose one with make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

# Each stamp file records that the package is installed with the extra of that name.
# Python compiles the modules that the demonstration imports, which are few.
.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --no-compile --editable '.[plot]'
	@touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@

.venv/.docs: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

# Spark and the packages that it needs take 500 MB, so only the heavy tests have them.
.venv/.spark: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[spark]'
	@command -v java >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y openjdk-17-jre-headless; } \
	  || echo "Java 17 is missing: the tests of Spark will be skipped"
	@touch $@

# The tests of the page need a browser, and those of the store a PostgreSQL server.
.venv/.system: .venv/bin/python
	@command -v chromium >/dev/null && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 \
	  || { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium postgresql; } \
	  || echo "chromium or postgresql is missing: the tests of the page and of PostgreSQL will be skipped"
	@touch $@
