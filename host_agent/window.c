#include "window.h"

/* Of slower trees than LEAST a window says nothing. */
#define WINDOW_MIN (40 * DC_MS)
#define WINDOW_MAX (400 * DC_MS)
enum { WINDOW_LEAST = 8, WINDOW_PIECES = 24 };

static dc_time length_of(const struct window *w, uint32_t sent)
{
  if (w->before == 0)
    return sent - w->from < WINDOW_LEAST ? WINDOW_MAX : WINDOW_MIN;
  dc_time t = WINDOW_MAX * WINDOW_PIECES / w->before;
  return t < WINDOW_MIN ? WINDOW_MIN : t > WINDOW_MAX ? WINDOW_MAX : t;
}

static bool fell(struct window *w, dc_time now, uint32_t sent, bool dry)
{
  dry = dry || sent < w->from;
  if (!dry && now - w->since < length_of(w, sent))
    return false;
  uint64_t pieces = dry ? 0 : (uint64_t)(sent - w->from) * WINDOW_MAX / (uint64_t)(now - w->since);
  bool less = !dry && w->before >= WINDOW_LEAST && pieces < w->before / 2;
  uint64_t before = dry || less ? 0 : w->before - w->before / 4; /* what falls little by little falls, too */
  if (before < pieces)
    before = pieces < UINT32_MAX ? pieces : UINT32_MAX;
  w->since = now;
  w->from = sent;
  w->before = (uint32_t)before;
  return less;
}

bool window_slowed(struct window *w, dc_time now, uint32_t sent, bool dry, uint32_t bore)
{
  bool bears = bore != w->bore;
  w->bore = bore;
  return fell(w, now, sent, dry) || bears;
}
