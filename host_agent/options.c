#include "options.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"
#include "datapath/conn.h"
#include "datapath/instance.h"
#include "datapath/mac.h"
#include "params.h"

static const char usage[] =
    "usage: datacast-agent --node NAME --listen ADDR:PORT {--port N=IFACE[,MAC] | --tunnel … | --memif …} … [options]\n"
    "       datacast-agent --config FILE\n"
    "\n"
    "One agent per host: it sends and receives files for groups, and forwards and caches for others.\n"
    "\n"
    "  --config FILE           the first option: read options from a YAML file (node: \"00\", port: [0=eth0],\n"
    "                          no-sync: true); what follows on the command line is added\n"
    "  --node NAME             this host's name in the topology, such as 00\n"
    "  --listen ADDR:PORT      where masters and other agents reach it, on the management network\n"
    "  --fabric-manager ADDR:PORT[,ADDR:PORT...]  (one of them leads)\n"
    "                          register there (kept up; it may start later)\n"
    "  --tls-ca FILE, --tls-cert FILE, --tls-key FILE\n"
    "                          PEM files of `datacast certs`: signalling by TLS 1.3, both sides authenticated\n"
    "  --insecure              plain TCP without certificates, also beyond the loopback interface\n"
    "  --port N=IFACE[,MAC]    data port N (from 0, without gaps); MAC of its neighbour, else broadcast\n"
    "  --tunnel N=LOCAL,REMOTE[,MTU]\n"
    "                          data port N is a tunnel (MPLS in UDP, port 6635) between two addresses; MTU of the "
    "path\n"
    "  --memif N=SOCKET[,ID[,MTU]]\n"
    "                          data port N is memory shared with a switch or router of this machine that listens on\n"
    "                          SOCKET (memif 2.0: DPDK's net_memif, VPP); its interface's number (0) and the MTU "
    "(9000)\n"
    "  --tunnel-slots N        so many ports behind these become tunnels as the fabric manager says\n"
    "  --dest-root DIR         files may be received beneath DIR (repeat for more; none: nothing is received)\n"
    "  --source-root DIR       files may be sent from beneath DIR (repeat for more; without it this host\n"
    "                          sends nothing)\n"
    "  --origins FILE          what this host may fetch for groups, and with which credentials (docs/origins.md); "
    "readable\n"
    "                          by its owner alone. Without it this host fetches nothing\n"
    "  --no-forward            this host neither forwards nor caches for others, but merges requests for its files\n"
    "  --no-hello              say no hello on the data ports: only a lost carrier shows that a link failed\n"
    "  --cache SIZE            content store of a tree when the group names none (default 128K)\n"
    "  --cache-trees N         trees that may have one at once (default 64)\n"
    "  --cache-memory SIZE     all content stores together (default 12M)\n"
    "  --groups N              groups at once (default 64)\n"
    "  --no-sync               do not wait for the disk before a received file is renamed\n"
    "  --keep-partial          leave unfinished files when the agent stops; the next one removes what no group\n"
    "                          goes on with for ten leases\n"
    "  --owners                tell who owns what is in directories, and give what is received so to the same "
    "numbers;\n"
    "                          without it all is this agent's. Needs CAP_CHOWN, which it keeps then\n"
    "  --xattrs                tell and give the extended attributes (user.) of what is in directories\n"
    "  --workers N             threads that share the frames, by tree (default 1, at most 8)\n"
    "  --gather USEC           longest pause between looks at the ports while packets come quickly (default 2000):\n"
    "                          fewer wake-ups, at the price of as much delay; 0: none\n"
    "  --log-level LEVEL       error, warn, info or debug (default info); the log goes to standard error\n"
    "  --help, --version\n"
    "\n"
    "It needs root, or CAP_NET_RAW and CAP_NET_ADMIN to start; afterwards it keeps CAP_DAC_OVERRIDE and\n"
    "CAP_DAC_READ_SEARCH at most. SIGTERM or Ctrl-C stops it and removes its temporary files.\n"
    "Exit codes: 0 stopped as asked, 1 it could not run, 2 wrong usage.\n";

