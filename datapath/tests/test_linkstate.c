/* What of a frame says something about a link: hellos under their own EtherType, and nothing that was forwarded. */
#include "datapath/linkstate.h"

#include <stdio.h>
#include <string.h>

#include "datacast/constants.h"
#include "datapath/tests/check.h"

static struct linkstate link_of(uint32_t instance)
{
  struct linkstate l;
  linkstate_init(&l, 0, instance, true, true, 1500);
  return l;
}

static unsigned hello_of(struct linkstate *l, dc_time now, uint8_t frame[LINK_HELLO_BYTES])
{
  static const uint8_t none[6];
  return linkstate_poll(l, now, none, none, frame);
}

/* A hello under ADJ(p) leaves the node before as 0x88B5, whoever wrote it. */
static void a_hello_that_was_forwarded_is_none(void)
{
  struct linkstate a = link_of(1), b = link_of(2);
  uint8_t frame[LINK_HELLO_BYTES];
  CHECK(hello_of(&b, DC_SEC, frame) > 0);
  CHECK(frame[12] == DC_ETHERTYPE_HELLO >> 8 && frame[13] == (DC_ETHERTYPE_HELLO & 0xff));
  frame[12] = DC_ETHERTYPE_DATACAST >> 8, frame[13] = DC_ETHERTYPE_DATACAST & 0xff;
  CHECK(!linkstate_hello(&a, DC_SEC, frame, sizeof frame) && a.received == 0 && a.refused == 0);
  frame[12] = DC_ETHERTYPE_HELLO >> 8, frame[13] = DC_ETHERTYPE_HELLO & 0xff;
  CHECK(linkstate_hello(&a, DC_SEC, frame, sizeof frame) && a.received == 1);
}

int main(void)
{
  a_hello_that_was_forwarded_is_none();
  puts("links: ok");
  return 0;
}
