#include "datapath/yaml_only.h"

static bool load(yaml_parser_t *parser, yaml_document_t *to, yaml_mark_t *at, struct fault *why)
{
  if (yaml_parser_load(parser, to))
    return true;
  *at = parser->problem_mark;
  return fault_set(why, "bad_request", "not YAML: %s", parser->problem != NULL ? parser->problem : "unreadable");
}

bool yaml_only(yaml_parser_t *parser, yaml_document_t *to, yaml_mark_t *at, struct fault *why)
{
  yaml_document_t more;
  if (!load(parser, to, at, why))
    return false;
  bool only = load(parser, &more, at, why);
  if (only) {
    const yaml_node_t *root = yaml_document_get_root_node(&more);
    if (root != NULL) {
      *at = root->start_mark;
      only = fault_set(why, "bad_request", "a second document begins before this: take out its \"---\"");
    }
    yaml_document_delete(&more);
  }
  if (!only)
    yaml_document_delete(to);
  return only;
}
