/* What the fuzzers share: an input read as a script of events, and a check that ends the run. */
#ifndef FUZZ_SCRIPT_H
#define FUZZ_SCRIPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                          \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

struct script {
  const uint8_t *p, *end;
};

/* The next byte, 0 behind the end. */
static inline uint8_t next(struct script *s) { return s->p < s->end ? *s->p++ : 0; }

static inline uint16_t next16(struct script *s)
{
  uint16_t high = next(s);
  return (uint16_t)(high << 8 | next(s));
}

/* A pause: mostly short, sometimes very long (16 us to 8 s). */
static inline uint64_t span(struct script *s)
{
  uint8_t b = next(s);
  return (uint64_t)((b & 15) + 1) << (14 + (b >> 4) % 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

#endif
