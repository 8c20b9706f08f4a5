#include "signal_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_limits.h"

static struct load *find(struct load *all, const char *who)
{
  while (all != NULL && strcmp(all->who, who) != 0)
    all = all->next;
  return all;
}

struct load *load_add(struct load **all, const struct conn *caller, size_t bytes, struct fault *why)
{
  const char *who = caller->tls == NULL ? "" : tls_peer(caller->tls);
  struct load *l = find(*all, who);
  if (l != NULL && (l->requests >= CALLER_REQUESTS_MAX || l->bytes + bytes > CALLER_BYTES_MAX)) {
    fault_set(why, "limit", "%u requests of this caller, %zu bytes, are under way", l->requests, l->bytes);
    return NULL;
  }
  if (l == NULL) {
    l = calloc(1, sizeof *l);
    if (l == NULL) {
      fault_set(why, "limit", "out of memory");
      return NULL;
    }
    snprintf(l->who, sizeof l->who, "%s", who);
    l->next = *all;
    *all = l;
  }
  l->requests++;
  l->bytes += bytes;
  return l;
}

void load_remove(struct load **all, struct load *l, size_t bytes)
{
  l->bytes -= bytes;
  if (--l->requests > 0)
    return;
  while (*all != l)
    all = &(*all)->next;
  *all = l->next;
  free(l);
}

bool load_has_room(const struct load *l) { return l->calls < CALLER_CALLS_MAX; }

void load_close(struct load **all)
{
  for (struct load *l = *all, *next; l != NULL; l = next) {
    next = l->next;
    free(l);
  }
  *all = NULL;
}
