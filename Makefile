# The whole project in six commands; the scripts they call say what they do.
.PHONY: help setup up check test test-kubernetes lock

help: ## Say what there is (what plain `make` does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Prepare .venv from the lock file; fast when nothing changed
	@scripts/setup

up: setup ## Start the server on 127.0.0.1:8787; prints a sign-in link, a key and how to connect
	@exec .venv/bin/holdfast up

check: ## Format, lint, types, imports, fast tests
	@scripts/check

test: ## Everything, slow tests and real clients included
	@scripts/test

test-kubernetes: ## Sessions as pods, on a real node of a cluster that is built here once; needs root
	@scripts/kubernetes/test

lock: ## Resolve every dependency anew
	@scripts/lock
