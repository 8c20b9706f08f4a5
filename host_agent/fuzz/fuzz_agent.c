/* libFuzzer: a whole agent under a script of events, with virtual time: a master's requests over trees of members,
 * children that answer or do not, the fabric manager, frames on two ports. The loop, the signalling, the groups, the
 * files (in a folder of its own) and the transport are the agent's; sockets are real ones on the loopback interface.
 *
 *   0x00..0x5f  a request: operation, group, part, whole and tree, each with something strange in its place now and
 *               then
 *   0x60..0x6f  bytes from the master as a frame;  0x70..0x77  as they are;  0x78..0x7b  half a request, the rest later
 *   0x7c..0x7f  the master's connection closes
 *   0x80..0x9f  a child answers what it was asked;  0xa0..0xa7  it sends something else;  0xa8..0xaf  it closes
 *   0xb0..0xbf  the fabric manager says something;  0xc0..0xcf  a data packet;  0xd0..0xd7  an interest
 *   0xd8..0xdf  bytes on a port;  0xe0..0xff  time goes on */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "world.h"

static const uint8_t *bytes_of(struct script *s, size_t *len)
{
  const uint8_t *p;
  *len = next(s);
  if (*len > (size_t)(s->end - s->p))
    *len = (size_t)(s->end - s->p);
  p = s->p;
  s->p += *len;
  return p;
}

static void step(struct script *s)
{
  static char rest[1 << 16];
  static size_t rest_len;
  uint8_t op = next(s);
  size_t n;
  const uint8_t *p;
  if (op < 0x60) {
    json_t *m = request(s, op);
    sane = sane && rest_len == 0;
    send_json(&master, m);
  } else if (op < 0x78) {
    sane = false;
    p = bytes_of(s, &n);
    if (op < 0x70)
      send_frame(&master, p, n);
    else
      send_bytes(&master, p, n);
  } else if (op < 0x7c) {
    if (rest_len == 0) {
      json_t *m = request(s, next(s));
      char *text = json_dumps(m, JSON_COMPACT);
      size_t len = strlen(text);
      uint32_t head = htonl((uint32_t)len);
      if (len < sizeof rest) {
        size_t half = len / 2;
        send_bytes(&master, &head, 4);
        send_bytes(&master, text, half);
        memcpy(rest, text + half, rest_len = len - half);
      }
      json_decref(m);
      free(text);
    } else {
      send_bytes(&master, rest, rest_len);
      rest_len = 0;
    }
  } else if (op < 0x80) {
    connect_master();
    rest_len = 0;
  } else if (op < 0xa0) {
    child_answers(s, op);
  } else if (op < 0xa8) {
    p = bytes_of(s, &n);
    if (op & 1)
      send_frame(&child, p, n);
    else
      send_bytes(&child, p, n);
  } else if (op < 0xb0) {
    hang_up(&child.fd);
    child.have = 0;
    nasked = 0;
  } else if (op < 0xc0) {
    manager_says(s, op);
  } else if (op < 0xd0) {
    data_packet(s, op);
  } else if (op < 0xd8) {
    interest(s, op);
  } else if (op < 0xe0) {
    p = bytes_of(s, &n);
    arrive(op, p, n);
  } else {
    pass(span(s));
  }
  if (s->p >= s->end && rest_len > 0)
    sane = false; /* what was half sent never comes whole */
  if (s->p >= s->end)
    rest_len = 0;
}

static void check(void)
{
  MUST(a.groups.n <= a.groups.limit && a.groups.trees <= TREES_MAX && a.groups.trees >= frames->endpoints);
  MUST(a.signalling.budget <= 2 * INPUT_BUDGET && a.signalling.peers_n <= PEERS_MAX &&
       a.signalling.calls_n <= CALLS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct script s = {p, p + len};
  struct fault why;
  set_up();
  master.fd = child.fd = manager.fd = -1;
  child.have = manager.have = nasked = 0;
  groups_init(&a.groups, &a.host, 3);
  MUST(signalling_open(&a.signalling, &a.loop, &a.groups, "127.0.0.1:0", &why));
  struct sockaddr_in at;
  socklen_t at_len = sizeof at;
  MUST(getsockname(a.signalling.listen.fd, (struct sockaddr *)&at, &at_len) == 0);
  snprintf(own, sizeof own, "127.0.0.1:%u", ntohs(at.sin_port));
  a.host.addr = own;
  const struct registrant who = host_registrant(&a.host);
  MUST(registration_open(&a.registration, &a.loop, &a.host.security, &who, manager_addr, &why));
  frames->engine.link_changed = host_link;
  frames->engine.link_arg = &a.host;
  connect_master();
  while (s.p < s.end) {
    step(&s);
    listen_to_all();
    check();
  }

  /* Every request is answered once, whoever does not answer; and nothing stays behind. */
  for (unsigned i = 0; i < 70 && (a.signalling.pending != NULL || i < 2); i++) {
    pass(DC_SEC);
    listen_to_all();
  }
  MUST(a.signalling.pending == NULL && a.signalling.calls_n == 0);
  MUST(!sane || master.fd < 0 || answers == requests);
  hang_up(&master.fd);
  hang_up(&child.fd);
  hang_up(&manager.fd);
  turn();
  groups_close(&a.groups);
  frames->engine.link_changed = NULL;
  registration_close(&a.registration);
  signalling_close(&a.signalling);
  turn();
  while (a.host.walks.first != NULL) { /* kept for a while */
    pass(20 * DC_SEC);
    walks_tidy(&a.host.walks);
  }
  MUST(a.groups.n == 0 && a.groups.trees == 0 && frames->endpoints == 0 && a.worker.owned == NULL &&
       a.disk.owned == NULL);
  MUST(a.signalling.budget == 0 && a.registration.budget == 0);
  dc_node_clear(frames->node.core);
  MUST(frames->pool.in_use == 0);
  for (int i = 1; i <= PORTS; i++)
    engine_carrier(&frames->engine, i, true, false);
  clean_folder();
  return 0;
}
