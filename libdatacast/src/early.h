/* Interests that come to a source before the numbers that they ask for: receivers may hear of an extent first, and who asks is
 * not to wait for a timer where the numbers are there a moment later. The last ones that came are kept. */
#ifndef DATACAST_EARLY_H
#define DATACAST_EARLY_H

#include <stdbool.h>

#include "datacast/limits.h"
#include "datacast/route.h"
#include "datacast/wire.h"

struct early_interest {
  struct dc_header h;
  struct dc_segment ret;
};

struct early {
  uint32_t head, n;
  bool due;                          /* numbers were assigned since */
  uint32_t seq[DC_SOURCE_EARLY_MAX]; /* of each row; apart, as whatever comes is looked for among all */
  struct early_interest row[DC_SOURCE_EARLY_MAX];
};

/* Returns how many numbers the one that made room for it asked for; 0: there was room, or it is kept already. */
uint32_t early_put(struct early *e, const struct dc_header *h, const struct dc_segment *ret) __attribute__((nonnull));
/* The first that came. False: there is none. */
bool early_take(struct early *e, struct early_interest *to) __attribute__((nonnull));

#endif
