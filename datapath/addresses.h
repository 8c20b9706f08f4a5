/* Addresses of fabric managers, one of which leads: tried one after another. */
#ifndef DATAPATH_ADDRESSES_H
#define DATAPATH_ADDRESSES_H

#include <stdbool.h>

enum { ADDRESSES_MAX = 8, ADDRESS_LEN_MAX = 71 };

struct addresses {
  char text[ADDRESSES_MAX][ADDRESS_LEN_MAX + 1];
  unsigned n, at;
};

/* "address:port", more behind commas. False when one of them is none, or there are too many. */
bool addresses_parse(struct addresses *a, const char *list) __attribute__((nonnull));
const char *addresses_now(const struct addresses *a) __attribute__((nonnull));
void addresses_next(struct addresses *a) __attribute__((nonnull));

#endif
