#include "datapath/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum log_level log_threshold = LOG_INFO;
static char log_name[80] = "datacast";

static const char *const names[] = {"error", "warn", "info", "debug"};

void log_open(const char *name, enum log_level threshold)
{
  snprintf(log_name, sizeof log_name, "%s", name);
  log_threshold = threshold;
}

bool log_level_parse(const char *text, enum log_level *out)
{
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = (enum log_level)i;
      return true;
    }
  return false;
}

/* Would a line hold up who writes it? A pipe whose reader hangs is full some time, and frames go on. */
static bool is_full(void)
{
  struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
  return poll(&to, 1, 0) == 0;
}

void log_write(enum log_level level, const char *format, ...)
{
  static unsigned unread; /* atomic: lines since one was written */
  if (level > log_threshold)
    return;
  if (is_full()) {
    __atomic_add_fetch(&unread, 1, __ATOMIC_RELAXED);
    return;
  }
  struct timespec ts;
  struct tm tm;
  clock_gettime(CLOCK_REALTIME, &ts);
  localtime_r(&ts.tv_sec, &tm);

  char line[1024];
  unsigned before = 0;
  size_t at = strftime(line, sizeof line, "%H:%M:%S", &tm);
  at += (size_t)snprintf(line + at, sizeof line - at, ".%03ld %s %s: ", ts.tv_nsec / 1000000, log_name, names[level]);
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(line + at, sizeof line - at - 1, format, ap);
  va_end(ap);
  if (n > 0)
    at += (size_t)n < sizeof line - at - 1 ? (size_t)n : sizeof line - at - 2;
  if (at + 64 < sizeof line && (before = __atomic_exchange_n(&unread, 0, __ATOMIC_RELAXED)) > 0)
    at += (size_t)sprintf(line + at, " (%u lines before this one were read by nobody)", before);
  for (size_t i = 0; i < at; i++) /* text of peers and file names may hold anything */
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
      line[i] = '?';
  line[at++] = '\n';
  if (write(STDERR_FILENO, line, at) < 0)
    return; /* nobody reads it: nothing to be done */
}

/* Bytes of the letter in UTF-8 that begins here; 0: none does. */
static size_t letter(const uint8_t *p)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
  uint32_t c = n < 2 ? *p : *p & 0xffu >> (n + 1);
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) /* so is the end */
      return 0;
    c = c << 6 | (p[i] & 0x3fu);
  }
  return n > 1 && (c < least[n] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) ? 0 : n;
}

/* It travels in JSON, which has no other bytes. A file's name may have any, and a text that was cut off may end within a letter. */
static void make_utf8(char *text)
{
  for (char *p = text; *p != '\0';) {
    size_t n = letter((const uint8_t *)p);
    if (n == 0)
      *p = '?';
    p += n > 0 ? n : 1;
  }
}

void fault_vwrite(struct fault *f, const char *code, const char *format, va_list args)
{
  snprintf(f->code, sizeof f->code, "%s", code);
  vsnprintf(f->text, sizeof f->text, format, args);
  make_utf8(f->text);
}

void fault_write(struct fault *f, const char *code, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  fault_vwrite(f, code, format, ap);
  va_end(ap);
}
