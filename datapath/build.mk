# What both daemons share, with I/O: build/libdatacast_datapath.a, plain and under sanitizers.

DATAPATH_DIR := datapath
DATAPATH_OUT := $(BUILD)/datapath
DATAPATH_SRC := $(wildcard $(DATAPATH_DIR)/*.c)
DATAPATH_OBJ := $(patsubst $(DATAPATH_DIR)/%.c,$(DATAPATH_OUT)/plain/%.o,$(DATAPATH_SRC))
DATAPATH_OBJ_ASAN := $(patsubst $(DATAPATH_DIR)/%.c,$(DATAPATH_OUT)/asan/%.o,$(DATAPATH_SRC))
DATAPATH_LIB := $(BUILD)/libdatacast_datapath.a
DATAPATH_LIB_ASAN := $(BUILD)/libdatacast_datapath_asan.a
DATAPATH_CFLAGS := -D_GNU_SOURCE -I.

DATAPATH_LIBS := -ljansson -lyaml -lssl -lcrypto -lpthread
DATAPATH_TEST_SRC := $(wildcard $(DATAPATH_DIR)/tests/test_*.c)
DATAPATH_TESTS := $(patsubst $(DATAPATH_DIR)/tests/%.c,$(DATAPATH_OUT)/plain/%,$(DATAPATH_TEST_SRC)) \
  $(patsubst $(DATAPATH_DIR)/tests/%.c,$(DATAPATH_OUT)/asan/%,$(DATAPATH_TEST_SRC))

BINARIES += $(DATAPATH_LIB)
C_TESTS += test-c-datapath
C_TEST_PROGRAMS += $(DATAPATH_TESTS)

.PHONY: test-c-datapath

$(DATAPATH_OUT)/plain/%.o: $(DATAPATH_DIR)/%.c $(DATAPATH_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(DATAPATH_CFLAGS) -MMD -MP -c $< -o $@

$(DATAPATH_OUT)/asan/%.o: $(DATAPATH_DIR)/%.c $(DATAPATH_DIR)/build.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(DATAPATH_CFLAGS) -MMD -MP -c $< -o $@

$(DATAPATH_LIB): $(DATAPATH_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(DATAPATH_LIB_ASAN): $(DATAPATH_OBJ_ASAN)
	@rm -f $@
	ar rcs $@ $^

$(DATAPATH_OUT)/plain/test_%: $(DATAPATH_DIR)/tests/test_%.c $(DATAPATH_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(TEST_CFLAGS) $(DATAPATH_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) $(DATAPATH_LIBS) -o $@

$(DATAPATH_OUT)/asan/test_%: $(DATAPATH_DIR)/tests/test_%.c $(DATAPATH_LIB_ASAN) $(CORE_LIB_ASAN)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) $(SANITIZE) $(TEST_CFLAGS) $(DATAPATH_CFLAGS) -MMD -MP -MF $@.d $(filter %.c %.o %.a,$^) $(DATAPATH_LIBS) -o $@

test-c-datapath: $(DATAPATH_TESTS)
	@for t in $^; do $$t || { echo "failed: $$t" >&2; exit 1; }; done

-include $(DATAPATH_TESTS:=.d) $(DATAPATH_OBJ:.o=.d) $(DATAPATH_OBJ_ASAN:.o=.d)
