/* Buffers for the Python binding: bytes in a counted allocation. Part of the extension module only. */
#ifndef DATACAST_PYBUF_H
#define DATACAST_PYBUF_H

#include <stdlib.h>
#include <string.h>

#include "datacast/buf.h"

struct dc_buf {
  size_t refs;
  size_t len;
  uint8_t data[];
};

static size_t pybuf_live; /* buffers not given back yet, for tests */

static dc_buf *pybuf_new(const uint8_t *bytes, size_t len)
{
  dc_buf *b = malloc(sizeof *b + len);
  if (b == NULL)
    return NULL;
  b->refs = 1;
  b->len = len;
  memcpy(b->data, bytes, len);
  pybuf_live++;
  return b;
}

static const uint8_t *pybuf_data(const dc_buf *b) { return b->data; }

static void pybuf_ref(dc_buf *b) { b->refs++; }

static void pybuf_unref(dc_buf *b)
{
  if (--b->refs == 0) {
    free(b);
    pybuf_live--;
  }
}

static size_t pybuf_count(void) { return pybuf_live; }

/* Zeroed without being touched, unlike what ffi.new gives: a node's memory is mostly never used. */
static void *pymem_new(size_t size) { return calloc(1, size); }

static void pymem_free(void *memory) { free(memory); }

static const struct dc_buf_ops *pybuf_ops(void)
{
  static const struct dc_buf_ops ops = {pybuf_ref, pybuf_unref};
  return &ops;
}

#endif
