/* Whom a child was handed, and what is kept of it. */
#include "below.h"

#include <stdio.h>

#include "datapath/tests/check.h"

static json_t *member(unsigned i)
{
  char name[16];
  snprintf(name, sizeof name, "m%u", i);
  return json_pack("{s:s}", "n", name);
}

static void a_pair_is_known_as_it_was_handed(void)
{
  struct below b = {0};
  json_t *tree = json_pack("{s:s,s:[{s:s},{s:s}]}", "n", "x", "c", "n", "y", "n", "z");
  CHECK(!below_has(&b, "x", "x"));
  below_note(&b, "x", tree);
  below_note(&b, "x", tree);
  CHECK(b.n == 3 && below_has(&b, "x", "x") && below_has(&b, "x", "y") && below_has(&b, "x", "z"));
  CHECK(!below_has(&b, "y", "x") && !below_has(&b, "xy", "") && !below_has(&b, "", "xy") && !below_has(&b, "x", "xy"));
  json_decref(tree);
  below_clear(&b);
  CHECK(b.n == 0 && !below_has(&b, "x", "x"));
}

static void it_has_a_limit(void)
{
  struct below b = {0};
  json_t *tree = json_pack("{s:s,s:[]}", "n", "x", "c");
  for (unsigned i = 1; i < BELOW_MAX; i++)
    json_array_append_new(json_object_get(tree, "c"), member(i));
  below_note(&b, "x", tree);
  CHECK(b.n == BELOW_MAX && below_has(&b, "x", "x") && below_has(&b, "x", "m1"));
  CHECK(b.room == BELOW_MAX);
  json_t *more = member(BELOW_MAX);
  below_note(&b, "x", more);
  CHECK(b.n == 1 && b.room == BELOW_MAX && !below_has(&b, "x", "m1") && below_has(&b, "x", "m32768"));
  json_decref(more);
  json_decref(tree);
  below_clear(&b);
}

int main(void)
{
  a_pair_is_known_as_it_was_handed();
  it_has_a_limit();
  puts("below: ok");
  return 0;
}