enum {
  OPT_CONFIG = 256,
  OPT_NODE,
  OPT_LISTEN,
  OPT_MANAGER,
  OPT_TLS_CA,
  OPT_TLS_CERT,
  OPT_TLS_KEY,
  OPT_INSECURE,
  OPT_PORT,
  OPT_TUNNEL,
  OPT_MEMIF,
  OPT_SLOTS,
  OPT_DEST,
  OPT_SOURCE,
  OPT_ORIGINS,
  OPT_NO_FORWARD,
  OPT_NO_HELLO,
  OPT_CACHE,
  OPT_CACHE_TREES,
  OPT_CACHE_MEMORY,
  OPT_GROUPS,
  OPT_NO_SYNC,
  OPT_KEEP,
  OPT_OWNERS,
  OPT_XATTRS,
  OPT_WORKERS,
  OPT_GATHER,
  OPT_LOG,
  OPT_HELP,
  OPT_VERSION
};

static const struct option longs[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"node", required_argument, NULL, OPT_NODE},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"fabric-manager", required_argument, NULL, OPT_MANAGER},
    {"tls-ca", required_argument, NULL, OPT_TLS_CA},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"insecure", no_argument, NULL, OPT_INSECURE},
    {"port", required_argument, NULL, OPT_PORT},
    {"tunnel", required_argument, NULL, OPT_TUNNEL},
    {"memif", required_argument, NULL, OPT_MEMIF},
    {"tunnel-slots", required_argument, NULL, OPT_SLOTS},
    {"dest-root", required_argument, NULL, OPT_DEST},
    {"source-root", required_argument, NULL, OPT_SOURCE},
    {"origins", required_argument, NULL, OPT_ORIGINS},
    {"no-forward", no_argument, NULL, OPT_NO_FORWARD},
    {"no-hello", no_argument, NULL, OPT_NO_HELLO},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"cache-trees", required_argument, NULL, OPT_CACHE_TREES},
    {"cache-memory", required_argument, NULL, OPT_CACHE_MEMORY},
    {"groups", required_argument, NULL, OPT_GROUPS},
    {"no-sync", no_argument, NULL, OPT_NO_SYNC},
    {"keep-partial", no_argument, NULL, OPT_KEEP},
    {"owners", no_argument, NULL, OPT_OWNERS},
    {"xattrs", no_argument, NULL, OPT_XATTRS},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"gather", required_argument, NULL, OPT_GATHER},
    {"log-level", required_argument, NULL, OPT_LOG},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, uint32_t min, uint32_t max, uint32_t *to)
{
  char *end;
  unsigned long long n = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || n < min || n > max)
    return false;
  *to = (uint32_t)n;
  return true;
}

bool options_bytes(const char *text, uint32_t *to)
{
  char *end;
  if (*text < '0' || *text > '9')
    return false;
  unsigned long long n = strtoull(text, &end, 10);
  unsigned shift = *end == 'K' || *end == 'k'   ? 10
                   : *end == 'M' || *end == 'm' ? 20
                   : *end == 'G' || *end == 'g' ? 30
                                                : 0;
  end += shift > 0;
  if (*end != '\0' || n > UINT32_MAX >> shift)
    return false;
  *to = (uint32_t)(n << shift);
  return true;
}

bool options_port(char *text, uint16_t *to_number, struct port_option *to)
{
  char *equals = strchr(text, '=');
  uint32_t n;
  if (equals == NULL)
    return false;
  *equals = '\0';
  if (!number(text, 0, DC_NODE_PORTS_MAX - 1, &n))
    return false;
  char *comma = strchr(equals + 1, ',');
  memset(to, 0, sizeof *to);
  memset(to->neighbour, 0xff, 6);
  if (comma != NULL) {
    *comma = '\0';
    if (!mac_read(to->neighbour, comma + 1))
      return false;
  }
  size_t len = strlen(equals + 1);
  if (len == 0 || len >= IF_NAMESIZE)
    return false;
  to->ifname = equals + 1;
  *to_number = (uint16_t)n;
  return true;
}

