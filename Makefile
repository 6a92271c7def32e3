# The whole project in five commands; the scripts they call say what they do.
.PHONY: setup up check test lock

setup: ## Prepare .venv from the lock file; fast when nothing changed
	@scripts/setup

up: setup ## Start the server on 127.0.0.1:8787
	@exec .venv/bin/holdfast up

check: ## Format, lint, types, imports, fast tests
	@scripts/check

test: ## Everything, slow tests and real clients included
	@scripts/test

lock: ## Resolve every dependency anew
	@scripts/lock
