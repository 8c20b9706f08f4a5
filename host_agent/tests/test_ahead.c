/* Blocks that are kept until they are sent: within their room, used again, and gone with their last owner. */
#include "ahead.h"

#include <string.h>

#include "datapath/tests/check.h"

static const struct dc_layout layout = {.size = 100000, .piece = 1000, .per_block = 4};

static size_t of_one(void)
{
  size_t room = 1 << 20;
  struct ahead *a = ahead_new(&room, &layout);
  ahead_unref(ahead_take(a));
  size_t left = room;
  ahead_close(a);
  CHECK(room == 1 << 20);
  return room - left;
}

static void no_more_blocks_than_there_is_room_for(void)
{
  size_t room = 2 * of_one() + 1;
  struct ahead *a = ahead_new(&room, &layout), *b = ahead_new(&room, &layout);
  struct ahead_block *one = ahead_take(a), *two = ahead_take(b);
  CHECK(one != NULL && two != NULL && ahead_take(a) == NULL && room == 1);
  ahead_unref(one);
  CHECK(ahead_take(b) == NULL && ahead_take(a) == one); /* it is this file's until that one is closed */
  ahead_unref(one);
  ahead_close(a);
  struct ahead_block *three = ahead_take(b);
  CHECK(three != NULL);
  ahead_unref(two);
  ahead_unref(three);
  ahead_close(b);
  CHECK(room == 2 * of_one() + 1);
}

static void a_piece_holds_its_block_as_long_as_somebody_sends_it(void)
{
  size_t room = 1 << 20;
  struct ahead *a = ahead_new(&room, &layout);
  struct ahead_block *b = ahead_take(a);
  memset(b->bytes + 2000, 7, 1000);
  struct dc_buf *p = ahead_piece(b, 2), *again = ahead_piece(b, 2), *last = ahead_piece(b, 3);
  CHECK(p == again && p->data == b->bytes + 2000 && last->data == b->bytes + 3000 && p->stays);
  ahead_unref(b); /* the tree has passed it */
  struct ahead_block *other = ahead_take(a);
  CHECK(other != b);
  buf_unref(p);
  buf_unref(last);
  ahead_close(a);
  CHECK(p->data[0] == 7 && p->data[999] == 7 && room < 1 << 20);
  buf_unref(again);
  ahead_unref(other);
  CHECK(room == 1 << 20);
}

int main(void)
{
  no_more_blocks_than_there_is_room_for();
  a_piece_holds_its_block_as_long_as_somebody_sends_it();
  return 0;
}
