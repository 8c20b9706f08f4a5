#include "again.h"

#define WAIT_MS UINT64_C(200)
#define WAIT_MAX_MS UINT64_C(8000)
#define DAY_S UINT64_C(86400)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* Twice as long with each time, and anything from half of that. */
static long wait_ms(unsigned times, uint64_t chance)
{
  uint64_t ms = times < 6 ? WAIT_MS << times : WAIT_MAX_MS;
  ms = ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS;
  return (long)(ms / 2 + chance % (ms / 2 + 1));
}

long again_failed(struct again *a, unsigned tries, uint64_t chance)
{
  unsigned times = a->failed++;
  return a->failed >= tries ? -1 : wait_ms(times, chance);
}

long again_refused(struct again *a, uint64_t now, uint64_t came_ns, uint64_t patience_ns, uint64_t asked_s,
                   uint64_t chance)
{
  a->refused_ns = a->refused_ns == 0 ? now : a->refused_ns;
  asked_s = asked_s < DAY_S ? asked_s : DAY_S;
  uint64_t since = came_ns > a->refused_ns ? came_ns : a->refused_ns, end = since + patience_ns;
  long ms = asked_s > 0 ? (long)(asked_s * 1000) + wait_ms(0, chance) : wait_ms(a->refused++, chance);
  if (now + asked_s * NS_PER_S >= end)
    return -1;
  long left = (long)((end - now) / NS_PER_MS); /* the last try is at the end */
  return ms < left || asked_s > 0 ? ms : left;
}

void again_came(struct again *a, uint64_t bytes, uint64_t took_ns, uint64_t least_per_s)
{
  if (bytes / least_per_s > took_ns / NS_PER_S)
    *a = (struct again){0};
}
