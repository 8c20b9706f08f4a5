/* A copy for another core, which reads it next. Written past this core's caches: what it overwrites is in the other one's, and to fetch
 * that first, as an ordinary store does, costs up to three times the copy (docs/decisions/data-path-costs.md). */
#ifndef DATAPATH_COPY_AWAY_H
#define DATAPATH_COPY_AWAY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* gcc's see no such store */
#include <emmintrin.h>

enum { COPY_AWAY_LEAST = 1024, COPY_AWAY_LINE = 64 };

/* copied_away comes before anybody is told. */
static inline void copy_away(uint8_t *to, const uint8_t *from, size_t n)
{
  size_t at = n < COPY_AWAY_LEAST ? n : -(uintptr_t)to % COPY_AWAY_LINE;
  memcpy(to, from, at);
  for (; n - at >= COPY_AWAY_LINE; at += COPY_AWAY_LINE)
    for (unsigned k = 0; k < COPY_AWAY_LINE; k += sizeof(__m128i))
      _mm_stream_si128((__m128i *)(void *)(to + at + k),
                       _mm_loadu_si128((const __m128i *)(const void *)(from + at + k)));
  memcpy(to + at, from + at, n - at);
}

static inline void copied_away(void) { _mm_sfence(); }

#else

static inline void copy_away(uint8_t *to, const uint8_t *from, size_t n) { memcpy(to, from, n); }
static inline void copied_away(void) {}

#endif
#endif