bool options_tunnel(char *text, uint16_t *to_number, struct port_option *to)
{
  uint32_t n, mtu = 0;
  char *save, *name = strtok_r(text, "=", &save), *local = strtok_r(NULL, ",", &save),
              *remote = strtok_r(NULL, ",", &save), *path = strtok_r(NULL, ",", &save);
  memset(to, 0, sizeof *to);
  if (remote == NULL || strtok_r(NULL, "", &save) != NULL || !number(name, 0, DC_NODE_PORTS_MAX - 1, &n) ||
      (path != NULL && !number(path, TUNNEL_MTU_MIN, UINT16_MAX, &mtu)) ||
      !tunnel_parse(local, remote, mtu, &to->tunnel))
    return false;
  to->ifname = remote;
  to->kind = PORT_TUNNEL;
  memset(to->neighbour, 0xff, 6);
  *to_number = (uint16_t)n;
  return true;
}

bool options_memif(char *text, uint16_t *to_number, struct port_option *to)
{
  uint32_t n;
  char *save, *name = strtok_r(text, "=", &save), *path = strtok_r(NULL, ",", &save), *id = strtok_r(NULL, ",", &save),
              *mtu = strtok_r(NULL, ",", &save);
  memset(to, 0, sizeof *to);
  to->memif.mtu = 9000;
  if (path == NULL || strlen(path) >= sizeof to->memif.path || strtok_r(NULL, "", &save) != NULL ||
      !number(name, 0, DC_NODE_PORTS_MAX - 1, &n) || (id != NULL && !number(id, 0, MEMIF_ID_MAX, &to->memif.id)) ||
      (mtu != NULL && !number(mtu, MEMIF_MTU_MIN, MEMIF_MTU_MAX, &to->memif.mtu)))
    return false;
  memcpy(to->memif.path, path, strlen(path));
  to->ifname = path;
  to->kind = PORT_MEMIF;
  memset(to->neighbour, 0xff, 6);
  *to_number = (uint16_t)n;
  return true;
}

/* Two ports in one place could not tell their frames apart. */
static bool same_place(const struct port_option *a, const struct port_option *b)
{
  if (a->ifname == NULL || a->kind != b->kind)
    return false;
  switch (a->kind) {
  case PORT_TUNNEL:
    return memcmp(&a->tunnel.remote, &b->tunnel.remote, sizeof a->tunnel.remote) == 0 &&
           memcmp(&a->tunnel.local, &b->tunnel.local, sizeof a->tunnel.local) == 0;
  case PORT_MEMIF:
    return strcmp(a->memif.path, b->memif.path) == 0 && a->memif.id == b->memif.id;
  default:
    return strcmp(a->ifname, b->ifname) == 0;
  }
}

static enum options_result bad(const char *option, const char *value, const char *wanted)
{
  fprintf(stderr, "datacast-agent: --%s %s: %s\n", option, value, wanted);
  return OPTIONS_BAD;
}

static enum options_result add_port(struct options *o, const char *option, const char *value, uint16_t n,
                                    const struct port_option *port)
{
  if (o->port[n].ifname != NULL)
    return bad(option, value, "this port was given already");
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++)
    if (same_place(&o->port[i], port))
      return bad(option, value, "another port is there already");
  o->port[n] = *port;
  o->ports++;
  return OPTIONS_RUN;
}

static bool add_folder(const char **list, unsigned *n, const char *path)
{
  if (*n == ROOTS_MAX || path[0] != '/')
    return false;
  list[(*n)++] = path;
  return true;
}

/* "Any address" or "any port". */
static bool leads_nowhere(const char *text)
{
  struct sockaddr_storage a;
  socklen_t len;
  if (!address_parse(text, &a, &len))
    return false; /* told where it is used */
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&a;
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a;
  return a.ss_family == AF_INET6 ? v6->sin6_port == 0 || IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
                                 : v4->sin_port == 0 || v4->sin_addr.s_addr == htonl(INADDR_ANY);
}

