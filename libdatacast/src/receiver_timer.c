#include "receiver_timer.h"

/* A path may take longer for what is asked for than rto_max: a timer that ended before would ask for every packet twice, and by
 * Karn's rule never learn better. So an answer to what was asked for again tells how long a timer may have to be, though not
 * how long the path is. */
static dc_time longest(const struct receiver_timer *t, const struct dc_receiver_cfg *cfg)
{
  dc_time seen = t->measured && t->srtt > t->late ? t->srtt : t->late;
  return 2 * seen > cfg->rto_max ? 2 * seen : cfg->rto_max;
}

static void sample(struct receiver_timer *t, const struct dc_receiver_cfg *cfg, dc_time rtt)
{
  if (!t->measured) {
    t->srtt = rtt;
    t->rttvar = rtt / 2;
    t->measured = true;
  } else {
    dc_time err = rtt > t->srtt ? rtt - t->srtt : t->srtt - rtt;
    /* Every packet is a sample, many per round trip: the variance falls slower for it (RFC 7323, appendix G). */
    t->rttvar = err > t->rttvar ? (3 * t->rttvar + err) / 4 : (63 * t->rttvar + err) / 64;
    t->srtt = (7 * t->srtt + rtt) / 8;
  }
  /* Over a path that is nearly idle the variance goes to nothing, and then anything would be late. */
  dc_time rto = t->srtt + (4 * t->rttvar > t->srtt / 2 ? 4 * t->rttvar : t->srtt / 2);
  dc_time most = longest(t, cfg);
  t->rto = rto < cfg->rto_min ? cfg->rto_min : rto > most ? most : rto;
}

void timer_answered(struct receiver_timer *t, const struct dc_receiver_cfg *cfg, dc_time late, bool clean)
{
  t->late = late;
  if (clean)
    sample(t, cfg, late);
}

void timer_back_off(struct receiver_timer *t, const struct dc_receiver_cfg *cfg)
{
  dc_time most = longest(t, cfg);
  t->rto = 2 * t->rto < most ? 2 * t->rto : most;
}

void timer_restart(struct receiver_timer *t, const struct dc_receiver_cfg *cfg)
{
  t->measured = false;
  t->late = 0;
  t->rto = cfg->rto_init;
}
