/* libFuzzer: what is said to a switch. The first byte chooses: a configuration file as bytes, or requests of the
 * control socket, a line each, to a running switch of two nodes on DPDK's null devices. Every request gets one answer
 * with `ok`. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answers.h"
#include "datapath/log.h"
#include "eal.h"
#include "fuzz/script.h"

static const char running[] =
    "nodes:\n"
    "- {name: a, ports: [{port: 0, vdev: net_null0}, {port: 3, vdev: net_null1}], cache: {memory: 1M, trees: 4}}\n"
    "- {name: b, appliance: true, ports: [{port: 0, vdev: net_null2}], cache: {memory: 1M, trees: 4}}\n"
    "mtu: 1500\n";

static struct config config;
static struct sw sw;
static struct loop loop;

/* A file of these bytes, as a path. */
static void path_of(char path[64], const void *p, size_t len)
{
  static int fd = -1;
  if (fd < 0)
    fd = memfd_create("configuration", 0);
  MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, p, len, 0) == (ssize_t)len);
  snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void start(void)
{
  struct fault f = {.text = ""};
  char path[64];
  uint32_t data, headers;
  log_open("fuzz", LOG_ERROR);
  path_of(path, running, sizeof running - 1);
  if (config_load(&config, path, false, &f) == 0) {
    sw_pool_sizes(&config, &data, &headers);
    if (log_catch_eal() == 0 &&
        eal_start(&config, packet_pools_bytes(data, headers, ports_frame_bytes(&config)), &f) == 0 &&
        loop_open(&loop) == 0 && sw_open(&sw, &config, &loop, &f) == 0) {
      return;
    }
  }
  fprintf(stderr, "%s\n", f.text);
  abort();
}

static void configuration(const uint8_t *p, size_t len)
{
  struct config c;
  struct fault f = {.text = ""};
  char path[64];
  path_of(path, p, len);
  if (config_load(&c, path, len & 1, &f) < 0) {
    MUST(f.text[0] != '\0');
    return;
  }
  uint32_t data, headers;
  MUST(c.nnodes > 0 && c.mtu >= SW_MTU_MIN && c.mtu <= SW_MTU_MAX);
  for (unsigned i = 0; i < c.nnodes; i++) {
    const char *what;
    MUST(c.nodes[i].nports > 0 && c.nodes[i].name[0] != '\0' && dc_node_cfg_check(&c.nodes[i].core, &what) == 0);
  }
  sw_pool_sizes(&c, &data, &headers);
  config_free(&c);
}

static void requests(const uint8_t *p, size_t len)
{
  while (len > 0) {
    const uint8_t *end = memchr(p, '\n', len);
    size_t n = end == NULL ? len : (size_t)(end - p);
    json_t *request = json_loadb((const char *)p, n, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(request)) {
      bool stop = false;
      json_t *answer = answer_request(&sw, request, &stop);
      const json_t *ok = json_object_get(answer, "ok");
      char *text = json_dumps(answer, JSON_COMPACT);
      MUST(json_is_boolean(ok) && text != NULL && (!stop || json_is_true(ok)));
      MUST(json_is_true(ok) || json_is_string(json_object_get(answer, "error")));
      free(text);
      json_decref(answer);
    }
    json_decref(request);
    n += end != NULL;
    p += n;
    len -= n;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static bool started;
  if (!started)
    start();
  started = true;
  if (len == 0)
    return 0;
  if (p[0] & 1)
    requests(p + 1, len - 1);
  else
    configuration(p + 1, len - 1);
  return 0;
}
