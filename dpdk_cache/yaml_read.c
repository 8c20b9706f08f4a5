#include "yaml_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/yaml_only.h"

int yaml_open(struct yaml_file *y, const char *path, struct fault *f)
{
  y->path = path;
  y->f = f;
  FILE *in = fopen(path, "re");
  if (in == NULL)
    return fail(f, "cannot read configuration %s: %s", path, strerror(errno));
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) {
    fclose(in);
    return fail(f, "out of memory");
  }
  yaml_parser_set_input_file(&parser, in);
  struct fault why;
  yaml_mark_t at;
  bool ok = yaml_only(&parser, &y->doc, &at, &why);
  yaml_parser_delete(&parser);
  fclose(in);
  if (!ok)
    return fail(f, "%s:%zu: %s", path, at.line + 1, why.text);
  if (yaml_document_get_root_node(&y->doc) == NULL) {
    yaml_document_delete(&y->doc);
    return fail(f, "%s: the configuration is empty", path);
  }
  return 0;
}

void yaml_close(struct yaml_file *y) { yaml_document_delete(&y->doc); }

unsigned yaml_line(const yaml_node_t *n) { return (unsigned)n->start_mark.line + 1; }

int yaml_fail(struct yaml_file *y, const yaml_node_t *n, const char *fmt, ...)
{
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return fail(y->f, "%s:%u: %s", y->path, yaml_line(n), text);
}

static int unknown_key(struct yaml_file *y, const yaml_node_t *key, const char *what, const struct yaml_field *fields)
{
  char known[256] = "";
  size_t used = 0;
  for (const struct yaml_field *x = fields; x->key != NULL && used < sizeof known; x++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", x == fields ? "" : ", ", x->key);
  return yaml_fail(y, key, "unknown key '%s' in %s; known: %s", (const char *)key->data.scalar.value, what, known);
}

int yaml_read_map(struct yaml_file *y, yaml_node_t *n, const char *what, const struct yaml_field *fields, void *out,
                  bool *given)
{
  bool seen[32] = {false};
  if (n->type != YAML_MAPPING_NODE)
    return yaml_fail(y, n, "%s must be a mapping (key: value)", what);
  for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
    yaml_node_t *key = yaml_document_get_node(&y->doc, p->key), *value = yaml_document_get_node(&y->doc, p->value);
    if (key->type != YAML_SCALAR_NODE)
      return yaml_fail(y, key, "a key of %s must be a word", what);
    unsigned i = 0;
    while (fields[i].key != NULL && strcmp(fields[i].key, (const char *)key->data.scalar.value) != 0)
      i++;
    if (fields[i].key == NULL)
      return unknown_key(y, key, what, fields);
    if (seen[i])
      return yaml_fail(y, key, "key '%s' stands twice in %s", fields[i].key, what);
    seen[i] = true;
    if (fields[i].read(y, value, (char *)out + fields[i].offset, fields[i].size) < 0)
      return -1;
  }
  for (unsigned i = 0; fields[i].key != NULL; i++) {
    if (fields[i].required && !seen[i])
      return yaml_fail(y, n, "%s lacks '%s'", what, fields[i].key);
    if (given != NULL)
      given[i] = seen[i];
  }
  return 0;
}

int yaml_read_list(struct yaml_file *y, yaml_node_t *n, const char *what, yaml_reader read, size_t size, void **out,
                   unsigned *count)
{
  if (n->type != YAML_SEQUENCE_NODE)
    return yaml_fail(y, n, "%s must be a list", what);
  yaml_node_item_t *first = n->data.sequence.items.start;
  size_t items = (size_t)(n->data.sequence.items.top - first);
  if (items == 0)
    return yaml_fail(y, n, "%s is empty", what);
  char *array = calloc(items, size);
  if (array == NULL)
    return yaml_fail(y, n, "out of memory");
  *out = array; /* the caller frees what is there, whole or not */
  *count = (unsigned)items;
  for (size_t i = 0; i < items; i++)
    if (read(y, yaml_document_get_node(&y->doc, first[i]), array + i * size, size) < 0)
      return -1;
  return 0;
}

static const char *scalar(struct yaml_file *y, yaml_node_t *n)
{
  if (n->type == YAML_SCALAR_NODE)
    return (const char *)n->data.scalar.value;
  yaml_fail(y, n, "expected one value here");
  return NULL;
}

int yaml_text(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  const char *s = scalar(y, n);
  if (s == NULL)
    return -1;
  if (strlen(s) >= size)
    return yaml_fail(y, n, "'%s' is too long (at most %zu characters)", s, size - 1);
  memcpy(out, s, strlen(s) + 1);
  return 0;
}

int yaml_bool(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  (void)size;
  const char *s = scalar(y, n);
  if (s == NULL)
    return -1;
  bool yes = strcmp(s, "true") == 0 || strcmp(s, "yes") == 0;
  if (!yes && strcmp(s, "false") != 0 && strcmp(s, "no") != 0)
    return yaml_fail(y, n, "'%s' is neither true nor false", s);
  *(bool *)out = yes;
  return 0;
}

static int number(struct yaml_file *y, yaml_node_t *n, void *out, size_t size, bool suffix)
{
  const char *s = scalar(y, n);
  if (s == NULL)
    return -1;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(s, &end, 10);
  bool ok = *s >= '0' && *s <= '9' && errno == 0;
  unsigned shift = 0;
  if (ok && suffix && *end != '\0') {
    shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    ok = shift != 0 && end[1] == '\0';
  } else if (*end != '\0') {
    ok = false;
  }
  unsigned long long most = size == 2 ? UINT16_MAX : size == 4 ? UINT32_MAX : UINT64_MAX;
  if (!ok)
    return yaml_fail(y, n, "'%s' is not a number%s", s, suffix ? " of bytes (such as 4096, 128K, 4M, 1G)" : "");
  if (v > most >> shift)
    return yaml_fail(y, n, "%s is too large (at most %llu)", s, most);
  v <<= shift;
  if (size == 2)
    *(uint16_t *)out = (uint16_t)v;
  else if (size == 4)
    *(uint32_t *)out = (uint32_t)v;
  else
    *(uint64_t *)out = v;
  return 0;
}

int yaml_number(struct yaml_file *y, yaml_node_t *n, void *out, size_t size) { return number(y, n, out, size, false); }

int yaml_bytes(struct yaml_file *y, yaml_node_t *n, void *out, size_t size) { return number(y, n, out, size, true); }
