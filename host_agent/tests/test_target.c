/* A receiver's file between two parts: who comes while jobs of the one before are under way waits, and finds what they did. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "datapath/tests/check.h"
#include "params.h"

enum { SIZE = 20000, PIECE = 1000, PER_BLOCK = 10 };

static struct loop loop;
static unsigned came;
static struct roots roots;
static char dest[96];
static const struct dc_layout layout = {.size = SIZE, .piece = PIECE, .per_block = PER_BLOCK};

static bool descriptors = true;  /* there are some left */
static bool for_the_last = true; /* also for the file that has its name */
static bool room = true;         /* on the disk */

int fstatfs(int fd, struct statfs *fs) /* no memory */
{
  (void)fd;
  *fs = (struct statfs){0};
  return 0;
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
  (void)fd, (void)mode, (void)at, (void)len;
  errno = ENOSPC;
  return room ? 0 : -1;
}

int openat(int dir, const char *name, int flags, ...)
{
  va_list more;
  va_start(more, flags);
  int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  if ((name[0] == '.' && name[1] != '\0' && !descriptors) || (strcmp(name, "file") == 0 && !for_the_last)) {
    errno = EMFILE;
    return -1;
  }
  return (int)syscall(SYS_openat, dir, name, flags, mode);
}

static int ends_with; /* the error of what is carried out */

static void counted(struct job *j)
{
  CHECK(j->error == ends_with);
  came++;
}

static void carry_out(struct worker *w, struct job *j)
{
  unsigned before = came;
  j->done = counted;
  j->owner = w;
  worker_submit(w, j, NULL);
  while (came == before)
    (void)loop_serve(&loop, loop_clock() + 5 * DC_SEC);
}

/* "": it was opened. */
static const char *opened(struct target *t, const char *group)
{
  static struct fault why;
  return target_open(t, &roots, dest, &layout, false, SIZE, group, "as-it-is", &why) ? "" : why.code;
}

static void what_is_noted_late_is_found(struct worker *w)
{
  struct target t, next;
  static const uint8_t digest[32] = {1, 2, 3}, none[32];
  uint8_t found[2][32];
  CHECK(strcmp(opened(&t, "g"), "") == 0 && !t.resumed);
  struct job *note = target_note_verified(&t, 1, digest);
  target_close(&t, true, w);
  CHECK(strcmp(opened(&next, "g"), "busy") == 0);
  CHECK(strcmp(opened(&next, "other"), "") == 0); /* it holds up nobody else */
  target_close(&next, false, w);
  carry_out(w, note);
  CHECK(strcmp(opened(&t, "g"), "") == 0 && t.resumed);
  target_read_verified(&t, found, 2);
  CHECK(memcmp(found[1], digest, 32) == 0 && memcmp(found[0], none, 32) == 0);
  target_close(&t, false, w);
}

static void what_cannot_be_opened_just_now_stays(struct worker *w)
{
  struct target t;
  CHECK(strcmp(opened(&t, "g"), "") == 0 && !t.resumed);
  target_close(&t, true, w);
  descriptors = false;
  CHECK(strcmp(opened(&t, "g"), "busy") == 0);
  descriptors = true;
  CHECK(strcmp(opened(&t, "g"), "") == 0 && t.resumed);
  target_close(&t, false, w);
}

static void what_has_no_room_just_now_stays(struct worker *w)
{
  struct target t;
  room = false;
  CHECK(strcmp(opened(&t, "g"), "disk_full") == 0);
  room = true;
  CHECK(strcmp(opened(&t, "g"), "") == 0 && !t.resumed);
  target_close(&t, true, w);
  room = false;
  CHECK(strcmp(opened(&t, "g"), "disk_full") == 0);
  room = true;
  CHECK(strcmp(opened(&t, "g"), "") == 0 && t.resumed);
  target_close(&t, false, w);
}

/* `t` is closed while the file gets its name, and opened again. */
static void what_is_finished_late_is_whole(struct worker *w, bool keep)
{
  struct target t, next;
  CHECK(strcmp(opened(&t, "g"), "") == 0 && !t.resumed);
  struct job *finish = target_finish(&t, false);
  target_close(&t, keep, w);
  CHECK(strcmp(opened(&next, "g"), "busy") == 0);
  carry_out(w, finish);
  CHECK(access(dest, F_OK) == 0);
  for_the_last = false;
  CHECK(strcmp(opened(&next, "g"), "busy") == 0);
  for_the_last = true;
  CHECK(strcmp(opened(&next, "g"), "") == 0);
  target_close(&next, false, w);
  CHECK(access(dest, F_OK) == 0 && unlink(dest) == 0);
}

/* Of a file system that keeps no locks, or before there was one. */
static void what_another_host_receives_there_gets_no_name(struct worker *w)
{
  struct target t, other;
  CHECK(strcmp(opened(&t, "g"), "") == 0);
  CHECK(unlinkat(t.dir, t.temp, 0) == 0 && strcmp(opened(&other, "g"), "") == 0 && !other.resumed);
  ends_with = ETXTBSY;
  carry_out(w, target_finish(&t, false));
  CHECK(access(dest, F_OK) < 0);
  ends_with = 0;
  carry_out(w, target_finish(&other, false));
  CHECK(access(dest, F_OK) == 0 && unlink(dest) == 0);
}

/* An agent that was killed had it before; of two that share the folder the other one has gone on with it. */
static void what_another_host_goes_on_with_is_not_taken_from_it(struct worker *w)
{
  struct target t, other;
  CHECK(strcmp(opened(&t, "g"), "") == 0);
  target_close(&t, true, w);
  CHECK(strcmp(opened(&other, "g"), "") == 0 && other.resumed);
  CHECK(!target_drop_left(&roots, dest, "g", w) && faccessat(other.dir, other.temp, F_OK, 0) == 0);
  target_close(&other, true, w);
  CHECK(target_drop_left(&roots, dest, "g", w) && !target_drop_left(&roots, dest, "g", w));
}

int main(void)
{
  char folder[] = "/tmp/datacast-target-XXXXXX";
  struct worker w;
  struct fault why;
  CHECK(mkdtemp(folder) != NULL && loop_open(&loop) == 0 && worker_open(&w, &loop, 1, 1) == 0);
  CHECK(roots_add(&roots, folder, &why));
  snprintf(dest, sizeof dest, "%s/file", folder);
  what_is_noted_late_is_found(&w);
  what_cannot_be_opened_just_now_stays(&w);
  what_has_no_room_just_now_stays(&w);
  what_another_host_receives_there_gets_no_name(&w);
  what_another_host_goes_on_with_is_not_taken_from_it(&w);
  what_is_finished_late_is_whole(&w, true);
  what_is_finished_late_is_whole(&w, false);
  worker_close(&w);
  roots_close(&roots);
  loop_close(&loop);
  CHECK(rmdir(folder) == 0);
  return 0;
}
