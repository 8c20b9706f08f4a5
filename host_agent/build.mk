# The host agent: build/datacast-agent, the same under sanitizers, and its C tests.

AGENT_DIR := host_agent
AGENT_OUT := $(BUILD)/host_agent
AGENT_CFLAGS := -D_GNU_SOURCE -I$(AGENT_DIR) -I.
AGENT_LIBS := -ljansson -lssl -lcrypto -lpthread
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

.PHONY: test-c-agent

$(AGENT_OUT)/plain/%.o: $(AGENT_DIR)/%.c $(AGENT_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(AGENT_CFLAGS) -MMD -MP -c $< -o $@

$(AGENT_OUT)/asan/%.o: $(AGENT_DIR)/%.c $(AGENT_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(AGENT_CFLAGS) -MMD -MP -c $< -o $@

$(AGENT_BIN): $(AGENT_OBJ) $(DATAPATH_LIB) $(CORE_LIB)
	$(CC) $(CFLAGS_BASE) $^ $(AGENT_LIBS) -o $@

$(AGENT_BIN_ASAN): $(AGENT_OBJ_ASAN) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $^ $(AGENT_LIBS) -o $@

# The tests link everything but main.
$(AGENT_OUT)/plain/test_%: $(AGENT_DIR)/tests/test_%.c $(filter-out %/main.o,$(AGENT_OBJ)) $(DATAPATH_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(AGENT_CFLAGS) -MMD -MP -MF $@.d $^ $(AGENT_LIBS) -o $@

$(AGENT_OUT)/asan/test_%: $(AGENT_DIR)/tests/test_%.c $(filter-out %/main.o,$(AGENT_OBJ_ASAN)) $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(AGENT_CFLAGS) -MMD -MP -MF $@.d $^ $(AGENT_LIBS) -o $@

# The Python tests run the program under sanitizers as well.
test-c-agent: $(AGENT_TESTS) $(AGENT_BIN_ASAN)
	@for t in $(AGENT_TESTS); do $$t || { echo "failed: $$t" >&2; exit 1; }; done

-include $(AGENT_OBJ:.o=.d) $(AGENT_OBJ_ASAN:.o=.d) $(AGENT_TESTS:=.d)
