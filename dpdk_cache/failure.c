#include "failure.h"

#include <rte_log.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

static char eal_partial[512];
static size_t eal_partial_len;
static char eal_first[512], eal_last[512], eal_words[1032];

int fail(struct fault *f, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  fault_vwrite(f, "bad_request", fmt, args);
  va_end(args);
  return -1;
}

/* ---- EAL's stream ---- */

static void eal_line(const char *line)
{
  static const char *const bad[] = {"error",   "fail",       "cannot",  "could not",
                                    "invalid", "not enough", "no free", "unable"};
  log_debug("%s", line);
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
    if (strcasestr(line, bad[i]) != NULL) {
      snprintf(eal_first[0] == '\0' ? eal_first : eal_last, sizeof eal_last, "%s", line);
      return;
    }
}

static ssize_t eal_write(void *cookie, const char *buf, size_t size)
{
  (void)cookie;
  for (size_t i = 0; i < size; i++) {
    if (buf[i] == '\n' || eal_partial_len == sizeof eal_partial - 1) {
      eal_partial[eal_partial_len] = '\0';
      if (eal_partial_len > 0)
        eal_line(eal_partial);
      eal_partial_len = 0;
      if (buf[i] == '\n')
        continue;
    }
    eal_partial[eal_partial_len++] = buf[i];
  }
  return (ssize_t)size;
}

int log_catch_eal(void)
{
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = eal_write});
  if (stream == NULL)
    return -1;
  setvbuf(stream, NULL, _IOLBF, BUFSIZ);
  return rte_openlog_stream(stream);
}

const char *log_eal_words(void)
{
  snprintf(eal_words, sizeof eal_words, "%s%s%s", eal_first, eal_last[0] != '\0' ? "; " : "", eal_last);
  return eal_words;
}

void log_eal_forget(void) { eal_first[0] = eal_last[0] = '\0'; }
