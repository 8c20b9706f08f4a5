/* The command line. */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "agent_limits.h"
#include "datacast/limits.h"
#include "datapath/forward.h"
#include "datapath/log.h"
#include "datapath/memif.h"
#include "datapath/tunnel.h"

enum port_kind { PORT_CABLE, PORT_TUNNEL, PORT_MEMIF };

struct port_option {
  enum port_kind kind;
  const char *ifname; /* how it was given */
  uint8_t neighbour[6];
  union {
    struct tunnel_cfg tunnel;
    struct memif_cfg memif;
  };
};

struct options {
  const char *node, *listen, *manager;
  struct port_option port[DC_NODE_PORTS_MAX];
  uint16_t ports;
  uint32_t slots; /* ports behind these, for tunnels that the fabric manager gives out */
  const char *dest_root[ROOTS_MAX], *source_root[ROOTS_MAX];
  unsigned dest_roots, source_roots;
  struct forward_cfg forward;
  uint32_t workers; /* threads that have the frames */
  uint32_t groups;
  uint32_t gather_us;
  const char *tls_ca, *tls_cert, *tls_key;
  const char *origins;
  bool insecure;
  bool sync, keep_partial, owners, xattrs;
  enum log_level level;
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD }; /* go on; exit 0; exit 2 */

/* Errors are printed. */
enum options_result options_parse(struct options *o, int argc, char **argv) __attribute__((nonnull));

/* "128K", "16M", "4096": bytes; false when malformed or more than 4 GiB - 1. */
bool options_bytes(const char *text, uint32_t *to) __attribute__((nonnull));
/* "0=198.51.100.1,203.0.113.9" or "0=2001:db8::1,2001:db8::2,1500". False when malformed. `text` is changed. */
bool options_tunnel(char *text, uint16_t *number, struct port_option *to) __attribute__((nonnull));
/* "0=/run/switch.memif", "0=/run/switch.memif,1" or "0=/run/switch.memif,1,9000". False when malformed. `text` is changed. */
bool options_memif(char *text, uint16_t *number, struct port_option *to) __attribute__((nonnull));
/* "0=eth0" or "0=eth0,02:00:00:00:00:01". False when malformed. `text` is changed. */
bool options_port(char *text, uint16_t *number, struct port_option *to) __attribute__((nonnull));

#endif
