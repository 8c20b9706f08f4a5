/* Frames that a port has not taken yet: a step from fast to slow, a neighbour that reads late. Hellos and interests go before
 * data: a link that is full is not down, and a request is worth a thousand times its bytes. Of each kind the order stays. */
#ifndef SWITCH_BACKLOG_H
#define SWITCH_BACKLOG_H

#include <rte_mbuf.h>
#include <stdbool.h>

enum { BACKLOG_DATA = 512, BACKLOG_FIRST = 128 /* frames; powers of two */ };

struct backlog {
  struct rte_mbuf *data[BACKLOG_DATA], *first[BACKLOG_FIRST];
  uint32_t data_head, data_n, first_head, first_n;
  uint32_t most; /* frames of data; 0: BACKLOG_DATA */
};

static inline bool backlog_empty(const struct backlog *b) { return b->data_n + b->first_n == 0; }

/* Takes m over; false when there is no room: then it stays the caller's. */
bool backlog_put(struct backlog *b, struct rte_mbuf *m) __attribute__((nonnull));
/* The frames that are to go next, at most `most` of them; they stay until backlog_sent(). */
unsigned backlog_next(const struct backlog *b, struct rte_mbuf **m, unsigned most) __attribute__((nonnull));
/* The first n of them are gone. */
void backlog_sent(struct backlog *b, unsigned n) __attribute__((nonnull));
void backlog_free(struct backlog *b) __attribute__((nonnull)); /* and what is in it */

#endif
