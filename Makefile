.DEFAULT_GOAL := help
.PHONY: help run test lint format bench-cost bench-fairness bench-dispatch bench-incident bench-soak reference clean

export HOMESERVER
find_python = py=$$(tools/find-python)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Fairgate on loopback with a Synapse of its own; HOMESERVER=http://host:port or unix:/path fronts yours
	@$(find_python) && exec $$py -m tools.run

test: parts ## install what the tests need, check style and types, run everything
	@$(MAKE) --no-print-directory checks
	@# Ahead, for packaging tests: they wait for it, and where it fails they build it themselves and show why.
	@nice .venv/bin/python -m tools.compiled > .run/logs/compiled-ahead.log 2>&1 &
	.venv/bin/python -m pytest

lint: fairgate ## style, types, layers
	@$(MAKE) --no-print-directory checks

format: fairgate ## let ruff format and fix
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench-cost: parts ## CPU per proxied request against nginx, in the same run
	.venv/bin/python -m benchmarks.cost

bench-fairness: parts ## honest clients under attack: no proxy, nginx, HAProxy and Fairgate (25 minutes)
	.venv/bin/python -m benchmarks.fairness

bench-incident: parts ## background work before a homeserver that struggles: declared and not (7 minutes)
	.venv/bin/python -m benchmarks.incident

bench-soak: parts ## half an hour of churn with time compressed: does anything grow, is anything left
	.venv/bin/python -m benchmarks.soak --minutes 30

bench-dispatch: fairgate ## who waits how long in a model, and what a decision costs
	.venv/bin/python -m benchmarks.dispatch_table
	.venv/bin/python -m benchmarks.dispatch_cost

reference: fairgate ## write docs/configuration.md and the chart's schema anew, from the settings
	.venv/bin/python -m tools.reference

clean: ## remove everything made here: venvs, the demo homeserver, caches
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: checks parts fairgate
checks:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

parts: # what tests and benches need
	@$(find_python) && $$py -m tools.parts

fairgate: # Fairgate in .venv, with the tools for its tests
	@$(find_python) && $$py -c 'import tools.venvs; tools.venvs.ensure_fairgate("test")'
