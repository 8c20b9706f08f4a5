# The core: build/libdatacast.a, the same under sanitizers, its C tests and the check that it stays sans-I/O.

CORE_DIR := libdatacast
CORE_OUT := $(BUILD)/libdatacast
CORE_SRC := $(wildcard $(CORE_DIR)/src/*.c)
CORE_OBJ := $(patsubst $(CORE_DIR)/src/%.c,$(CORE_OUT)/plain/%.o,$(CORE_SRC))
CORE_OBJ_ASAN := $(patsubst $(CORE_DIR)/src/%.c,$(CORE_OUT)/asan/%.o,$(CORE_SRC))
CORE_LIB := $(BUILD)/libdatacast.a
CORE_LIB_ASAN := $(BUILD)/libdatacast_asan.a
CORE_TEST_SRC := $(wildcard $(CORE_DIR)/tests/test_*.c)
CORE_TESTS := $(patsubst $(CORE_DIR)/tests/%.c,$(CORE_OUT)/plain/%,$(CORE_TEST_SRC))
CORE_TESTS_ASAN := $(patsubst $(CORE_DIR)/tests/%.c,$(CORE_OUT)/asan/%,$(CORE_TEST_SRC))

# What a frame costs a node is the core's own instructions: a fifth fewer so. Position-independent for the Python binding, which
# nobody puts functions of his own in place of.
CORE_FAST := -O3 -flto -fPIC -fno-semantic-interposition

BINARIES += $(CORE_LIB)
C_TESTS += test-c-core
C_TEST_PROGRAMS += $(CORE_TESTS) $(CORE_TESTS_ASAN)

.PHONY: test-c-core test-c-core-plain check-symbols

$(CORE_OUT)/plain/%.o: $(CORE_DIR)/src/%.c $(CORE_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(CORE_FAST) -MMD -MP -c $< -o $@

$(CORE_OUT)/asan/%.o: $(CORE_DIR)/src/%.c $(CORE_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) -MMD -MP -c $< -o $@

# All of it in one object: calls between its files go inline, and who links it need not know.
$(CORE_LIB): $(CORE_OBJ)
	@rm -f $@
	$(CC) $(CORE_FAST) -flto=2 -g -r -flinker-output=nolto-rel -o $(CORE_OUT)/core.o $^
	ar rcs $@ $(CORE_OUT)/core.o

$(CORE_LIB_ASAN): $(CORE_OBJ_ASAN)
	@rm -f $@
	ar rcs $@ $^

# Tests may look at the core's internal headers too.
$(CORE_OUT)/plain/test_%: $(CORE_DIR)/tests/test_%.c $(CORE_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(TEST_CFLAGS) -I$(CORE_DIR)/src -MMD -MP -MF $@.d $< $(CORE_LIB) -o $@

$(CORE_OUT)/asan/test_%: $(CORE_DIR)/tests/test_%.c $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(TEST_CFLAGS) -I$(CORE_DIR)/src -MMD -MP -MF $@.d $< $(CORE_LIB_ASAN) -o $@

test-c-core: check-symbols $(CORE_TESTS) $(CORE_TESTS_ASAN)
	@for t in $(CORE_TESTS) $(CORE_TESTS_ASAN); do $$t || { echo "failed: $$t" >&2; exit 1; }; done

# What a mutant has to get past, each of several hundred: without the sanitizers' builds.
test-c-core-plain: $(CORE_TESTS)
	@for t in $(CORE_TESTS); do $$t || { echo "failed: $$t" >&2; exit 1; }; done

# No clock, socket, thread, random source or allocation: the archive may call memory and string functions only.
check-symbols: $(CORE_LIB)
	@$(CORE_DIR)/tools/check_symbols.sh $<

constants: ## write the wire format's constants for C, Python and P4 from libdatacast/wire.yaml
	@$(if $(wildcard $(PY)),$(PY),/usr/bin/python3) $(CORE_DIR)/tools/gen_constants.py

-include $(CORE_OBJ:.o=.d) $(CORE_OBJ_ASAN:.o=.d) $(CORE_TESTS:=.d) $(CORE_TESTS_ASAN:=.d)

# ---- what a node can do, in numbers ----
$(BUILD)/bench/node: bench/node.c $(CORE_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $< $(CORE_LIB) -o $@

.PHONY: bench-node
bench-node: $(BUILD)/bench/node ## frames per second of one node, by kind of work
	@$<
