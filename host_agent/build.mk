# The host agent: build/datacast-agent, the same under sanitizers, and its C tests.

AGENT_DIR := host_agent
AGENT_OUT := $(BUILD)/host_agent
# BLAKE3 in C, as its authors publish it: Debian has it inside its package for Rust.
BLAKE3_DIR := $(firstword $(wildcard /usr/share/cargo/registry/blake3-*/c))
BLAKE3_OUT := $(BUILD)/blake3
BLAKE3_ARCH := $(shell uname -m)
BLAKE3_OBJ := $(patsubst %,$(BLAKE3_OUT)/%.o,blake3 blake3_dispatch blake3_portable \
  $(if $(filter x86_64,$(BLAKE3_ARCH)),$(patsubst %,blake3_%_x86-64_unix,sse2 sse41 avx2 avx512)) \
  $(if $(filter aarch64,$(BLAKE3_ARCH)),blake3_neon))
BLAKE3_CFLAGS := -O3 -fPIC -I$(BLAKE3_DIR) $(if $(filter aarch64,$(BLAKE3_ARCH)),-DBLAKE3_USE_NEON=1)
BLAKE3_LIB := $(BUILD)/libblake3.a

AGENT_CFLAGS := -D_GNU_SOURCE -I$(AGENT_DIR) -I. -isystem $(BLAKE3_DIR)
AGENT_LIBS := $(BLAKE3_LIB) -lcurl $(DATAPATH_LIBS)
AGENT_SRC := $(wildcard $(AGENT_DIR)/*.c)
AGENT_OBJ := $(patsubst $(AGENT_DIR)/%.c,$(AGENT_OUT)/plain/%.o,$(AGENT_SRC))
AGENT_OBJ_ASAN := $(patsubst $(AGENT_DIR)/%.c,$(AGENT_OUT)/asan/%.o,$(AGENT_SRC))
AGENT_BIN := $(BUILD)/datacast-agent
AGENT_BIN_ASAN := $(BUILD)/datacast-agent-asan
AGENT_TEST_SRC := $(wildcard $(AGENT_DIR)/tests/test_*.c)
AGENT_TESTS := $(patsubst $(AGENT_DIR)/tests/%.c,$(AGENT_OUT)/plain/%,$(AGENT_TEST_SRC)) \
  $(patsubst $(AGENT_DIR)/tests/%.c,$(AGENT_OUT)/asan/%,$(AGENT_TEST_SRC))

BINARIES += $(AGENT_BIN)
C_TESTS += test-c-agent
C_TEST_PROGRAMS += $(AGENT_TESTS)

.PHONY: test-c-agent

$(BLAKE3_OUT)/%.o: $(BLAKE3_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(BLAKE3_CFLAGS) -c $< -o $@

$(BLAKE3_OUT)/%.o: $(BLAKE3_DIR)/%.S
	@mkdir -p $(@D)
	$(CC) $(BLAKE3_CFLAGS) -c $< -o $@

$(BLAKE3_LIB): $(BLAKE3_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(AGENT_OUT)/plain/%.o: $(AGENT_DIR)/%.c $(AGENT_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(AGENT_CFLAGS) -MMD -MP -c $< -o $@

$(AGENT_OUT)/asan/%.o: $(AGENT_DIR)/%.c $(AGENT_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(AGENT_CFLAGS) -MMD -MP -c $< -o $@

$(AGENT_BIN): $(AGENT_OBJ) $(DATAPATH_LIB) $(CORE_LIB) | $(BLAKE3_LIB)
	$(CC) $(CFLAGS_BASE) $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

$(AGENT_BIN_ASAN): $(AGENT_OBJ_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) | $(BLAKE3_LIB)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

# The tests link everything but main.
$(AGENT_OUT)/plain/test_%: $(AGENT_DIR)/tests/test_%.c $(filter-out %/main.o,$(AGENT_OBJ)) $(DATAPATH_LIB) $(CORE_LIB) | $(BLAKE3_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(TEST_CFLAGS) $(AGENT_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

$(AGENT_OUT)/asan/test_%: $(AGENT_DIR)/tests/test_%.c $(filter-out %/main.o,$(AGENT_OBJ_ASAN)) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN) | $(BLAKE3_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(TEST_CFLAGS) $(AGENT_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) $(AGENT_LIBS) -o $@

# The Python tests run the program under sanitizers as well.
test-c-agent: $(AGENT_TESTS) $(AGENT_BIN_ASAN)
	@for t in $(AGENT_TESTS); do $$t || { echo "failed: $$t" >&2; exit 1; }; done

-include $(AGENT_OBJ:.o=.d) $(AGENT_OBJ_ASAN:.o=.d) $(AGENT_TESTS:=.d)
