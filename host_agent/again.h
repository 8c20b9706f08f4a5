/* When a request is made again that an origin refused for now, or that broke off. Pure. */
#ifndef AGENT_AGAIN_H
#define AGENT_AGAIN_H

#include <stdint.h>

/* All zero at first. */
struct again {
  unsigned failed, refused; /* how often, since something came */
  uint64_t refused_ns;      /* since then the origin has no time; 0: it has */
};

/* How many milliseconds are waited before the next try; -1: there is none. `chance`: any number, so that who failed together
 * does not come back together. */
long again_failed(struct again *a, unsigned tries, uint64_t chance) __attribute__((nonnull));
/* The origin has no time, and wants to be asked again in `asked_s` seconds (0: it does not say). It is, for as long as
 * `patience_ns` from when it refused first, or from `came_ns`, when others had something of it. */
long again_refused(struct again *a, uint64_t now, uint64_t came_ns, uint64_t patience_ns, uint64_t asked_s,
                   uint64_t chance) __attribute__((nonnull));
/* `bytes` came before it broke off: it is a new request, unless they came as slowly as nothing. */
void again_came(struct again *a, uint64_t bytes, uint64_t took_ns, uint64_t least_per_s) __attribute__((nonnull));

#endif
