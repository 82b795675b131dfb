# Two commands do everything from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-long lint bench clean

demo: $(STAMP)
	@$(BIN)/keepfit demo

test: lint
	@$(BIN)/python -m pytest $(ARGS)

# What takes an hour: both commands from fresh clones, in folders of any name, as root and as nobody.
test-long: lint
	@scripts/fresh_clone.sh

lint: $(STAMP)
	@$(BIN)/ruff check src tests bench examples hatch_build.py
	@$(BIN)/ruff format --check src tests bench examples hatch_build.py
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/python -m bench

# One stamp: the environment is made once, and again only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
