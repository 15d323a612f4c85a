# SPDX-License-Identifier: Apache-2.0
# The front door; the work is done by meson and the scripts in scripts/ and dev/.
#   make          build everything into build/
#   make demo     objects move by RDMA between this machine's programs and a server, in a minute
#   make test     the quick tests
#   make check    every test, the long ones at a tenth; make soak: at full length
#   make bench, make mutate, make format, make clean
# BUILD=DIR builds elsewhere; SCALE=0.5 makes the long tests half as long.
BUILD ?= build
export BUILD

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/deps build
	@meson setup $(BUILD)

demo:
	@scripts/deps demo
	@scripts/demo

test:
	@scripts/deps check
	@SCALE=$(or $(SCALE),0.1) dev/check --quick

check:
	@scripts/deps check
	@SCALE=$(or $(SCALE),0.1) dev/check

soak:
	@scripts/deps check
	@SCALE=$(or $(SCALE),1) dev/check

bench: all
	@scripts/deps demo
	@bench/run

mutate:
	@scripts/deps check
	@dev/mutate

format:
	@scripts/deps check
	@dev/check-format --fix

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-mutate

.PHONY: all demo test check soak bench mutate format clean
