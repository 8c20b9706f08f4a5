/* The configuration file, checked once and then only read. dpdk_cache/README.md describes every key. */
#ifndef SWITCH_CONFIG_H
#define SWITCH_CONFIG_H

#include <datacast/node.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

enum {
  SW_NAME_MAX = 64,
  SW_MANAGERS_MAX = 576, /* addresses_parse takes no more */
  SW_PATH_MAX = 104,     /* what fits a Unix socket's address, with its end */
  SW_VDEV_MAX = 256,
  SW_FILE_MAX = 1024,
  SW_MTU_MIN = 576,
  SW_MTU_MAX = 16000,
  SW_RING_MIN = 16,
  SW_RING_MAX = 4096,
  SW_WORKERS_MAX = 16,
};

struct port_cfg {
  uint16_t port;
  char iface[IFNAMSIZ];
  char device[SW_NAME_MAX];
  char vdev[SW_VDEV_MAX];
  char memif[SW_PATH_MAX]; /* the socket of a neighbour on this machine */
  struct {
    char node[SW_NAME_MAX];
    uint16_t port;
    uint8_t mac[6];
    bool has_mac;
  } neighbour;
  unsigned line;
};

struct node_cfg {
  char name[SW_NAME_MAX];
  bool appliance; /* one port, to the switch it serves */
  struct port_cfg *ports;
  unsigned nports;
  struct dc_node_cfg core;
  unsigned line;
};

struct eal_cfg {
  bool huge;
  bool telemetry;          /* DPDK's socket, with our commands */
  uint32_t memory_mb;      /* 0: from the sizes of the caches */
  char cores[SW_NAME_MAX]; /* "": any processor this process may use */
};

struct config {
  struct node_cfg *nodes;
  unsigned nnodes;
  char control[SW_PATH_MAX];
  char fabric_manager[SW_MANAGERS_MAX]; /* "address:port", several behind commas; "" when there is none */
  struct tls_cfg {
    char ca[SW_FILE_MAX], cert[SW_FILE_MAX], key[SW_FILE_MAX]; /* PEM; all or none */
  } tls;
  bool insecure; /* plain TCP beyond the loopback interface */
  struct eal_cfg eal;
  uint32_t mtu;
  bool no_hello;
  uint32_t workers;     /* lcores; each has a part of the trees */
  uint32_t away_ms;     /* on SIGUSR2 the neighbours wait so long for this switch to start again */
  uint32_t ring_frames; /* frames of a kernel interface: in its receive ring, and data that waits to be sent */
};

/* Read and check a file. All nodes become appliances when `appliance`. 0, or -1 with the reason in f. On failure there
 * is nothing to free. */
int config_load(struct config *c, const char *path, bool appliance, struct fault *f) __attribute__((nonnull));
/* One worker's part of a node: its trees, and the memory for them. */
struct dc_node_cfg config_part(const struct config *c, const struct node_cfg *node) __attribute__((nonnull));
void config_free(struct config *c) __attribute__((nonnull));

#endif
