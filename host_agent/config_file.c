#include "config_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/yaml_only.h"

struct reader {
  const char *path;
  const struct option *known;
  char **argv;
  int n;
};

static int wrong(const struct reader *r, yaml_mark_t at, const char *name, const char *what)
{
  fprintf(stderr, "datacast-agent: %s, line %zu: %s%s%s\n", r->path, at.line + 1, name, *name ? ": " : "", what);
  return -1;
}

static int add(struct reader *r, const yaml_node_t *node, const char *name, const char *value)
{
  if (r->n == CONFIG_ARGS_MAX)
    return wrong(r, node->start_mark, name, "too many options");
  size_t size = strlen(name) + strlen(value) + 4;
  char *arg = malloc(size);
  if (arg == NULL)
    return wrong(r, node->start_mark, name, "out of memory");
  snprintf(arg, size, *value ? "--%s=%s" : "--%s", name, value);
  r->argv[r->n++] = arg;
  return 0;
}

static const char *text_of(const yaml_node_t *node)
{
  const char *text = (const char *)node->data.scalar.value;
  return node->type == YAML_SCALAR_NODE && *text != '\0' && strlen(text) == node->data.scalar.length ? text : NULL;
}

static int take(struct reader *r, yaml_document_t *doc, const struct option *option, const yaml_node_t *value)
{
  if (option->has_arg == no_argument) {
    const char *text = text_of(value);
    if (text == NULL || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
      return wrong(r, value->start_mark, option->name, "wanted true or false");
    return strcmp(text, "true") == 0 ? add(r, value, option->name, "") : 0;
  }
  if (value->type == YAML_SEQUENCE_NODE) {
    for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++) {
      const yaml_node_t *item = yaml_document_get_node(doc, *i);
      const char *text = item != NULL ? text_of(item) : NULL;
      if (text == NULL)
        return wrong(r, item != NULL ? item->start_mark : value->start_mark, option->name, "wanted a list of values");
      if (add(r, item, option->name, text) < 0)
        return -1;
    }
    return 0;
  }
  const char *text = text_of(value);
  return text != NULL ? add(r, value, option->name, text)
                      : wrong(r, value->start_mark, option->name, "wanted a value or a list of them");
}

static const struct option *find(const struct option *known, const char *name)
{
  for (; known->name != NULL; known++)
    if (strcmp(known->name, name) == 0)
      return known;
  return NULL;
}

static int walk(struct reader *r, yaml_document_t *doc)
{
  yaml_node_t *root = yaml_document_get_root_node(doc);
  if (root == NULL)
    return 0;
  if (root->type != YAML_MAPPING_NODE)
    return wrong(r, root->start_mark, "", "wanted lines such as node: \"00\"");
  const yaml_node_pair_t *from = root->data.mapping.pairs.start, *end = root->data.mapping.pairs.top;
  for (const yaml_node_pair_t *p = from; p < end; p++) {
    const yaml_node_t *key = yaml_document_get_node(doc, p->key), *value = yaml_document_get_node(doc, p->value);
    const char *name = text_of(key);
    const struct option *option = name != NULL ? find(r->known, name) : NULL;
    if (option == NULL)
      return wrong(r, key->start_mark, name != NULL ? name : "", "there is no such option (datacast-agent --help)");
    for (const yaml_node_pair_t *q = from; q < p; q++) {
      const char *before = text_of(yaml_document_get_node(doc, q->key));
      if (before != NULL && strcmp(before, name) == 0)
        return wrong(r, key->start_mark, name, "this option was given already");
    }
    if (take(r, doc, option, value) < 0)
      return -1;
  }
  return 0;
}

int config_file_read(const char *path, const struct option *known, char *argv[CONFIG_ARGS_MAX + 1])
{
  static char name[] = "datacast-agent";
  struct reader r = {.path = path, .known = known, .argv = argv};
  argv[r.n++] = name;
  FILE *in = fopen(path, "re");
  if (in == NULL) {
    fprintf(stderr, "datacast-agent: %s: %s\n", path, strerror(errno));
    return -1;
  }
  char *text = malloc(CONFIG_BYTES_MAX);
  size_t len = text != NULL ? fread(text, 1, CONFIG_BYTES_MAX, in) : 0;
  int whole = text != NULL && len < CONFIG_BYTES_MAX && !ferror(in);
  fclose(in);
  yaml_parser_t parser;
  if (!whole || !yaml_parser_initialize(&parser)) {
    fprintf(stderr, "datacast-agent: %s cannot be read, or is too large\n", path);
    free(text);
    return -1;
  }
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
  yaml_document_t doc;
  yaml_mark_t at;
  struct fault why;
  int result;
  if (yaml_only(&parser, &doc, &at, &why)) {
    result = walk(&r, &doc);
    yaml_document_delete(&doc);
  } else
    result = wrong(&r, at, "", why.text);
  yaml_parser_delete(&parser);
  free(text);
  argv[r.n] = NULL;
  return result < 0 ? -1 : r.n;
}
