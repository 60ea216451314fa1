.DEFAULT_GOAL := help
.PHONY: help run test lint format bench-cost bench-fairness bench-dispatch bench-incident reference clean

export HOMESERVER
find_python = py=$$(tools/find-python)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Fairgate on loopback with a Synapse of its own; HOMESERVER=http://host:port or unix:/path fronts yours
	@$(find_python) && exec $$py -m tools.run

test: .run/parts ## install what the tests need, check style and types, run everything
	@$(MAKE) --no-print-directory checks
	@nice .venv/bin/python -m tools.compiled > .run/logs/compiled-ahead.log 2>&1 & # what packaging tests wait for
	.venv/bin/python -m pytest

lint: ## style, types, layers
	@$(find_python) && $$py -c 'import tools.venvs; tools.venvs.ensure_fairgate("test")'
	@$(MAKE) --no-print-directory checks

format: ## let ruff format and fix
	@$(find_python) && $$py -c 'import tools.venvs; tools.venvs.ensure_fairgate("test")'
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench-cost: ## CPU per proxied request against nginx, in the same run
	@$(find_python) && $$py -m tools.parts
	.venv/bin/python -m benchmarks.cost

bench-fairness: ## honest clients under attack: no proxy, nginx, HAProxy and Fairgate (25 minutes)
	@$(find_python) && $$py -m tools.parts
	.venv/bin/python -m benchmarks.fairness

bench-incident: ## background work before a homeserver that struggles: declared and not (7 minutes)
	@$(find_python) && $$py -m tools.parts
	.venv/bin/python -m benchmarks.incident

bench-dispatch: ## who waits how long in a model, and what a decision costs
	@$(find_python) && $$py -c 'import tools.venvs; tools.venvs.ensure_fairgate("test")'
	.venv/bin/python -m benchmarks.dispatch_table
	.venv/bin/python -m benchmarks.dispatch_cost

reference: ## write docs/configuration.md and the chart's schema anew, from the settings
	@$(find_python) && $$py -c 'import tools.venvs; tools.venvs.ensure_fairgate("test")'
	.venv/bin/python -m tools.reference

clean: ## remove everything made here: venvs, the demo homeserver, caches
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: checks .run/parts
checks:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

.run/parts:
	@$(find_python) && $$py -m tools.parts
