#include "epochs.h"

#include <stdio.h>
#include <string.h>

static uint32_t find(const struct epochs *e, const char *group)
{
  uint32_t i = 0;
  while (i < e->n && strcmp(e->row[i].group, group) != 0)
    i++;
  return i;
}

uint64_t epochs_last(const struct epochs *e, const char *group)
{
  uint32_t i = find(e, group);
  return i < e->n ? e->row[i].epoch : 0;
}

uint64_t epochs_routed(const struct epochs *e, const char *group)
{
  uint32_t i = find(e, group);
  return i < e->n ? e->row[i].routed_n : 0;
}

void epochs_note(struct epochs *e, const char *group, uint64_t epoch, uint64_t routed_n)
{
  if (epoch == 0)
    return;
  uint32_t i = find(e, group);
  if (i == e->n) {
    if (e->n < EPOCHS_MAX)
      i = e->n++;
    else
      i = e->next++ % EPOCHS_MAX;
    snprintf(e->row[i].group, sizeof e->row[i].group, "%s", group);
    e->row[i].epoch = e->row[i].routed_n = 0;
  }
  if (epoch > e->row[i].epoch) {
    e->row[i].epoch = epoch;
    e->row[i].routed_n = routed_n;
  } else if (epoch == e->row[i].epoch && routed_n > e->row[i].routed_n) {
    e->row[i].routed_n = routed_n;
  }
}
