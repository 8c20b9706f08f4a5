/* Frames that a port has not sent yet, as places in an array of its owner: its queue, a step from fast to slow, a neighbour that
 * reads late. Hellos and interests go before data: a link that is full is not down, and a request is worth a thousand times its
 * bytes. Of each kind the order stays. */
#ifndef DATAPATH_BACKLOG_H
#define DATAPATH_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/buf.h"

enum {
  BACKLOG_DATA = 512,
  BACKLOG_FIRST = 128, /* frames; powers of two */
  BACKLOG_PLACES = BACKLOG_FIRST + BACKLOG_DATA
};

struct backlog_lane {
  uint32_t head, n;
  unsigned refusals; /* of its first frame's kind, in a row */
};

struct backlog {
  struct backlog_lane first, data;
  uint32_t most; /* frames of data; 0: BACKLOG_DATA */
};

static inline uint32_t backlog_n(const struct backlog *b) { return b->first.n + b->data.n; }
static inline bool backlog_empty(const struct backlog *b) { return backlog_n(b) == 0; }

/* Does a frame go before data? It is `p`, Ethernet header and all, and then `rest` (NULL: there is none), cut between labels. What
 * cannot be told goes with data. */
bool goes_first(const uint8_t *p, uint32_t len, const uint8_t *rest, uint32_t rest_len) __attribute__((nonnull(1)));

bool tx_goes_first(const struct dc_tx *tx) __attribute__((nonnull));

/* The place for one more frame; -1: there is no room. */
int backlog_put(struct backlog *b, bool first) __attribute__((nonnull));
/* The place for one that goes before all that waits. *taken: the newest of the first stood there, and waits no more. */
uint32_t backlog_put_ahead(struct backlog *b, bool *taken) __attribute__((nonnull));

/* Of the frames in the order in which they go: how many stand side by side from number `from` on, and the place of that one. */
unsigned backlog_run(const struct backlog *b, uint32_t from, uint32_t *place) __attribute__((nonnull));
/* The next n are gone. */
void backlog_sent(struct backlog *b, uint32_t n) __attribute__((nonnull));
/* The next one was refused. True: so often, while nothing of its kind left, that it is to be given up: a way that takes it never (a
 * virtual cable whose other end has a smaller MTU) must not hold up the rest. */
bool backlog_refused(struct backlog *b) __attribute__((nonnull));
/* All but the next n wait no more. */
void backlog_cut(struct backlog *b, uint32_t n) __attribute__((nonnull));

#endif
