/* Frames between two threads: in order, none twice, lost or changed, as many as there is room for; one that is lent keeps its
 * slot, and the bell wakes. */
#include "datapath/handover.h"

#include <pthread.h>
#include <string.h>

#include "datapath/tests/check.h"

enum { LONGEST = 1500, BURST = 32, MANY = 200000 };

static struct handover way;
static struct loop loop;
static uint32_t given, taken;

static bool give_one(void)
{
  uint8_t bytes[LONGEST];
  uint32_t len = 64 + given % (LONGEST - 64 + 1);
  memset(bytes, (int)(given & 0xff), len);
  memcpy(bytes, &given, sizeof given);
  if (!handover_give(&way, (uint16_t)(given % 7), &(struct dc_frame){.data = bytes, .len = len}))
    return false;
  given++;
  return true;
}

static void check_one(const struct dc_frame *f)
{
  uint32_t number;
  memcpy(&number, f->data, sizeof number);
  CHECK(number == taken && f->port == taken % 7 && f->len == 64 + taken % (LONGEST - 64 + 1));
  CHECK(f->data[f->len - 1] == (uint8_t)taken && f->buf->data == f->data);
  taken++;
}

static void take_some(void)
{
  struct dc_frame frame[BURST];
  unsigned n = handover_take(&way, frame, BURST);
  for (unsigned i = 0; i < n; i++) {
    check_one(&frame[i]);
    buf_unref(frame[i].buf);
  }
}

static void no_more_than_there_is_room_for(void)
{
  while (give_one())
    ;
  CHECK(given == HANDOVER_FRAMES);
  take_some();
  for (unsigned i = 0; i < BURST; i++)
    CHECK(give_one());
  CHECK(!give_one());
  while (taken < given)
    take_some();
}

static void one_that_is_lent_keeps_its_slot(void)
{
  struct dc_frame kept;
  CHECK(give_one() && handover_take(&way, &kept, 1) == 1);
  check_one(&kept);
  for (unsigned i = 1; i < HANDOVER_FRAMES; i++)
    CHECK(give_one());
  CHECK(!give_one());
  while (taken < given)
    take_some();
  CHECK(!give_one()); /* all others are free, but this one is next */
  CHECK(kept.data[kept.len - 1] == (uint8_t)(taken - HANDOVER_FRAMES));
  buf_unref(kept.buf);
  CHECK(give_one());
  take_some();
}

static void what_is_too_long_is_refused(void)
{
  uint8_t bytes[LONGEST + 1] = {0};
  CHECK(!handover_give(&way, 0, &(struct dc_frame){.data = bytes, .len = LONGEST + 1}) && given == taken);
}

static void an_ethertype_beside_the_bytes_comes_in_their_place(void)
{
  static uint8_t bytes[DC_ETHER_LEN + 1] = {[DC_ETHER_LEN] = 9};
  struct dc_frame f = {.data = bytes, .len = sizeof bytes, .ethertype = DC_ETHERTYPE_HELLO};
  CHECK(handover_give(&way, 0, &f) && handover_take(&way, &f, 1) == 1);
  CHECK(f.ethertype == 0 && dc_frame_ethertype(&f) == DC_ETHERTYPE_HELLO && f.data[DC_ETHER_LEN] == 9);
  buf_unref(f.buf);
}

static void *give_many(void *arg)
{
  (void)arg;
  for (uint32_t n = 0; n < MANY;) {
    if (give_one())
      n++;
    if (n % BURST == 0)
      handover_ring(&way);
  }
  handover_ring(&way);
  return NULL;
}

/* It sleeps without a limit whenever there is nothing: a bell that is missed hangs. */
static void another_thread_s_come_whole_and_in_order(void)
{
  pthread_t t;
  uint32_t until = given + MANY;
  CHECK(pthread_create(&t, NULL, give_many, NULL) == 0);
  while (taken < until) {
    (void)loop_serve(&loop, DC_NEVER);
    for (uint32_t before = taken - 1; before != taken;) {
      before = taken;
      take_some();
    }
  }
  CHECK(pthread_join(t, NULL) == 0 && taken == given);
}

int main(void)
{
  CHECK(loop_open(&loop) == 0 && handover_open(&way, &loop, LONGEST) == 0);
  no_more_than_there_is_room_for();
  one_that_is_lent_keeps_its_slot();
  what_is_too_long_is_refused();
  an_ethertype_beside_the_bytes_comes_in_their_place();
  handover_ring(&way);
  another_thread_s_come_whole_and_in_order();
  handover_close(&way);
  loop_close(&loop);
  puts("frames handed over: ok");
  return 0;
}
