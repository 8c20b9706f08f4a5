/* Messages of one thread to another's loop: a ring of a fixed length, and a bell that wakes it. Each is run by the thread that
 * it reaches, in the order in which they were sent. One thread sends, one reads. A reader that lets packets gather (loop.h) is not
 * woken from that but for what is urgent. */
#ifndef DATAPATH_POST_H
#define DATAPATH_POST_H

#include "datapath/loop.h"

enum { POST_MESSAGES = 4096 /* that may wait; a power of two */ };

struct post_message {
  void (*run)(void *to, uint64_t n, void *with);
  void *to;
  uint64_t n;
  void *with;
};

struct post {
  struct watch bell, urgent; /* eventfds in the reader's loop */
  struct loop *loop;
  int rung; /* atomic: the bell was rung since the reader began to read */
  struct {
    uint32_t at;                                 /* atomic: messages so far */
  } __attribute__((aligned(128))) written, read; /* a line of the caches for each thread */
  struct post_message ring[POST_MESSAGES];
};

int post_open(struct post *p, struct loop *reader) __attribute__((nonnull)); /* 0 or -errno */
void post_close(struct post *p) __attribute__((nonnull));                    /* what waits is not run */

/* False when fewer than `spare` places would be left. */
bool post_send(struct post *p, const struct post_message *m, uint32_t spare) __attribute__((nonnull));
bool post_send_urgent(struct post *p, const struct post_message *m) __attribute__((nonnull));
/* The reader: run what is there. It is called when the bell rings, and may be at any time. */
void post_read(struct post *p) __attribute__((nonnull));

#endif
