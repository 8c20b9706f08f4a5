#include "spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256, WORDS = 8, LINES_MAX = 512, FIELDS_MAX = 64, ACTIONS_MAX = 32 };

struct reader {
  FILE *file;
  const char *path;
  unsigned number;
  char line[LINE];  /* as it stands, without blanks at its ends */
  char parts[LINE]; /* its words */
  char *word[WORDS];
  unsigned words;
};

static int bad(const struct reader *r, const char *why)
{
  fprintf(stderr, "datacast-swx: %s:%u: %s: %s\n", r->path, r->number, why, r->line);
  return -EINVAL;
}

/* The next line that says something. */
static bool next(struct reader *r)
{
  char raw[LINE];
  while (fgets(raw, sizeof raw, r->file) != NULL) {
    r->number++;
    char *begin = raw, *end = raw + strlen(raw);
    while (isspace((unsigned char)*begin))
      begin++;
    while (end > begin && isspace((unsigned char)end[-1]))
      *--end = '\0';
    if (*begin == '\0')
      continue;
    memcpy(r->line, begin, strlen(begin) + 1);
    memcpy(r->parts, r->line, sizeof r->parts);
    char *save = NULL;
    r->words = 0;
    for (char *w = strtok_r(r->parts, " \t", &save); w != NULL && r->words < WORDS; w = strtok_r(NULL, " \t", &save))
      r->word[r->words++] = w;
    return true;
  }
  return false;
}

static bool is(const struct reader *r, unsigned i, const char *text)
{
  return i < r->words && strcmp(r->word[i], text) == 0;
}

static char *kept(const char *text)
{
  char *copy = strdup(text);
  if (copy == NULL)
    abort();
  return copy;
}

/* `bit<W> name` lines up to `}`. The library copies what it is given. */
static int read_struct(struct rte_swx_pipeline *p, struct reader *r, const char *name)
{
  struct rte_swx_field_params field[FIELDS_MAX];
  uint32_t n = 0;
  while (next(r) && !is(r, 0, "}")) {
    unsigned bits = 0;
    if (r->words != 2 || n == FIELDS_MAX || sscanf(r->word[0], "bit<%u>", &bits) != 1)
      return bad(r, "no field");
    field[n].name = kept(r->word[1]);
    field[n++].n_bits = bits;
  }
  int rc = n == 0 ? 0 : rte_swx_pipeline_struct_type_register(p, name, field, n, 0);
  while (n > 0)
    free((void *)(uintptr_t)field[--n].name);
  return rc;
}

/* Instructions up to `}`; with `name` an action's, without the pipeline's own. */
static int read_instructions(struct rte_swx_pipeline *p, struct reader *r, const char *name, const char *args)
{
  const char *line[LINES_MAX];
  uint32_t n = 0;
  while (next(r) && !is(r, 0, "}")) {
    if (n == LINES_MAX)
      return bad(r, "too many instructions");
    line[n++] = kept(r->line);
  }
  int rc = name != NULL ? rte_swx_pipeline_action_config(p, name, args, line, n)
                        : rte_swx_pipeline_instructions_config(p, line, n);
  while (n > 0)
    free((void *)(uintptr_t)line[--n]);
  return rc;
}

static int read_table(struct rte_swx_pipeline *p, struct reader *r, const char *name)
{
  struct rte_swx_match_field_params key[FIELDS_MAX];
  const char *action[ACTIONS_MAX];
  struct rte_swx_pipeline_table_params t = {.fields = key, .action_names = action};
  uint32_t size = 0;
  while (next(r) && !is(r, 0, "}")) {
    if (is(r, 0, "key")) {
      while (next(r) && !is(r, 0, "}")) {
        if (!is(r, 1, "exact") || t.n_fields == FIELDS_MAX)
          return bad(r, "only exact matches are known");
        key[t.n_fields].name = kept(r->word[0]);
        key[t.n_fields++].match_type = RTE_SWX_TABLE_MATCH_EXACT;
      }
    } else if (is(r, 0, "actions")) {
      while (next(r) && !is(r, 0, "}")) {
        if (t.n_actions == ACTIONS_MAX)
          return bad(r, "too many actions");
        action[t.n_actions++] = kept(r->word[0]);
      }
    } else if (is(r, 0, "default_action") && is(r, 2, "args") && is(r, 3, "none")) {
      t.default_action_name = kept(r->word[1]);
      t.default_action_is_const = is(r, 4, "const");
    } else if (is(r, 0, "size") && r->words == 2) {
      size = (uint32_t)strtoul(r->word[1], NULL, 0);
    } else {
      return bad(r, "not known in a table");
    }
  }
  return rte_swx_pipeline_table_config(p, name, &t, NULL, NULL, size);
}

static int statement(struct rte_swx_pipeline *p, struct reader *r)
{
  char name[LINE], args[LINE];
  snprintf(name, sizeof name, "%s", r->words > 1 ? r->word[1] : "");
  if (is(r, 0, "struct") && is(r, 2, "{"))
    return read_struct(p, r, name);
  if (is(r, 0, "header") && is(r, 2, "instanceof") && r->words == 4)
    return rte_swx_pipeline_packet_header_register(p, name, r->word[3]);
  if (is(r, 0, "metadata") && is(r, 1, "instanceof") && r->words == 3)
    return rte_swx_pipeline_packet_metadata_register(p, r->word[2]);
  if (is(r, 0, "regarray") && is(r, 2, "size") && r->words == 6)
    return rte_swx_pipeline_regarray_config(p, name, (uint32_t)strtoul(r->word[3], NULL, 0),
                                            strtoull(r->word[5], NULL, 0));
  if (is(r, 0, "action") && is(r, 2, "args")) {
    bool some = is(r, 3, "instanceof") && r->words == 6;
    snprintf(args, sizeof args, "%s", some ? r->word[4] : "");
    return read_instructions(p, r, name, some ? args : NULL);
  }
  if (is(r, 0, "table") && is(r, 2, "{"))
    return read_table(p, r, name);
  if (is(r, 0, "apply"))
    return read_instructions(p, r, NULL, NULL);
  return bad(r, "not known");
}

int spec_load(struct rte_swx_pipeline *p, const char *path)
{
  struct reader r = {.file = fopen(path, "r"), .path = path};
  if (r.file == NULL) {
    fprintf(stderr, "datacast-swx: cannot read %s: %s; `make p4` writes it\n", path, strerror(errno));
    return -errno;
  }
  int rc = 0;
  while (rc == 0 && next(&r)) {
    rc = statement(p, &r);
    if (rc != 0)
      fprintf(stderr, "datacast-swx: %s:%u: refused: %s\n", path, r.number, strerror(-rc));
  }
  fclose(r.file);
  return rc;
}
