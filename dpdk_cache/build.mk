# datacast-switch, the same under sanitizers, and the benchmark of its packet path.

SWITCH_DIR := dpdk_cache
SWITCH_OUT := $(BUILD)/switch
SWITCH_SRC := $(wildcard $(SWITCH_DIR)/*.c)
SWITCH_OBJ := $(patsubst $(SWITCH_DIR)/%.c,$(SWITCH_OUT)/plain/%.o,$(SWITCH_SRC))
SWITCH_OBJ_ASAN := $(patsubst $(SWITCH_DIR)/%.c,$(SWITCH_OUT)/asan/%.o,$(SWITCH_SRC))
# DPDK's headers are not ours to warn about. -I to -isystem.
SWITCH_CFLAGS = $(shell pkg-config --cflags libdpdk jansson yaml-0.1 | sed 's/-I/-isystem /g') -D_GNU_SOURCE -I.
SWITCH_LIBS = $(shell pkg-config --libs libdpdk jansson yaml-0.1 libssl libcrypto)
SWITCH_BIN := $(BUILD)/datacast-switch
SWITCH_BIN_ASAN := $(BUILD)/asan/datacast-switch

BINARIES += $(SWITCH_BIN)

$(SWITCH_OUT)/plain/%.o: $(SWITCH_DIR)/%.c $(SWITCH_DIR)/build.mk
	@mkdir -p $(@D)
	@echo 'CC $<'; $(CC) $(CFLAGS_BASE) $(SWITCH_CFLAGS) -MMD -MP -c $< -o $@

$(SWITCH_OUT)/asan/%.o: $(SWITCH_DIR)/%.c $(SWITCH_DIR)/build.mk
	@mkdir -p $(@D)
	@echo 'CC $< (sanitized)'; $(CC) $(CFLAGS_BASE) $(SANITIZE) $(SWITCH_CFLAGS) -MMD -MP -c $< -o $@

$(SWITCH_BIN): $(SWITCH_OBJ) $(DATAPATH_LIB) $(CORE_LIB)
	@echo 'LD $@'; $(CC) $(SWITCH_OBJ) $(DATAPATH_LIB) $(CORE_LIB) $(SWITCH_LIBS) -o $@

$(SWITCH_BIN_ASAN): $(SWITCH_OBJ_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	@echo 'LD $@'; $(CC) $(SANITIZE) $(SWITCH_OBJ_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) $(SWITCH_LIBS) -o $@

-include $(SWITCH_OBJ:.o=.d) $(SWITCH_OBJ_ASAN:.o=.d)

# ---- packets per second on ring devices ----

SWITCH_BENCH := $(BUILD)/bench-switch
SWITCH_PARTS := $(filter-out %/main.o,$(SWITCH_OBJ))
SWITCH_PARTS_ASAN := $(filter-out %/main.o,$(SWITCH_OBJ_ASAN))

$(SWITCH_BENCH): bench/switch/bench_switch.c $(SWITCH_PARTS) $(DATAPATH_LIB) $(CORE_LIB)
	@echo 'CC $<'; $(CC) $(CFLAGS_BASE) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $< $(SWITCH_PARTS) $(DATAPATH_LIB) $(CORE_LIB) $(SWITCH_LIBS) -o $@

.PHONY: bench-switch
bench-switch: $(SWITCH_BENCH) ## packets per second of the switch's path: by reference against by copy
	@$(SWITCH_BENCH) > $(BUILD)/bench-switch.json && echo "$(BUILD)/bench-switch.json"

# ---- tests of its parts, without and with sanitizers ----

C_TESTS += test-c-switch
SWITCH_TESTS := $(basename $(notdir $(wildcard $(SWITCH_DIR)/tests/test_*.c)))

$(SWITCH_OUT)/plain/test_%: $(SWITCH_DIR)/tests/test_%.c $(SWITCH_PARTS) $(DATAPATH_LIB) $(CORE_LIB)
	@echo 'CC $<'; $(CC) $(CFLAGS_BASE) $(TEST_CFLAGS) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $< $(SWITCH_PARTS) $(DATAPATH_LIB) $(CORE_LIB) $(SWITCH_LIBS) -o $@

$(SWITCH_OUT)/asan/test_%: $(SWITCH_DIR)/tests/test_%.c $(SWITCH_PARTS_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@echo 'CC $< (sanitized)'; $(CC) $(CFLAGS_BASE) $(SANITIZE) $(TEST_CFLAGS) -I$(SWITCH_DIR) $(SWITCH_CFLAGS) $< $(SWITCH_PARTS_ASAN) \
	  $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) $(SWITCH_LIBS) -o $@

.PHONY: test-c-switch
SWITCH_TEST_PROGRAMS := $(foreach t,$(SWITCH_TESTS),$(SWITCH_OUT)/plain/$(t) $(SWITCH_OUT)/asan/$(t))
C_TEST_PROGRAMS += $(SWITCH_TEST_PROGRAMS)
test-c-switch: $(SWITCH_TEST_PROGRAMS)
	@for t in $^; do ASAN_OPTIONS=detect_leaks=0 $$t || { echo "failed: $$t" >&2; exit 1; }; done
