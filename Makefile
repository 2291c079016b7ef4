# Needs Python 3.11 or newer, make and a package index; everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
LINTERS := $(VENV)/.linters
# compileall uses all cores and skips packages' tests, unlike pip. Files that do not compile are not modules.
PIP := $(BIN)/python -m pip install --quiet --no-compile
COMPILE_LIBRARIES := $(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true
# Two more than the number of cores, because many tests wait for locks, signals or processes.
WORKERS ?= $(shell $(PYTHON) -c "import os; \
    own = getattr(os, 'sched_getaffinity', None); \
    print((len(own(0)) if own else os.cpu_count() or 1) + 2)")

.PHONY: demo test checks lint types platforms layers repository unit programs environments soak \
    docs site dist packages format bench compare performance fuzz clean

# Only the package, which is enough for the demo.
$(PACKAGE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@$(COMPILE_LIBRARIES)
	touch $@

$(STAMP): $(PACKAGE)
	$(PIP) --upgrade "pip>=25.1" # the first version with --group
	$(PIP) --group test --group bench
	@$(COMPILE_LIBRARIES)
	touch $@

$(LINTERS): $(STAMP)
	$(PIP) --group lint
	touch $@

# If PYTHONDONTWRITEBYTECODE is set, Python does not store compiled modules of an editable install,
# and each process would compile all modules that it loads.
.PHONY: compiled
compiled: $(PACKAGE)
	@$(BIN)/python -m compileall -q -j 0 src

# For the same reason each worker would compile all tests, which takes longer than loading them.
.PHONY: collected
collected: $(STAMP) compiled
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq > /dev/null || true

demo: compiled
	$(BIN)/python scripts/demo.py

# All checks and tests, as run by .ci/run.
# Each check uses one core; all of them take a tenth of the tests' time.
test: $(STAMP) compiled
	$(MAKE) --no-print-directory -j 2 checks unit

checks: lint types layers repository

lint: $(LINTERS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(LINTERS)
	$(BIN)/mypy

# Check the source against the functions available on other systems; see docs/development/platforms.md.
platforms: $(LINTERS)
	for system in darwin win32; do $(BIN)/mypy --platform $$system --no-warn-unreachable \
	    --no-warn-unused-ignores --cache-dir .mypy_cache/$$system src/memvault || exit 1; done

# Includes a test that each contract reports a violation; it is skipped if import-linter is not installed.
layers: $(LINTERS)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_import_contracts.py

# Check pages, links, test docstrings, guarantees and generated files.
repository: $(STAMP) compiled
	$(BIN)/python scripts/check_repository.py

unit: $(STAMP) compiled collected
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} PYTHONUTF8=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Tests that need additional programs; they fail if a program is missing.
programs: $(STAMP) compiled
	$(PIP) --group browser
	$(BIN)/python -m pytest -q tests/programs

# The demo and each transcript in environments that differ from a fresh machine in one way: a variable,
# the time zone, the locale, the umask, the priority or the standard input; and the tests of dates in
# three time zones.
ZONED := $(addprefix tests/test_,$(addsuffix .py,browse capture consolidate current dates import \
    import_details opening plans session_capture showing state talk waiting))
environments: $(STAMP) compiled
	for zone in Europe/Berlin America/New_York Pacific/Kiritimati; do MEMVAULT_TEST_ZONE=$$zone \
	    $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(ZONED) || exit 1; done
	SOAK_SECONDS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal \
	    tests/test_environments.py

# Long tests: every fault at every file change of every tool, for SOAK_SECONDS; 16 concurrent workers;
# all sampled cases, all patterns, hard texts at full size, longer races, properties with 1,500
# examples; 300 random steps in two clones, ten times, and a sync killed at each point; 3,000 recalls
# over each transport.
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

# Regenerate the reference and the transcripts from the program, and build the site.
docs: $(STAMP) compiled
	$(BIN)/python scripts/write_docs.py
	$(BIN)/python -m pytest -q tests/test_transcripts.py --rewrite-transcripts
	$(MAKE) --no-print-directory site

# Build the documentation site in build/site from README, docs and the transcripts.
site: $(STAMP)
	$(PIP) --group docs
	$(BIN)/sphinx-build -q -W -n -E -c docs . build/site

# Build the distributions, check them, and test the wheel with each Python on this machine.
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

# Compare the CPU time of the working tree with that of COMMIT, with SIZE= memories, ROUNDS= per command
# and INDEX_ROUNDS= for the first index.
compare: $(STAMP) compiled
	$(BIN)/python bench/compare.py $(COMMIT) $(if $(SIZE),--size $(SIZE)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	    $(if $(INDEX_ROUNDS),--index-rounds $(INDEX_ROUNDS))

# Measure for docs/development/performance.md, draw its plots and insert its figures. SIZES= sets the vault
# sizes, KEEP= a folder for vaults that the next run reuses, PEERS= a folder with the peers' environments.
performance: $(STAMP) compiled
	$(PIP) --group plots
	$(BIN)/python bench/performance.py $(if $(SIZES),--sizes $(SIZES)) \
	    $(if $(VECTORS),--vectors $(VECTORS)) $(if $(KEEP),--keep $(KEEP)) $(if $(PEERS),--peers $(PEERS))
	$(BIN)/python scripts/draw_performance.py
	$(BIN)/python scripts/write_docs.py

# Fuzz all targets for a minute each, or only TARGET=, for SECONDS= or RUNS=.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python fuzz/run.py $(TARGET) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS))

clean:
	rm -rf $(VENV) .demo dist build
