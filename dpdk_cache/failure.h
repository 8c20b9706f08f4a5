/* Errors that travel up as text, and DPDK's own words about them. */
#ifndef SWITCH_FAILURE_H
#define SWITCH_FAILURE_H

#include "datapath/log.h"

/* Fills f->text and returns -1, so that callers can write `return fail(f, …)`. */
int fail(struct fault *f, const char *fmt, ...) __attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* DPDK writes its log to a stream. Catch it: lines are shown at debug level only, errors and warnings are kept so that
 * a failure can show EAL's own words. Call before rte_eal_init. */
int log_catch_eal(void);
/* The first and the last EAL line that read like errors since log_eal_forget: the first is nearest to the cause, the
 * last says what failed of it. "" when there was none. Valid until the next call. */
const char *log_eal_words(void);
void log_eal_forget(void);

#endif
