/* The master, a child and the fabric manager: sockets, and what came over them. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "world.h"

struct side master, child, manager;
uint64_t asked[ASKED];
unsigned nasked, requests, answers;
bool sane;

void send_bytes(struct side *s, const void *p, size_t n)
{
  if (s->fd >= 0 && n > 0 && send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
    hang_up(&s->fd);
}

void send_frame(struct side *s, const void *p, size_t n)
{
  uint32_t head = htonl((uint32_t)n);
  send_bytes(s, &head, sizeof head);
  send_bytes(s, p, n);
}

void send_json(struct side *s, json_t *m)
{
  char *text = json_dumps(m, JSON_COMPACT);
  json_decref(m);
  if (text != NULL)
    send_frame(s, text, strlen(text));
  free(text);
}

/* Whole frames that came, one after another; what the agent sends is well-formed. */
static json_t *take_frame(struct side *s)
{
  uint32_t n = 0;
  if (s->fd >= 0 && s->have < sizeof s->in) {
    ssize_t got = recv(s->fd, s->in + s->have, sizeof s->in - s->have, MSG_DONTWAIT);
    if (got > 0)
      s->have += (size_t)got;
    else if (got == 0)
      hang_up(&s->fd);
  }
  if (s->have < 4)
    return NULL;
  memcpy(&n, s->in, 4);
  n = ntohl(n);
  MUST(n <= MESSAGE_MAX);
  if (n + 4 > sizeof s->in) { /* longer than this side cares for */
    hang_up(&s->fd);
    s->have = 0;
    return NULL;
  }
  if (s->have < n + 4)
    return NULL;
  json_t *m = json_loadb((const char *)s->in + 4, n, JSON_REJECT_DUPLICATES, NULL);
  MUST(json_is_object(m) && json_is_string(json_object_get(m, "type")));
  s->have -= n + 4;
  memmove(s->in, s->in + n + 4, s->have);
  return m;
}

static void open_side(struct side *s, int fd)
{
  int on = 1;
  hang_up(&s->fd);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* else the next bytes wait for real time */
  s->fd = fd;
  s->have = 0;
}

void connect_master(void)
{
  struct sockaddr_storage to;
  socklen_t len;
  MUST(address_parse(own, &to, &len));
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  MUST(fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0);
  open_side(&master, fd);
  requests = answers = 0;
  sane = true;
}

void listen_to_all(void)
{
  json_t *m;
  turn();
  for (int fd; (fd = accept(child_listen, NULL, NULL)) >= 0;)
    open_side(&child, fd);
  for (int fd; (fd = accept(manager_listen, NULL, NULL)) >= 0;)
    open_side(&manager, fd);
  while ((m = take_frame(&master)) != NULL) {
    const char *type = json_string_value(json_object_get(m, "type"));
    answers += strcmp(type, "event") != 0;
    MUST(strcmp(type, "event") == 0 || strcmp(type, "ack") == 0 || strcmp(type, "error") == 0);
    json_decref(m);
  }
  while ((m = take_frame(&child)) != NULL) {
    bool is_request = strcmp(json_string_value(json_object_get(m, "type")), "request") == 0;
    MUST(is_request || strcmp(json_string_value(json_object_get(m, "type")), "error") == 0);
    if (is_request && nasked < ASKED)
      asked[nasked++] = (uint64_t)json_integer_value(json_object_get(m, "id"));
    json_decref(m);
  }
  while ((m = take_frame(&manager)) != NULL)
    json_decref(m);
  MUST(answers <= requests || !sane);
}
