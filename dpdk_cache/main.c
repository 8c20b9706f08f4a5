/* datacast-switch: a DPDK program around the core's node. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "control.h"
#include "datapath/privileges.h"
#include "eal.h"
#include "fabric.h"
#include "links.h"
#include "options.h"
#include "switch.h"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

/* Packet sockets and their buffers, pinned memory, sockets and files in other people's folders. */
#define START_NEEDS \
  (PRIVILEGE(CAP_NET_RAW) | PRIVILEGE(CAP_NET_ADMIN) | PRIVILEGE(CAP_IPC_LOCK) | PRIVILEGE(CAP_DAC_OVERRIDE))

struct program {
  struct watch signals; /* first: the callback casts back */
  struct options options;
  struct config config;
  struct sw sw;
  struct rounds rounds;
  struct security security;
  struct links links;
  struct fabric fabric;
  struct control *control;
};

static void on_signal(struct watch *w, uint32_t events) {
  struct program *p = (struct program *)w;
  struct signalfd_siginfo info;
  (void)events;
  if (read(w->fd, &info, sizeof info) != sizeof info) return;
  log_info("%s: stopping", info.ssi_signo == SIGINT ? "interrupted" : "terminated");
  p->rounds.stop = true;
}

static void on_link(void *context, struct port *port) {
  struct program *p = context;
  if (p->config.fabric_manager[0] != '\0') fabric_link(&p->fabric, port);
}

/* Before DPDK makes its threads, so that they leave the signals to us. */
static int block_signals(struct failure *f) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return fd < 0 ? fail(f, "signals cannot be watched") : fd;
}

static int check_ports(const struct config *c, struct failure *f) {
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned k = 0; k < c->nodes[i].nports; k++)
      if (port_check(&c->nodes[i].ports[k], c->mtu, f) < 0) {
        struct failure inner = *f;
        return fail(f, "node %s port %u: %s", c->nodes[i].name, c->nodes[i].ports[k].port, inner.text);
      }
  return 0;
}

static int serve(struct program *p, struct failure *f) {
  const char *socket = p->options.control != NULL ? p->options.control : p->config.control;
  p->signals.ready = on_signal;
  if (loop_watch(&p->rounds.loop, &p->signals, EPOLLIN) < 0) return fail(f, "epoll: signals");
  if (links_open(&p->links, &p->rounds, on_link, p, f) < 0) return -1;
  if (p->config.fabric_manager[0] != '\0')
    fabric_open(&p->fabric, &p->rounds, p->config.fabric_manager, socket, &p->security);
  /* Last: who sees the socket may rely on everything else. */
  if (socket[0] == '\0' || (p->control = control_open(&p->rounds, socket, f)) != NULL) {
    struct fault why;
    if (!privileges_keep(0, &why)) log_warn("%s", why.text); /* everything that needs rights is open now */
    log_info("ready: %u node(s), %u port(s), MTU %u, %u packets of cache memory%s%s", p->sw.nmembers, p->sw.nports,
           p->config.mtu, p->sw.pools.data->size, socket[0] != '\0' ? ", control socket " : "", socket);
    rounds_run(&p->rounds);
    control_close(p->control);
    fabric_close(&p->fabric);
    links_close(&p->links);
    return 0;
  }
  fabric_close(&p->fabric);
  links_close(&p->links);
  return -1;
}

static int open_security(struct program *p, struct failure *f) {
  const struct tls_cfg *t = &p->config.tls;
  struct fault why;
  p->security.insecure = p->config.insecure;
  if (t->ca[0] == '\0') return 0;
  p->security.ctx = tls_open(t->ca, t->cert, t->key, "switch", NULL, &why);
  return p->security.ctx == NULL ? fail(f, "%s", why.text) : 0;
}

static int run(struct program *p, struct failure *f) {
  uint32_t data, headers;
  sw_pool_sizes(&p->config, &data, &headers);
  struct fault why;
  if (open_security(p, f) < 0) return -1;
  /* DPDK's own threads keep what is there when they start; PCI devices and hugepages need more than can be told. */
  if (!p->config.eal.huge && !eal_uses_pci(&p->config) && !privileges_keep(START_NEEDS, &why)) log_warn("%s", why.text);
  if (eal_start(&p->config, packet_pools_bytes(data, headers, ports_frame_bytes(&p->config)), f) < 0) return -1;
  int rc = sw_open(&p->sw, &p->config, f);
  if (rc == 0) {
    rc = rounds_open(&p->rounds, &p->sw, p->options.wait, f);
    if (rc == 0) {
      rc = serve(p, f);
      rounds_close(&p->rounds);
    }
    sw_close(&p->sw);
  }
  eal_stop();
  return rc;
}

int main(int argc, char **argv) {
  static struct program p;
  struct failure f = {""};
  enum options_do what = options_parse(&p.options, argc, argv);
  if (what == OPTIONS_DONE) return 0;
  if (what == OPTIONS_BAD) return EXIT_USAGE;
  if (what == OPTIONS_ASK) return control_ask(p.options.ask_socket, p.options.ask_op, p.options.ask_arguments);
  if (config_load(&p.config, p.options.config, p.options.appliance, &f) < 0) {
    log_error("%s", f.text);
    return EXIT_USAGE;
  }
  p.config.no_hello |= p.options.no_hello;
  int code = 0;
  if (check_ports(&p.config, &f) < 0) {
    log_error("%s", f.text);
    code = EXIT_USAGE;
  } else if (what == OPTIONS_CHECK) {
    printf("%s: %u node(s), good\n", p.options.config, p.config.nnodes);
  } else if ((p.signals.fd = block_signals(&f)) < 0 || log_catch_eal() < 0 || run(&p, &f) < 0) {
    log_error("%s", f.text);
    code = EXIT_RUNTIME;
  }
  tls_close(p.security.ctx);
  config_free(&p.config);
  return code;
}
