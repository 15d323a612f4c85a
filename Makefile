# SPDX-License-Identifier: Apache-2.0
# The front door; the work is done by meson and the scripts in scripts/ and dev/.
BUILD ?= build

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/deps
	meson setup $(BUILD)

.PHONY: all
