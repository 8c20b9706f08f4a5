/* Files of settings in YAML: one document, for a second one would be read by nobody. */
#ifndef DATAPATH_YAML_ONLY_H
#define DATAPATH_YAML_ONLY_H

#include <yaml.h>

#include "datapath/log.h"

/* The document, which the caller deletes; it may be empty. False with *why, and where: *at. */
bool yaml_only(yaml_parser_t *parser, yaml_document_t *to, yaml_mark_t *at, struct fault *why) __attribute__((nonnull));

#endif
