/* One line per event on stderr, and errors that travel up as text. */
#ifndef SWITCH_LOG_H
#define SWITCH_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum sw_level { SW_ERROR, SW_WARN, SW_INFO, SW_DEBUG };

/* "error", "warn", "info" or "debug"; false when it is none of them. */
bool log_parse_level(const char *text, enum sw_level *out) __attribute__((nonnull));
void log_set_level(enum sw_level level);
enum sw_level log_get_level(void);
void sw_log(enum sw_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3), nonnull(2)));

/* What went wrong, in words for the person at the terminal. */
struct failure {
  char text[768];
};

/* Fills f->text and returns -1, so that callers can write `return fail(f, …)`. */
int fail(struct failure *f, const char *fmt, ...) __attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* DPDK writes its log to a stream. Catch it: lines are shown at debug level only, errors and warnings are kept so that a
 * failure can show EAL's own words. Call before rte_eal_init. */
int log_catch_eal(void);
/* The first and the last EAL line that read like errors since log_eal_forget: the first is nearest to the cause, the last
 * says what failed of it. "" when there was none. Valid until the next call. */
const char *log_eal_words(void);
void log_eal_forget(void);

#endif
