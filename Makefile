# The menu. What each target does stands in crates/xtask.

SEEDS ?= 0..1000
# Options of `varve demo`: make run DEMO=--once
DEMO ?=

.DEFAULT_GOAL := help
.PHONY: help run setup check test ci sim golden

help:
	@echo "make run      setup, then the demonstration: a pool on files, a self-test, a server to connect to"
	@echo "make setup    install the tools that are missing"
	@echo "make check    format, tidy, licences, clippy, unit tests: before each commit"
	@echo "make test     setup, then check with every test there is"
	@echo "make ci       what CI runs: make test"
	@echo "make sim      the simulator over SEEDS=$(SEEDS)"
	@echo "make golden   write the golden files anew from the tests"

run: setup
	@cargo run --release --quiet --package varve -- demo $(DEMO)

setup:
	@cargo xtask setup

check:
	@cargo xtask check

# What is built once, to be tested whole, is not prepared for small changes, nor for a debugger.
test: export CARGO_INCREMENTAL = 0
test: export CARGO_PROFILE_DEV_DEBUG = 0
# Takes as much to build, and what is built a third less to run.
test: export CARGO_PROFILE_DEV_CODEGEN_UNITS = 1
test: setup
	@cargo xtask test

ci: test

sim:
	@MIMALLOC_PURGE_DELAY=-1 cargo run --release --quiet --package varve -- sim --seeds $(SEEDS)

golden:
	@cargo xtask golden
