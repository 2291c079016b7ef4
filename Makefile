# Needs Python 3.11 or newer, make and a package index; everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
LINTERS := $(VENV)/.linters
# pip itself compiles on one core, and the tests of pandas too. What fails to compile is no module.
PIP := $(BIN)/python -m pip install --quiet --no-compile
COMPILE_LIBRARIES := $(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true
# Two more than there are cores: many tests wait for a lock, a signal or an end.
WORKERS ?= $(shell $(PYTHON) -c "import os; \
    own = getattr(os, 'sched_getaffinity', None); \
    print((len(own(0)) if own else os.cpu_count() or 1) + 2)")

.PHONY: demo test checks lint types platforms layers repository unit programs environments soak \
    docs site dist packages format bench compare performance fuzz clean

# The package alone, which is all that the demo needs.
$(PACKAGE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@$(COMPILE_LIBRARIES)
	touch $@

$(STAMP): $(PACKAGE)
	$(PIP) --upgrade "pip>=25.1" # the first with --group
	$(PIP) --group test --group bench
	@$(COMPILE_LIBRARIES)
	touch $@

$(LINTERS): $(STAMP)
	$(PIP) --group lint
	touch $@

# Where PYTHONDONTWRITEBYTECODE is set, Python never compiles an editable install by itself,
# and each process would compile all the modules that it loads.
.PHONY: compiled
compiled: $(PACKAGE)
	@$(BIN)/python -m compileall -q -j 0 src

# For the same reason each worker would compile all the tests, which takes longer than to load them.
.PHONY: collected
collected: $(STAMP) compiled
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq > /dev/null || true

demo: compiled
	$(BIN)/python scripts/demo.py

# Everything that must hold, as .ci/run runs it.
# Of the checks each keeps one core busy, and they take as long as a tenth of the tests.
test: $(STAMP) compiled
	$(MAKE) --no-print-directory -j 2 checks unit

checks: lint types layers repository

lint: $(LINTERS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(LINTERS)
	$(BIN)/mypy

# The source as for other systems, whose functions mypy knows; see docs/development/platforms.md.
platforms: $(LINTERS)
	for system in darwin win32; do $(BIN)/mypy --platform $$system --no-warn-unreachable \
	    --no-warn-unused-ignores --cache-dir .mypy_cache/$$system src/memvault || exit 1; done

# With a test that each contract reports a violation, which is skipped where only the tests are installed.
layers: $(LINTERS)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_import_contracts.py

# Pages, links, docstrings of tests, promises, generated files.
repository: $(STAMP) compiled
	$(BIN)/python scripts/check_repository.py

unit: $(STAMP) compiled collected
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} PYTHONUTF8=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What needs programs that no test fetches; one that is missing fails.
programs: $(STAMP) compiled
	$(PIP) --group browser
	$(BIN)/python -m pytest -q tests/programs

# The demo and each page of a session where one thing differs from a fresh machine: a variable, the
# time zone, the locale, the umask, the priority, the standard input. And the tests of dates in
# three time zones.
ZONED := $(addprefix tests/test_,$(addsuffix .py,browse capture consolidate current dates import \
    import_details opening plans session_capture showing state talk waiting))
environments: $(STAMP) compiled
	for zone in Europe/Berlin America/New_York Pacific/Kiritimati; do MEMVAULT_TEST_ZONE=$$zone \
	    $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(ZONED) || exit 1; done
	SOAK_SECONDS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal \
	    tests/test_environments.py

# What takes minutes: every fault at every change of every tool, for SOAK_SECONDS, a crowd of 16;
# every case of what is sampled, every pattern, hard texts at full size, longer races, properties
# with 1,500 examples; 300 random steps in two clones, ten times, and a sync killed at each point;
# 3,000 recalls over each transport.
soak: $(STAMP) compiled
	SOAK_SECONDS=$${SOAK_SECONDS:-1800} $(BIN)/python -m pytest -q -s \
	    tests/test_killed.py tests/test_crowd.py tests/test_fuzzed.py \
	    tests/test_hostile_texts.py tests/test_concurrency.py \
	    tests/test_experience_facts.py
	SOAK_SECONDS=1 $(BIN)/python -m pytest -q -m sampled --ignore=tests/test_environments.py
	$(MAKE) --no-print-directory environments
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -q tests/test_store_model.py \
	    tests/test_fresh.py tests/test_degraded.py tests/test_obsidian.py tests/test_current.py \
	    tests/test_index_place.py tests/test_state.py tests/test_inbox.py tests/test_firing.py \
	    tests/test_same_everywhere.py tests/test_arguments.py
	MEMVAULT_GIT_STEPS=300 MEMVAULT_GIT_SEEDS=10 MEMVAULT_GIT_STRIDE=1 \
	    $(BIN)/python -m pytest -q tests/test_git_soak.py tests/test_git_pushed.py
	MEMVAULT_RECALLS=3000 $(BIN)/python -m pytest -q tests/test_long_running.py
	MEMVAULT_ENGINE_ROUNDS=24 MEMVAULT_ENGINE_NOTES=50 \
	    $(BIN)/python -m pytest -q tests/test_engine_server.py

# Write the reference and the transcripts anew from the program, and build the site.
docs: $(STAMP) compiled
	$(BIN)/python scripts/write_docs.py
	$(BIN)/python -m pytest -q tests/test_transcripts.py --rewrite-transcripts
	$(MAKE) --no-print-directory site

# The documentation as a site in build/site, from README, docs and the played sessions.
site: $(STAMP)
	$(PIP) --group docs
	$(BIN)/sphinx-build -q -W -n -E -c docs . build/site

# Build the distributions, check them, and try the wheel on each Python of this machine.
dist: $(STAMP)
	$(PIP) --group dist
	$(BIN)/python scripts/check_dist.py

# Build the wheel, the source distribution, a bundle for desktop clients and a Homebrew formula in build/packages.
packages: $(STAMP)
	$(PIP) --group dist
	$(BIN)/python scripts/build_packages.py

format: $(LINTERS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) compiled
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/steps.py

# Compare the CPU time of the working tree with that of COMMIT: SIZE= memories, ROUNDS= of each command,
# INDEX_ROUNDS= of the first index.
compare: $(STAMP) compiled
	$(BIN)/python bench/compare.py $(COMMIT) $(if $(SIZE),--size $(SIZE)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	    $(if $(INDEX_ROUNDS),--index-rounds $(INDEX_ROUNDS))

# Measure for docs/development/performance.md, draw its plots and insert its figures: SIZES=100000 chooses,
# KEEP= names a folder for vaults that the next run reuses, PEERS= one with environments of peers.
performance: $(STAMP) compiled
	$(PIP) --group plots
	$(BIN)/python bench/performance.py $(if $(SIZES),--sizes $(SIZES)) \
	    $(if $(VECTORS),--vectors $(VECTORS)) $(if $(KEEP),--keep $(KEEP)) $(if $(PEERS),--peers $(PEERS))
	$(BIN)/python scripts/draw_performance.py
	$(BIN)/python scripts/write_docs.py

# Fuzz all targets for a minute each: TARGET=edits chooses, SECONDS= or RUNS= say how long.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python fuzz/run.py $(TARGET) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS))

clean:
	rm -rf $(VENV) .demo dist build
