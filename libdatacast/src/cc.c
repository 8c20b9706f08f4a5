#include "datacast/cc.h"

#include <stddef.h>
#include <string.h>

static const struct dc_cc_ops *const rules[] = {&dc_cc_fair, &dc_cc_datacast};

enum { RULES = sizeof rules / sizeof rules[0] };

const struct dc_cc_ops *dc_cc_find(const char *name)
{
  for (unsigned i = 0; i < RULES; i++)
    if (strcmp(rules[i]->name, name) == 0)
      return rules[i];
  return NULL;
}

const char *dc_cc_name(unsigned i) { return i < RULES ? rules[i]->name : NULL; }
