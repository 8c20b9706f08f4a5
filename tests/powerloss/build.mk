# The witness of tests/powerloss: an LD_PRELOAD library, for tests only.
BINARIES += $(BUILD)/forget.so
$(BUILD)/forget.so: tests/powerloss/forget.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -shared $< -o $@ -ldl -pthread
