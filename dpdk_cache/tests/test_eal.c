/* What DPDK is told about the devices that it may touch, from the configuration. DPDK itself does not run. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/tests/check.h"
#include "eal.h"

static bool has(const struct eal_args *a, const char *text)
{
  for (int i = 0; i < a->n; i++)
    if (strcmp(a->v[i], text) == 0)
      return true;
  return false;
}

static bool allows(const struct eal_args *a, const char *device)
{
  for (int i = 0; i + 1 < a->n; i++)
    if (strcmp(a->v[i], "-a") == 0 && strcmp(a->v[i + 1], device) == 0)
      return true;
  return false;
}

static void nothing_but_the_devices_of_the_configuration(void)
{
  struct port_cfg port[] = {{.device = "0000:03:00.0"}, {.vdev = "net_null0"}, {.device = "0000:03:00.1"}};
  struct node_cfg node[] = {{.ports = port, .nports = 2}, {.ports = port + 2, .nports = 1}};
  struct config c = {.nodes = node, .nnodes = 2, .workers = 1};
  struct eal_args a;
  eal_arguments(&a, &c, 64);
  CHECK(eal_uses_pci(&c) && !has(&a, "--no-pci"));
  CHECK(allows(&a, "0000:03:00.0") && allows(&a, "0000:03:00.1"));
  unsigned listed = 0;
  for (int i = 0; i < a.n; i++)
    listed += strcmp(a.v[i], "-a") == 0;
  CHECK(listed == 2);
  eal_arguments_free(&a);
  c.nodes[0].nports = c.nnodes = 1;
  port[0] = (struct port_cfg){.iface = "eth0"};
  eal_arguments(&a, &c, 64);
  CHECK(!eal_uses_pci(&c) && has(&a, "--no-pci") && !has(&a, "-a"));
  eal_arguments_free(&a);
}

static void every_port_may_be_a_device(void)
{
  static struct port_cfg port[RTE_MAX_ETHPORTS];
  for (unsigned i = 0; i < RTE_MAX_ETHPORTS; i++)
    snprintf(port[i].device, sizeof port[i].device, "0000:%02x:00.0", i);
  struct node_cfg node = {.ports = port, .nports = RTE_MAX_ETHPORTS};
  struct config c = {.nodes = &node, .nnodes = 1, .workers = SW_WORKERS_MAX, .eal = {.huge = true}};
  struct eal_args a;
  eal_arguments(&a, &c, 64);
  CHECK(a.n < EAL_ARGS_MAX && allows(&a, port[RTE_MAX_ETHPORTS - 1].device));
  CHECK(strncmp(a.v[a.n - 1], "--lcores=", 9) == 0);
  eal_arguments_free(&a);
}

static void workers_float_over_all_processors_that_they_may_use(void)
{
  struct config c = {.workers = 2};
  struct eal_args a;
  char list[4096] = "", want[8300];
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  for (unsigned i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set))
      snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", list[0] != '\0' ? "," : "", i);
  eal_arguments(&a, &c, 64);
  snprintf(want, sizeof want, "--lcores=0@(%s),1@(%s)", list, list);
  CHECK(strcmp(a.v[a.n - 1], want) == 0);
  eal_arguments_free(&a);
  c = (struct config){.workers = 2, .eal = {.cores = "2,4-5"}};
  eal_arguments(&a, &c, 64);
  CHECK(strcmp(a.v[a.n - 1], "--lcores=0@(2,4-5),1@(2,4-5)") == 0);
  eal_arguments_free(&a);
}

static void telemetry_is_off_unless_asked_for(void)
{
  struct config c = {.workers = 1};
  struct eal_args a;
  eal_arguments(&a, &c, 64);
  CHECK(has(&a, "--no-telemetry"));
  eal_arguments_free(&a);
  c.eal.telemetry = true;
  eal_arguments(&a, &c, 64);
  CHECK(!has(&a, "--no-telemetry"));
  eal_arguments_free(&a);
}

int main(void)
{
  nothing_but_the_devices_of_the_configuration();
  every_port_may_be_a_device();
  workers_float_over_all_processors_that_they_may_use();
  telemetry_is_off_unless_asked_for();
  printf("test_eal: 4 tests passed\n");
  return 0;
}
