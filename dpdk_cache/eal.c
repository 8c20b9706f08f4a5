#include "eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MB = 1 << 20, SPARE_MB = 48, ARGS_MAX = 16, CORES_TEXT = 512 };

struct args {
  char *v[ARGS_MAX];
  int n;
};

static void arg(struct args *a, const char *text)
{
  if (a->n < ARGS_MAX)
    a->v[a->n++] = strdup(text);
}

/* Processors this process may use, as a list. */
static void allowed(char *out, size_t cap)
{
  cpu_set_t set;
  size_t used = 0;
  if (sched_getaffinity(0, sizeof set, &set) < 0)
    CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE && used < cap - 8; i++)
    if (CPU_ISSET((size_t)i, &set))
      used += (size_t)snprintf(out + used, cap - used, "%s%d", used > 0 ? "," : "", i);
  if (used == 0)
    snprintf(out, cap, "0");
}

/* DPDK's cores, one for each worker, that may float over the processors of the list: pinned, two switches could share one
 * processor while the other idles. */
static void floating_cores(char *out, size_t cap, const char *list, unsigned workers)
{
  size_t used = (size_t)snprintf(out, cap, "--lcores=");
  for (unsigned i = 0; i < workers && used < cap; i++)
    used += (size_t)snprintf(out + used, cap - used, "%s%u@(%s)", i > 0 ? "," : "", i, list);
}

bool eal_uses_pci(const struct config *c)
{
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned p = 0; p < c->nodes[i].nports; p++)
      if (c->nodes[i].ports[p].device[0] != '\0' && c->nodes[i].ports[p].vdev[0] == '\0')
        return true;
  return false;
}

int eal_start(const struct config *c, size_t pool_bytes, struct fault *f)
{
  struct args a = {0};
  char text[CORES_TEXT * SW_WORKERS_MAX];
  /* A sixteenth more than the sum: where a pool does not fit in one piece it is put together of several. */
  size_t needed = pool_bytes / MB + pool_bytes / MB / 16 + SPARE_MB;
  size_t memory = c->eal.memory_mb != 0 ? c->eal.memory_mb : needed;
  if (memory < needed)
    return fail(f,
                "the caches need %zu MB of packet buffers, but eal.memory_mb is %zu: raise it or lower cache.memory of "
                "the nodes (%u of them)",
                needed, memory, c->nnodes);
  arg(&a, "datacast-switch");
  /* No files shared with others, nothing left behind. (Without hugepages DPDK keeps no files at all, and refuses
   * --in-memory.) */
  arg(&a, c->eal.huge ? "--in-memory" : "--no-shconf");
  arg(&a, "--no-telemetry");
  snprintf(text, sizeof text, "--file-prefix=datacast-%d", (int)getpid());
  arg(&a, text);
  if (!c->eal.huge)
    arg(&a, "--no-huge");
  if (!eal_uses_pci(c)) {
    arg(&a, "--no-pci");
    arg(&a, "--iova-mode=va");
  }
  arg(&a, "-m");
  snprintf(text, sizeof text, "%zu", memory);
  arg(&a, text);
  char list[CORES_TEXT];
  allowed(list, sizeof list);
  floating_cores(text, sizeof text, c->eal.cores[0] != '\0' ? c->eal.cores : list, c->workers);
  arg(&a, text);
  log_eal_forget();
  struct args given = a; /* EAL moves what is in the array */
  int rc = rte_eal_init(given.n, given.v);
  for (int i = 0; i < a.n; i++)
    free(a.v[i]);
  /* DPDK makes a directory for files that it never writes in these modes. */
  (void)rmdir(rte_eal_get_runtime_dir());
  if (rc < 0)
    return fail(
        f, "DPDK does not start: %s%s%s", log_eal_words()[0] != '\0' ? log_eal_words() : rte_strerror(rte_errno),
        c->eal.huge ? "; with eal.huge the machine needs free hugepages (`dpdk-hugepages.py --setup SIZE`)" : "",
        log_threshold < LOG_DEBUG ? " (--log-level debug shows all)" : "");
  return 0;
}

void eal_stop(void) { (void)rte_eal_cleanup(); }
