#include "addresses.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"

bool addresses_parse(struct addresses *a, const char *list)
{
  *a = (struct addresses){.n = 0};
  for (;;) {
    size_t len = strcspn(list, ",");
    struct sockaddr_storage to;
    socklen_t size;
    if (a->n == ADDRESSES_MAX || len > ADDRESS_LEN_MAX)
      return false;
    char *text = a->text[a->n++];
    memcpy(text, list, len);
    text[len] = '\0';
    if (!address_parse(text, &to, &size) || ((struct sockaddr_in *)&to)->sin_port == 0) /* in both families there */
      return false;
    if (list[len] == '\0')
      return true;
    list += len + 1;
  }
}

const char *addresses_now(const struct addresses *a) { return a->text[a->at]; }

void addresses_next(struct addresses *a) { a->at = (a->at + 1) % a->n; }
