#include "eal.h"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MB = 1 << 20, SPARE_MB = 48, CORES_TEXT = 512 };

static void arg(struct eal_args *a, const char *text)
{
  if (a->n < EAL_ARGS_MAX)
    a->v[a->n++] = strdup(text);
} /* eal_arguments_free() frees them: NOLINT(clang-analyzer-unix.Malloc) */

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

/* Only these may be taken from the kernel's drivers: without a list EAL opens every device that is bound to VFIO, also those
 * of other programs. NULL: just count. */
static unsigned devices(const struct config *c, struct eal_args *to)
{
  unsigned found = 0;
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned p = 0; p < c->nodes[i].nports; p++) {
      const struct port_cfg *port = &c->nodes[i].ports[p];
      if (port->device[0] == '\0' || port->vdev[0] != '\0')
        continue;
      found++;
      if (to != NULL) {
        arg(to, "-a");
        arg(to, port->device);
      }
    }
  return found;
}

bool eal_uses_pci(const struct config *c) { return devices(c, NULL) > 0; }

void eal_arguments(struct eal_args *a, const struct config *c, size_t memory_mb)
{
  char text[CORES_TEXT * SW_WORKERS_MAX], list[CORES_TEXT];
  a->n = 0;
  arg(a, "datacast-switch");
  /* No files shared with others, nothing left behind. (Without hugepages DPDK keeps no files at all, and refuses
   * --in-memory.) */
  arg(a, c->eal.huge ? "--in-memory" : "--no-shconf");
  if (!c->eal.telemetry)
    arg(a, "--no-telemetry");
  snprintf(text, sizeof text, "--file-prefix=datacast-%d", (int)getpid());
  arg(a, text);
  if (!c->eal.huge)
    arg(a, "--no-huge");
  if (devices(c, a) == 0) {
    arg(a, "--no-pci");
    arg(a, "--iova-mode=va");
  }
  arg(a, "-m");
  snprintf(text, sizeof text, "%zu", memory_mb);
  arg(a, text);
  allowed(list, sizeof list);
  floating_cores(text, sizeof text, c->eal.cores[0] != '\0' ? c->eal.cores : list, c->workers);
  arg(a, text);
}

void eal_arguments_free(struct eal_args *a)
{
  for (int i = 0; i < a->n; i++)
    free(a->v[i]);
  a->n = 0;
}

/* DPDK makes a directory for files that it never writes in these modes, but for telemetry's socket, which it removes when
 * the process ends. */
static char runtime_dir[256];

static void remove_runtime_dir(void) { (void)rmdir(runtime_dir); }

int eal_start(const struct config *c, size_t pool_bytes, struct fault *f)
{
  struct eal_args a;
  /* A sixteenth more than the sum: where a pool does not fit in one piece it is put together of several. */
  size_t needed = pool_bytes / MB + pool_bytes / MB / 16 + SPARE_MB;
  size_t memory = c->eal.memory_mb != 0 ? c->eal.memory_mb : needed;
  if (memory < needed)
    return fail(f,
                "the caches need %zu MB of packet buffers, but eal.memory_mb is %zu: raise it or lower cache.memory of "
                "the nodes (%u of them)",
                needed, memory, c->nnodes);
  eal_arguments(&a, c, memory);
  log_eal_forget();
  if (c->eal.telemetry)
    (void)atexit(remove_runtime_dir); /* before DPDK asks for the same: it runs after it */
  struct eal_args given = a;          /* EAL moves what is in the array */
  int rc = rte_eal_init(given.n, given.v);
  eal_arguments_free(&a);
  snprintf(runtime_dir, sizeof runtime_dir, "%s", rte_eal_get_runtime_dir());
  remove_runtime_dir(); /* where telemetry's socket is in it, it stays */
  if (rc < 0)
    return fail(
        f, "DPDK does not start: %s%s%s", log_eal_words()[0] != '\0' ? log_eal_words() : rte_strerror(rte_errno),
        c->eal.huge ? "; with eal.huge the machine needs free hugepages (`dpdk-hugepages.py --setup SIZE`)" : "",
        log_threshold < LOG_DEBUG ? " (--log-level debug shows all)" : "");
  if (c->eal.telemetry)
    log_info("telemetry: dpdk-telemetry.py -f datacast-%d, or the socket %s/dpdk_telemetry.v2", (int)getpid(),
             runtime_dir);
  return 0;
}

struct errand {
  void (*work)(void *arg);
  void *arg;
  sem_t done;
};

static void run_errand(void *arg)
{
  struct errand *e = arg;
  e->work(e->arg);
  (void)sem_post(&e->done);
}

void eal_between_interrupts(void (*work)(void *arg), void *arg)
{
  struct errand e = {.work = work, .arg = arg};
  (void)sem_init(&e.done, 0, 0);
  if (rte_eal_alarm_set(1, run_errand, &e) < 0) { /* no alarms: then nothing is called there at all */
    work(arg);
  } else {
    while (sem_wait(&e.done) < 0) /* a signal */
      ;
  }
  (void)sem_destroy(&e.done);
}
