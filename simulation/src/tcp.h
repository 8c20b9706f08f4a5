/* TCP for the sake of company (the paper's Figure 13b), as kernels of now run it. Counted in segments; a segment takes
 * `segment` bytes on the wire. There is always more to send. */
#ifndef DATACAST_SIM_TCP_H
#define DATACAST_SIM_TCP_H

#include "engine.h"

enum { TCP_AHEAD = 1 << 14 }; /* segments that may be on their way */

#define TCP_TICK (8 * DC_MS) /* two jiffies at 250 Hz: no timer of Linux is shorter */

enum tcp_state { TCP_OPEN, TCP_RECOVERY, TCP_TIMEOUT };

enum tcp_mark { TCP_SENT, TCP_SACKED, TCP_LOST }; /* lost: and not sent again yet */

struct tcp_out { /* a segment on its way */
  dc_time at;    /* when it was last sent */
  enum tcp_mark mark;
  bool again;
};

struct tcp_sent { /* one sending of a segment */
  dc_time at;
  uint64_t number;
};

struct tcp_window {
  bool cubic;
  double cwnd, ssthresh;
  double w_max, w_est, k; /* Cubic's */
  dc_time epoch;
  /* HyStart++: shortest round trips of the round before, of this one, when it became slow */
  dc_time before, least, slow;
  unsigned samples, rounds;
  uint64_t round;
};

struct tcp {
  int *path, *back;
  int links, back_links;
  uint32_t segment;
  dc_time start, stop, armed;
  /* sender */
  struct tcp_window w;
  enum tcp_state state;
  uint64_t una, next, recover;
  uint64_t sacked, lost; /* of una to next */
  uint64_t hole;         /* nothing below it is lost */
  uint64_t newest;       /* RACK: of all that came the segment that was sent last */
  dc_time newest_at, newest_rtt;
  dc_time reorder;                           /* until then what seems lost may still come */
  uint64_t prr_delivered, prr_out, prr_from; /* since the recovery began; what was on its way then */
  uint64_t probe_end;
  dc_time sample, srtt, rttvar, rtt_min; /* 0: none */
  dc_time since;                         /* timers count from then: the last progress */
  unsigned backoff;
  struct tcp_out out[TCP_AHEAD];
  struct tcp_sent sent[2 * TCP_AHEAD]; /* in order of time, some of it overtaken */
  uint64_t sent_first, sent_end;
  /* receiver */
  uint64_t expected;
  uint32_t run[TCP_AHEAD]; /* of what came early; at both ends of a run its length */
};

/* In the bytes of a packet. */
struct tcp_segment {
  uint64_t number;       /* of the segment, or the next one expected */
  uint64_t block, after; /* of an acknowledgement: the block of RFC 2018 in which the newest stands */
  uint32_t flow, hop;    /* the connection, links passed */
  bool ack;
};

/* tcp_window.c */
void tcp_window_start(struct tcp_window *w, bool cubic);
/* So many more have come. */
void tcp_window_open(struct tcp *f, dc_time now, uint64_t delivered);
void tcp_window_cut(struct tcp_window *w);

/* tcp_recovery.c */
uint64_t tcp_pipe(const struct tcp *f);
void tcp_note(struct tcp *f, dc_time now, uint64_t number);
/* The next to send: what was lost first. */
uint64_t tcp_pick(struct tcp *f);
/* Returns how many segments are known to have come by it. */
uint64_t tcp_take(struct tcp *f, dc_time now, const struct tcp_segment *ack);
/* Returns how many are lost that were not before. */
uint64_t tcp_find_lost(struct tcp *f, dc_time now);
void tcp_recover(struct tcp *f, uint64_t delivered, bool safe);
void tcp_time_out(struct tcp *f);

#endif
