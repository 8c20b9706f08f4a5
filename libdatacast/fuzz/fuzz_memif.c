/* libFuzzer: memory that a neighbour shares (datapath/memif_ring.c) and writes into as it likes. The input is that memory, with
 * one switch of sides in front: a server finds rings in it, a client has made them. Frames are sent and taken between writes. */
#include <stdlib.h>
#include <string.h>

#include "datapath/bufpool.h"
#include "datapath/memif_ring.h"
#include "script.h"

enum { MEMORY = 16384, SLOT = 128, FRAMES = 32 };

static uint8_t payload[512], copy[MEMORY];
static struct dc_buf shown = {.data = payload};

static void send_some(struct memif_rings *r, uint8_t how)
{
  struct dc_tx tx[4];
  const struct dc_tx *frame[4];
  for (unsigned i = 0; i < 4; i++) {
    frame[i] = &tx[i];
    tx[i] = (struct dc_tx){.buf = i % 2 == 0 ? &shown : NULL, .len = i % 2 == 0 ? how * 2u : 0, .prefix_len = 30};
  }
  int sent = memif_put(r, frame, 4);
  MUST(sent >= -1 && sent <= 4);
  (void)memif_wakes(r);
}

static void take_some(struct memif_rings *r, uint8_t most)
{
  struct memif_taken taken[FRAMES];
  unsigned buffers = 0;
  uint64_t bad = 0;
  int n = memif_look(r, taken, most % FRAMES + 1u, &buffers, &bad);
  MUST(n >= -1 && n <= FRAMES && buffers <= r->in.mask + 1u);
  for (int i = 0; i < n; i++) {
    MUST(taken[i].len <= sizeof copy);
    memcpy(copy, taken[i].data, taken[i].len);
  }
  if (n >= 0)
    memif_let_go(r, buffers);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct script s = {p, p + len};
  bool server = next(&s) & 1;
  size_t bytes = server ? MEMORY : memif_rings_bytes(SLOT);
  struct memif_rings r = {.server = server, .regions = 1};
  uint8_t *memory = aligned_alloc(4096, bytes);
  MUST(memory != NULL);
  memset(memory, 0, bytes);
  r.region[0] = (struct memif_region){.map = memory, .len = bytes};
  bool ready = !server;
  if (!server) {
    memif_rings_make(&r, SLOT);
    memif_rings_begin(&r);
  } else {
    for (unsigned i = 0; i < 2; i++) /* at multiples of 64, of 1 to 256 slots, or out of range */
      *(uint32_t *)(void *)(memory + 64u * (next(&s) % (MEMORY / 64))) = MEMIF_COOKIE;
    bool in = memif_rings_find(&r, true, next(&s) & 1, 64u * next(&s), next(&s) % 16);
    bool out = memif_rings_find(&r, false, 0, 64u * next(&s), next(&s) % 16);
    ready = in && out;
  }
  while (ready && s.p < s.end) {
    uint8_t op = next(&s), x = next(&s);
    switch (op & 3) {
    case 0:
      send_some(&r, x);
      break;
    case 1:
      take_some(&r, x);
      break;
    default: { /* the other side writes: mostly where rings and descriptors begin */
      size_t at = (op & 4 ? (size_t)x : 256u * x + op) * 2 % (bytes - 2);
      memory[at] = next(&s);
      memory[at + 1] = next(&s);
    }
    }
  }
  free(memory);
  return 0;
}
