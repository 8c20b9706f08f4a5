/* Log lines on standard error, one event each. */
#ifndef DATAPATH_LOG_H
#define DATAPATH_LOG_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern enum log_level log_threshold;

/* The name stands in every line. */
void log_open(const char *name, enum log_level threshold);
bool log_level_parse(const char *text, enum log_level *out);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                                 \
  do {                                                                                                                 \
    if (log_threshold >= LOG_DEBUG)                                                                                    \
      log_write(LOG_DEBUG, __VA_ARGS__);                                                                               \
  } while (0)

/* Why something failed: a code of docs/signalling.md and a sentence for people. */
struct fault {
  char code[24];
  char text[768];
};

static inline bool fault_false(void) { return false; }

/* Fill it; always false, so that a check can `return fault_set(...)`, and compilers see that it is. */
void fault_write(struct fault *f, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fault_vwrite(struct fault *f, const char *code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
#define fault_set(...) (fault_write(__VA_ARGS__), fault_false())
/* Is an errno one of the moment, so that it is tried again? Too many files are open, or memory is short. */
static inline bool fault_passes(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

#endif
