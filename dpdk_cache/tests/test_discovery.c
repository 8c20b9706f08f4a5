/* Probes as a cache appliance reads them: whole, cut at every byte, and not the controller's. */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discovery.h"

#define LLDP_HEAD 0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc
#define MARK 0xfe, 14, 2, 0xdc, 0, 1, 'd', 'a', 't', 'a', 'c', 'a', 's', 't', 7, 7
#define COPIES(n) 0xfe, 5, 2, 0xdc, 0, 2, n

/* Read from memory of exactly that size: the sanitizer sees one byte too many. */
static bool read_exactly(const uint8_t *frame, size_t len, struct discovery *d)
{
  uint8_t *own = malloc(len > 0 ? len : 1);
  assert(own != NULL);
  memcpy(own, frame, len);
  bool ours = discovery_read(own, len, d);
  free(own);
  return ours;
}

static void a_probe_says_what_the_switch_copies_to(void)
{
  static const uint8_t with[] = {LLDP_HEAD, 2, 1, 7, MARK, COPIES(19), 0, 0}, without[] = {LLDP_HEAD, MARK, 0, 0},
                       before[] = {LLDP_HEAD, COPIES(4), MARK}, after_the_end[] = {LLDP_HEAD, MARK, 0, 0, COPIES(9)};
  struct discovery d = {.copies = 99};
  assert(read_exactly(with, sizeof with, &d) && d.copies == 19);
  assert(read_exactly(without, sizeof without, &d) && d.copies == 0);
  assert(read_exactly(before, sizeof before, &d) && d.copies == 4);
  assert(read_exactly(after_the_end, sizeof after_the_end, &d) && d.copies == 0);
}

static void whatever_is_cut_or_anothers_is_refused(void)
{
  static const uint8_t whole[] = {LLDP_HEAD, MARK, COPIES(19)},
                       another[] = {LLDP_HEAD, 0xfe, 4, 2, 0xdc, 0, 1, COPIES(19)};
  for (size_t len = 0; len < sizeof whole; len++) {
    struct discovery d = {.copies = 99};
    bool ours = read_exactly(whole, len, &d);
    assert(ours == (len >= sizeof whole - 7) && d.copies == (ours ? 0 : 99));
  }
  struct discovery d = {.copies = 99};
  assert(!read_exactly(another, sizeof another, &d) && d.copies == 99);
  uint8_t other[sizeof whole];
  memcpy(other, whole, sizeof whole);
  other[13] = 0xcd;
  assert(!read_exactly(other, sizeof other, &d) && d.copies == 99);
  for (unsigned n = 0; n < 256; n++) { /* a length that leads beyond the frame */
    memcpy(other, whole, sizeof whole);
    other[15] = (uint8_t)n;
    read_exactly(other, sizeof other, &d);
  }
}

int main(void)
{
  a_probe_says_what_the_switch_copies_to();
  whatever_is_cut_or_anothers_is_refused();
  puts("discovery: ok");
  return 0;
}
