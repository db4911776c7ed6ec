# The menu. What each target does stands in crates/xtask.

SEEDS ?= 0..1000

.DEFAULT_GOAL := help
.PHONY: help setup check test ci sim golden

help:
	@echo "make setup    install the tools that are missing"
	@echo "make check    format, tidy, licences, clippy, unit tests: before each commit"
	@echo "make test     setup, then check with every test there is"
	@echo "make ci       what CI runs: make test"
	@echo "make sim      the simulator over SEEDS=$(SEEDS)"
	@echo "make golden   write the golden files anew from the tests"

setup:
	@cargo xtask setup

check:
	@cargo xtask check

test: setup
	@cargo xtask test

ci: test

sim:
	@cargo run --release --quiet --package varve -- sim --seeds $(SEEDS)

golden:
	@cargo xtask golden
