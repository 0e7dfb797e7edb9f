# make demo, make test, make test-all, make lint, make options, make compat, make compat-llama-cpp, make gpu, make fuzz, make kill, make audit, make lowest, make next, make pythons, make docs: each sets
# up .venv first, when needed. Python 3.11 or newer and pip are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-all options compat compat-llama-cpp gpu fuzz kill audit lowest next pythons docs lint clean

# A worker of pytest takes 2 GB at most.
export WORKERS ?= $(shell $(PYTHON) -c 'import os; memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"); print(max(2, min(os.cpu_count() or 2, memory >> 31)))')
# Workers and the commands that tests start load the same modules, so compiled ones are kept whatever the environment says.
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile quick

demo: $(STAMP)
	$(BIN)/leakage demo

test: $(STAMP)
	$(PYTEST) -m "not slow"

test-all: $(STAMP)
	$(PYTEST)

# docs/options.md, the tables of all options, from the declarations in the code.
options: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.options_page

compat: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.compat

# Ends every command at many moments: about three hours on an idle core. Stopped, it goes on where it was; make kill KILLS=/path keeps its state there.
KILLS ?= runs/killing
kill: $(STAMP)
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.killing --rounds 20 --state $(KILLS)

LLAMA := runs/llama-venv
compat-llama-cpp: $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt 'lm-eval[api]'
	test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip install --disable-pip-version-check gguf 'llama-cpp-python[server]'
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.llama_cpp --python $(LLAMA)/bin/python

# Checks and speed on a CUDA GPU, in six minutes; the table is in runs/gpu/table.md.
gpu: $(STAMP)
	PYTHON=$(BIN)/python benchmarks/on_gpu.sh

# Goes on from runs/fuzzing; 100,000 inputs take about eight minutes on two idle cores.
N ?= 100000
fuzz: $(STAMP)
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzzing --count $(N)

# Exit code 3: no database of advisories can be reached from here.
AUDIT := runs/audit-venv
audit: $(STAMP)
	test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/python tests/supply/audit.py $(AUDIT)/bin/pip-audit

lowest next pythons: $(STAMP)
	$(BIN)/python tests/supply/elsewhere.py $@

# The pages of docs/ as a site, in site/; a dead link or anchor fails it, and so does a page that would ask another host.
docs: $(VENV)/.docs
	$(BIN)/zensical build --clean --strict
	$(BIN)/python tests/supply/built_pages.py site

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --prefer-binary -c constraints.txt -e '.[docs]'
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/supply/plain_language.py

$(STAMP): pyproject.toml constraints.txt leakage_tasks/harness/startup.pth leakage_tasks/harness/startup.py
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python3 $(MAKECMDGOALS)")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --prefer-binary -c constraints.txt -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site runs/demo runs/tests runs/*-venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
