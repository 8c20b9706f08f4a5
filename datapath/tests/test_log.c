/* What a fault says can always be told: it is UTF-8, whatever the names in it are, and wherever it was cut off. */
#include "datapath/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "datapath/tests/check.h"

/* What is told of a name, and that JSON takes it. */
static void tells(const char *name, const char *text)
{
  struct fault why;
  CHECK(!fault_set(&why, "denied", "%s", name));
  json_t *told = json_pack("{s:s,s:s}", "code", why.code, "error", why.text);
  CHECK(told != NULL && strcmp(why.text, text) == 0);
  json_decref(told);
}

static void test_letters_stay(void)
{
  tells("", "");
  tells("plain/file", "plain/file");
  tells("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x93\xa6", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x93\xa6");
  tells("\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
        "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static void test_what_is_no_letter_is_shown(void)
{
  tells("caf\xe9", "caf?");                 /* Latin-1 */
  tells("caf\xe9 au lait", "caf? au lait"); /* and no letter is taken for its rest */
  tells("\x80\xbf\xfe\xff", "????");        /* no beginning */
  tells("\xc0\xaf\xc1\xbf", "????");        /* longer than need be */
  tells("\xe0\x9f\xbf|\xf0\x8f\xbf\xbf", "???|????");
  tells("\xed\xa0\x80|\xed\xbf\xbf", "???|???"); /* halves of UTF-16 */
  tells("\xf4\x90\x80\x80|\xf5\x80\x80\x80", "????|????");
  tells("\xc3|\xe2\x82|\xf0\x9f\x93", "?|??|???"); /* cut off */
}

/* Wherever the text ends. */
static void test_a_text_that_is_cut_off(void)
{
  for (size_t before = 0; before < 4; before++) {
    char name[2000];
    memset(name, 'x', before);
    for (size_t at = before; at + 4 < sizeof name; at += 4)
      memcpy(name + at, "\xf0\x9f\x93\xa6", 5);
    struct fault why;
    CHECK(!fault_set(&why, "not_found", "%s: No such file or directory", name));
    json_t *told = json_string(why.text);
    CHECK(told != NULL && strlen(why.text) == sizeof why.text - 1);
    json_decref(told);
  }
}

/* Who reads the log, and stops reading, holds up no thread that writes to it. */
static void test_a_log_that_nobody_reads(void)
{
  static char text[1 << 16];
  int end[2], before = dup(STDERR_FILENO);
  CHECK(pipe(end) == 0 && fcntl(end[1], F_SETFL, O_NONBLOCK) == 0);
  while (write(end[1], "x", 1) == 1)
    continue;
  CHECK(fcntl(end[1], F_SETFL, 0) == 0 && dup2(end[1], STDERR_FILENO) >= 0);
  alarm(10);
  log_info("nobody reads this");
  log_info("nor this");
  ssize_t n = read(end[0], text, sizeof text - 1);
  bool only = n > 0 && text[n - 1] == 'x';
  log_info("but this");
  n = read(end[0], text, sizeof text - 1);
  CHECK(dup2(before, STDERR_FILENO) >= 0);
  alarm(0);
  text[n > 0 ? n : 0] = '\0';
  CHECK(only && strstr(text, "info: but this (2 lines before this one were read by nobody)\n") != NULL);
  close(end[0]);
  close(end[1]);
  close(before);
}

int main(void)
{
  test_a_log_that_nobody_reads();
  test_letters_stay();
  test_what_is_no_letter_is_shown();
  test_a_text_that_is_cut_off();
  return 0;
}
