/* Typed reading of YAML: a table says which keys a mapping may have and how each is read. Unknown and repeated keys
 * are refused with the line they stand on. */
#ifndef SWITCH_YAML_READ_H
#define SWITCH_YAML_READ_H

#include <stdint.h>
#include <yaml.h>

#include "failure.h"

struct yaml_file {
  const char *path;
  yaml_document_t doc;
  struct fault *f;
};

typedef int (*yaml_reader)(struct yaml_file *y, yaml_node_t *n, void *out, size_t size);

struct yaml_field {
  const char *key;
  yaml_reader read;
  size_t offset, size; /* of the member in the struct that is filled in */
  bool required;
};

#define YAML_FIELD(key, read, type, member)                                                                            \
  {                                                                                                                    \
    key, read, offsetof(type, member), sizeof(((type *)0)->member), false                                              \
  }
#define YAML_NEEDED(key, read, type, member)                                                                           \
  {                                                                                                                    \
    key, read, offsetof(type, member), sizeof(((type *)0)->member), true                                               \
  }

/* Parse the one document of a file. 0 or -1. After success the caller calls yaml_close. */
int yaml_open(struct yaml_file *y, const char *path, struct fault *f) __attribute__((nonnull));
void yaml_close(struct yaml_file *y) __attribute__((nonnull));

unsigned yaml_line(const yaml_node_t *n) __attribute__((nonnull));
/* "file:line: text" into y->f; -1. */
int yaml_fail(struct yaml_file *y, const yaml_node_t *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), nonnull));

/* Fill `out` from mapping n by the table, which ends with a NULL key. given (may be NULL): set to true per field
 * read. */
int yaml_read_map(struct yaml_file *y, yaml_node_t *n, const char *what, const struct yaml_field *fields, void *out,
                  bool *given) __attribute__((nonnull(1, 2, 3, 4, 5)));

/* Items of a sequence: a zeroed array of n elements of `size` bytes, each filled in by read. At least one item. */
int yaml_read_list(struct yaml_file *y, yaml_node_t *n, const char *what, yaml_reader read, size_t size, void **out,
                   unsigned *count) __attribute__((nonnull));

int yaml_text(struct yaml_file *y, yaml_node_t *n, void *out, size_t size);   /* char[size] */
int yaml_bool(struct yaml_file *y, yaml_node_t *n, void *out, size_t size);   /* bool */
int yaml_number(struct yaml_file *y, yaml_node_t *n, void *out, size_t size); /* uint16_t, uint32_t or uint64_t */
int yaml_bytes(struct yaml_file *y, yaml_node_t *n, void *out, size_t size);  /* the same, with K, M, G (binary) */

#endif