static enum options_result take(struct options *o, int c, const char *name, char *value)
{
  uint16_t n;
  struct port_option port;
  switch (c) {
  case OPT_NODE:
    o->node = o->forward.name = value;
    return name_ok(value) ? OPTIONS_RUN : bad(name, value, "a name has 1 to 64 letters, digits or ._-");
  case OPT_LISTEN:
    o->listen = value;
    return leads_nowhere(value) ? bad(name, value, "others are told so: give the address and port that they reach")
                                : OPTIONS_RUN;
  case OPT_MANAGER:
    o->manager = value;
    return OPTIONS_RUN;
  case OPT_TLS_CA:
    o->tls_ca = value;
    return OPTIONS_RUN;
  case OPT_TLS_CERT:
    o->tls_cert = value;
    return OPTIONS_RUN;
  case OPT_TLS_KEY:
    o->tls_key = value;
    return OPTIONS_RUN;
  case OPT_INSECURE:
    o->insecure = true;
    return OPTIONS_RUN;
  case OPT_PORT:
    if (!options_port(value, &n, &port))
      return bad(name, value, "wanted N=IFACE or N=IFACE,02:00:00:00:00:01, N from 0 to 255");
    return add_port(o, name, value, n, &port);
  case OPT_TUNNEL:
    if (!options_tunnel(value, &n, &port))
      return bad(name, value, "wanted N=LOCAL,REMOTE or N=LOCAL,REMOTE,MTU: two different addresses of one family");
    return add_port(o, name, value, n, &port);
  case OPT_MEMIF:
    if (!options_memif(value, &n, &port))
      return bad(name, value,
                 "wanted N=SOCKET, N=SOCKET,ID or N=SOCKET,ID,MTU: a path of at most 107 bytes, an MTU of 576 to "
                 "16000");
    return add_port(o, name, value, n, &port);
  case OPT_SLOTS:
    return number(value, 1, 64, &o->slots) ? OPTIONS_RUN : bad(name, value, "wanted a number from 1 to 64");
  case OPT_DEST:
    return add_folder(o->dest_root, &o->dest_roots, value)
               ? OPTIONS_RUN
               : bad(name, value, "wanted an absolute path, at most 16 of them");
  case OPT_SOURCE:
    return add_folder(o->source_root, &o->source_roots, value)
               ? OPTIONS_RUN
               : bad(name, value, "wanted an absolute path, at most 16 of them");
  case OPT_ORIGINS:
    o->origins = value;
    return value[0] == '/' ? OPTIONS_RUN : bad(name, value, "wanted an absolute path");
  case OPT_NO_FORWARD:
    o->forward.no_forward = true;
    return OPTIONS_RUN;
  case OPT_NO_HELLO:
    o->forward.no_hello = true;
    return OPTIONS_RUN;
  case OPT_CACHE:
    return options_bytes(value, &o->forward.cache_bytes) && o->forward.cache_bytes > 0
               ? OPTIONS_RUN
               : bad(name, value, "wanted a size such as 128K");
  case OPT_CACHE_TREES:
    return number(value, 1, 4096, &o->forward.cache_trees) ? OPTIONS_RUN
                                                           : bad(name, value, "wanted a number from 1 to 4096");
  case OPT_CACHE_MEMORY:
    return options_bytes(value, &o->forward.cache_memory) && o->forward.cache_memory >= 1 << 20
               ? OPTIONS_RUN
               : bad(name, value, "wanted a size of at least 1M");
  case OPT_GROUPS:
    return number(value, 1, GROUPS_LIMIT, &o->groups) ? OPTIONS_RUN
                                                      : bad(name, value, "wanted a number from 1 to 1024");
  case OPT_NO_SYNC:
    o->sync = false;
    return OPTIONS_RUN;
  case OPT_KEEP:
    o->keep_partial = true;
    return OPTIONS_RUN;
  case OPT_OWNERS:
    o->owners = true;
    return OPTIONS_RUN;
  case OPT_XATTRS:
    o->xattrs = true;
    return OPTIONS_RUN;
  case OPT_WORKERS:
    return number(value, 1, SHARDS_MAX, &o->workers) ? OPTIONS_RUN : bad(name, value, "wanted a number from 1 to 8");
  case OPT_GATHER:
    return number(value, 0, 10000, &o->gather_us) ? OPTIONS_RUN
                                                  : bad(name, value, "wanted microseconds from 0 to 10000");
  case OPT_LOG:
    return log_level_parse(value, &o->level) ? OPTIONS_RUN : bad(name, value, "wanted error, warn, info or debug");
  case OPT_HELP:
    fputs(usage, stdout);
    return OPTIONS_DONE;
  case OPT_VERSION:
    puts("datacast-agent " DATACAST_VERSION);
    return OPTIONS_DONE;
  default:
    fputs("try datacast-agent --help\n", stderr);
    return OPTIONS_BAD;
  }
}

