# Everything runs in .venv, which the first command makes.
# Needed: make, Python 3.11 or later with venv, a C compiler. Debian: apt-get install make python3-venv gcc

PYTHON ?= python3
BIN := .venv/bin
# One process per core; the tests of a file share what they compile. Many start Python again: what it compiles is kept,
# even where the environment says otherwise.
PYTEST = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
# Of all tests many wait for emulators and compilers: one process more than there are processors fills the gaps.
MORE = $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
# What make fuzz and make fuzz-networks try, as much of it as TIME seconds allow.
COUNT ?= 2000
SEED ?= 1
AT_MOST = $(if $(TIME),--seconds $(TIME))

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint fuzz fuzz-networks emulated exhaustive eva \
    bench bench-networks bench-cortex bench-memory bench-flash bench-rtl networks networks-2026 networks-tflite node-tests generated clean c-compiler

help:
	@echo "make demo        compile a small network, verify the C on this machine, recognize handwritten digits with it"
	@echo "make test        set up .venv, then lint, type checks, import contracts and at most three cases of each test"
	@echo "make test-all    the same with all tests: more compilers, levels and cores, sanitizers, every case (minutes)"
	@echo "make fuzz        COUNT mutated models from SEED: each is rejected, or becomes C that is built and run; TIME bounds the seconds; ONLY replays one"
	@echo "make fuzz-networks   COUNT random networks from SEED with random options, held against onnxruntime, or FORMAT=tflite against TFLM; ONLY replays one"
	@echo "make emulated    every case on emulated cores, portable C on a big-endian machine and on an AVR (minutes)"
	@echo "make exhaustive  the tests that walk through all 2^32 accumulators (minutes)"
	@echo "make eva         Frama-C's Eva looks for undefined behaviour in the gallery, for all inputs at once (minutes)"
	@echo "make bench       time per layer on this machine, and how long compiling takes"
	@echo "make bench-networks  time of whole networks on this machine beside onnxruntime, if it is installed"
	@echo "make bench-memory    memory of networks, whole and row by row, and what it costs, written to docs/memory.md"
	@echo "make bench-flash     code on five cores, with functions that layers share and without, and what --flash buys, for docs/"
	@echo "make bench-cortex    instructions on emulated cores beside CMSIS-NN, written to docs/benchmarks.md"
	@echo "make bench-rtl       cycles of networks on the RTL of Ibex and CV32E40P, simulated, written to docs/benchmarks.md"
	@echo "make networks    whole networks against outputs recorded from onnxruntime; memory, sizes, compilers"
	@echo "make networks-2026   85 networks of today, quantized by onnxruntime and held against it, written to docs/networks.md"
	@echo "make networks-tflite 64 .tflite files beside what TensorFlow Lite Micro gave, written to docs/tflite.md"
	@echo "make node-tests  ONNX's own tests of every operator that is supported, counted in docs/node-tests.md"
	@echo "make generated   rewrite the gallery in generated/, charts and reference pages in docs/, what commands print in documents"
	@echo "make clean       remove .venv and everything else that was made"

demo: c-compiler .venv/runtime
	@$(BIN)/python tests/demo.py

# Lint, which keeps one core busy for half a minute, runs beside the tests. What it says follows theirs.
define with-lint
@mkdir -p build
@$(MAKE) --no-print-directory lint > build/lint.log 2>&1 & lint=$$!; \
    $(PYTEST) $(1); tests=$$?; wait $$lint; linted=$$?; cat build/lint.log; exit $$((tests | linted))
endef

# Three cases of each test, spread over all.
test: c-compiler .venv/dev
	$(call with-lint,--at-most 3 --numprocesses $(MORE))

test-all: c-compiler .venv/packagers
	$(call with-lint,--all --numprocesses $(MORE))

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fuzz: c-compiler .venv/dev
	@PYTHONPATH=tests $(BIN)/python -m fuzz --count $(COUNT) --seed $(SEED) $(AT_MOST) $(if $(ONLY),--only $(ONLY) --minimize) --folder build/fuzz

fuzz-networks: c-compiler .venv/dev
	@PYTHONPATH=tests $(BIN)/python -m fuzz_networks --count $(COUNT) --seed $(SEED) $(AT_MOST) $(if $(ONLY),--only $(ONLY)) $(if $(FORMAT),--format $(FORMAT)) --folder build/fuzz-networks

emulated: c-compiler .venv/dev
	$(PYTEST) --dist loadgroup --emulated -m emulated

exhaustive: c-compiler .venv/dev
	$(PYTEST) --dist load --exhaustive -m exhaustive

eva: c-compiler .venv/dev
	$(PYTEST) --dist load --eva -m eva

bench: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.host
	@$(BIN)/python -m tests.bench.compiling

bench-networks: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.host_networks

bench-memory: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.memory --write

bench-flash: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.flash --write
	@$(BIN)/python -m tests.bench.flash_curve --write
	@$(BIN)/python -m tests.bench.code --write

bench-cortex: c-compiler .venv/runtime
	@PYTHONPATH=tests $(BIN)/python -m tests.bench.cortex --write
	@PYTHONPATH=tests $(BIN)/python -m tests.bench.cortex_levels

bench-rtl: c-compiler .venv/packagers
	@PYTHONPATH=tests $(BIN)/python -m tests.bench.rtl --write

networks: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.networks

networks-2026: c-compiler .venv/runtime
	@PYTHONPATH=tests $(BIN)/python -m architectures --write

networks-tflite: c-compiler .venv/runtime
	@$(BIN)/python -m tests.bench.tflite_files

node-tests: c-compiler .venv/runtime
	@$(BIN)/python -m tests.node_tests --write

generated: .venv/runtime
	@$(BIN)/python tests/gallery.py
	@$(BIN)/python tests/reference_pages.py
	@$(BIN)/python tests/documents.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find qcgen tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: a virtual environment with what qcgen needs at run time, and one with what its tests need besides;
# .venv/packagers has package managers and the RTL of cores, too, which all tests need.

.venv/runtime: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	    echo "There is no $(PYTHON). Install Python 3.11 or later (Debian: apt-get install python3-venv)" \
	         "or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "$$($(PYTHON) --version) is too old: qcgen needs 3.11 or later. Name another one:" \
	         "make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make virtual environments. Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || { echo "Making the virtual environment .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "Installing qcgen and what it needs into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/dev: .venv/runtime
	@echo "Installing what the tests need into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv/packagers: .venv/dev
	@echo "Installing the tools that take packages, and the RTL of cores, into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,packagers,rtl]'
	@touch $@

c-compiler:
	@test -n "$$CC" || command -v cc gcc clang >/dev/null || { \
	    echo "There is no C compiler. Install one (Debian: apt-get install gcc) or name it: CC=... make ..." >&2; exit 1; }
