#include "log.h"

#include <rte_log.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>
#include <time.h>

static enum sw_level threshold = SW_INFO;
static const char *const names[] = {"error", "warn", "info", "debug"};

static char eal_partial[512];
static size_t eal_partial_len;
static char eal_first[512], eal_last[512], eal_words[1032];

bool log_parse_level(const char *text, enum sw_level *out) {
  for (unsigned i = 0; i < 4; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = (enum sw_level)i;
      return true;
    }
  return false;
}

void log_set_level(enum sw_level level) { threshold = level; }

enum sw_level log_get_level(void) { return threshold; }

void sw_log(enum sw_level level, const char *fmt, ...) {
  if (level > threshold) return;
  struct timespec ts;
  struct tm tm;
  char stamp[16], text[1024];
  clock_gettime(CLOCK_REALTIME, &ts);
  localtime_r(&ts.tv_sec, &tm);
  strftime(stamp, sizeof stamp, "%H:%M:%S", &tm);
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  fprintf(stderr, "%s.%03ld datacast-switch %s: %s\n", stamp, ts.tv_nsec / 1000000, names[level], text);
}

int fail(struct failure *f, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(f->text, sizeof f->text, fmt, args);
  va_end(args);
  return -1;
}

/* ---- EAL's stream ---- */

static void eal_line(const char *line) {
  static const char *const bad[] = {"error", "fail", "cannot", "could not", "invalid", "not enough", "no free", "unable"};
  sw_log(SW_DEBUG, "%s", line);
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
    if (strcasestr(line, bad[i]) != NULL) {
      snprintf(eal_first[0] == '\0' ? eal_first : eal_last, sizeof eal_last, "%s", line);
      return;
    }
}

static ssize_t eal_write(void *cookie, const char *buf, size_t size) {
  (void)cookie;
  for (size_t i = 0; i < size; i++) {
    if (buf[i] == '\n' || eal_partial_len == sizeof eal_partial - 1) {
      eal_partial[eal_partial_len] = '\0';
      if (eal_partial_len > 0) eal_line(eal_partial);
      eal_partial_len = 0;
      if (buf[i] == '\n') continue;
    }
    eal_partial[eal_partial_len++] = buf[i];
  }
  return (ssize_t)size;
}

int log_catch_eal(void) {
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = eal_write});
  if (stream == NULL) return -1;
  setvbuf(stream, NULL, _IOLBF, BUFSIZ);
  return rte_openlog_stream(stream);
}

const char *log_eal_words(void) {
  snprintf(eal_words, sizeof eal_words, "%s%s%s", eal_first, eal_last[0] != '\0' ? "; " : "", eal_last);
  return eal_words;
}

void log_eal_forget(void) { eal_first[0] = eal_last[0] = '\0'; }