static enum options_result complain(const char *what)
{
  fprintf(stderr, "datacast-agent: %s\ntry datacast-agent --help\n", what);
  return OPTIONS_BAD;
}

/* All options of one argument vector. `config` was read already. */
static enum options_result take_all(struct options *o, int argc, char **argv, const char *config)
{
  static char none[] = "";
  int c, index = 0;
  optind = 0; /* getopt starts anew */
  while ((c = getopt_long(argc, argv, "", longs, &index)) != -1) {
    if (c == OPT_CONFIG && optarg == config)
      continue;
    if (c == OPT_CONFIG)
      return bad("config", optarg, "wanted once, as the first option, with a space before FILE");
    enum options_result r =
        take(o, c, c >= OPT_NODE && c <= OPT_VERSION ? longs[index].name : "", optarg == NULL ? none : optarg);
    if (r != OPTIONS_RUN)
      return r;
  }
  return optind < argc ? complain("there are arguments that belong to no option") : OPTIONS_RUN;
}

static enum options_result take_file(struct options *o, const char *path)
{
  static char *argv[CONFIG_ARGS_MAX + 1];
  int argc = config_file_read(path, longs, argv);
  return argc < 0 ? OPTIONS_BAD : take_all(o, argc, argv, NULL);
}

/* Values are cut up where they stand, and ps shall show the command line as it was given. NULL: too long. */
static char **copied(int argc, char **argv)
{
  static char *copy[CONFIG_ARGS_MAX + 1];
  for (int i = 0; i < argc; i++)
    if (i == CONFIG_ARGS_MAX || (copy[i] = strdup(argv[i])) == NULL)
      return NULL;
  return copy;
}

enum options_result options_parse(struct options *o, int argc, char **argv)
{
  if ((argv = copied(argc, argv)) == NULL)
    return complain("too many options");
  *o = (struct options){.forward = {.cache_bytes = 128u << 10, .cache_memory = 12u << 20, .cache_trees = 64},
                        .groups = GROUPS_DEFAULT,
                        .workers = 1,
                        .gather_us = 2000,
                        .sync = true,
                        .level = LOG_INFO};
  const char *config = argc > 2 && strcmp(argv[1], "--config") == 0 ? argv[2] : NULL;
  enum options_result r = config != NULL ? take_file(o, config) : OPTIONS_RUN;
  if (r == OPTIONS_RUN)
    r = take_all(o, argc, argv, config);
  if (r != OPTIONS_RUN)
    return r;
  if (o->node == NULL)
    return complain("--node is missing");
  if (o->listen == NULL)
    return complain("--listen is missing");
  int given = (o->tls_ca != NULL) + (o->tls_cert != NULL) + (o->tls_key != NULL);
  if (given != 0 && given != 3)
    return complain("--tls-ca, --tls-cert and --tls-key belong together");
  if (o->tls_ca != NULL && o->insecure)
    return complain("--insecure and certificates exclude each other");
  if (o->ports + o->slots == 0)
    return complain("at least one --port, --tunnel or --tunnel-slots is needed");
  if (o->ports + o->slots > DC_NODE_PORTS_MAX)
    return complain("more than 256 ports and tunnels");
  if (o->slots > 0 && o->manager == NULL)
    return complain("--tunnel-slots needs --fabric-manager, which gives the tunnels out");
  for (uint16_t i = 0; i < o->ports; i++)
    if (o->port[i].ifname == NULL)
      return complain("ports must be numbered from 0 without gaps");
  return OPTIONS_RUN;
}
