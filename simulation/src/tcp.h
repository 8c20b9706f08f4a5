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
  /* what had come then, when the last of it came, and when what was acknowledged last was sent */
  uint64_t delivered;
  dc_time delivered_at, first;
  bool limited;
};

struct tcp_sent { /* one sending of a segment */
  dc_time at;
  uint64_t number;
};

/* How fast segments come (draft-cheng-iccrg-delivery-rate-estimation-00), per segment that came. */
struct tcp_rate {
  uint64_t delivered;
  dc_time delivered_at, first; /* as in tcp_out */
  uint64_t limited;            /* samples until so many have come tell less than the path carries; 0: none */
};

struct tcp_sample { /* of the newest of what came at once */
  bool any, limited;
  uint64_t before; /* what had come when it was sent */
  dc_time before_at, sending;
};

/* What is told to a congestion control. */
struct tcp_news {
  uint64_t delivered, lost; /* now */
  uint64_t pipe;            /* on its way before */
  bool moved;               /* the first that has not come is another */
  struct tcp_sample sample;
};

/* A congestion control: what sets `cwnd` and, if it paces, `pace` and `burst`. */
struct tcp_control {
  const char *name;
  void (*start)(struct tcp *f);
  void (*hear)(struct tcp *f, dc_time now, const struct tcp_news *n);
  /* Losses were found (TCP_RECOVERY), or nothing came for too long (TCP_TIMEOUT). `again`: what was on its way had been
   * cut before. */
  void (*cut)(struct tcp *f, bool again);
  void (*healed)(struct tcp *f); /* all that was on its way then has come */
};

enum { BBR_WINDOW = 10 }; /* rounds for which a rate is remembered */

enum bbr_mode { BBR_STARTUP, BBR_DRAIN, BBR_PROBE_BW, BBR_PROBE_RTT };

struct tcp_bbr {
  enum bbr_mode mode;
  double bw[BBR_WINDOW + 1]; /* segments per second, the most of each round */
  uint64_t rounds, newest;   /* of all; the one of the newest rate */
  uint64_t round;            /* ends when a segment comes that was sent after so many had come */
  bool turned;               /* a round has ended just now */
  double full;               /* the most of rounds that each brought a quarter more */
  unsigned plateau;          /* rounds since */
  bool filled;
  dc_time min_rtt, min_at;
  unsigned phase; /* of PROBE_BW */
  dc_time phase_at;
  dc_time dip_end; /* of PROBE_RTT, 0: not down yet */
  bool dip_round;
  double prior; /* cwnd to come back to */
  bool timed;   /* a round trip is known */
  bool conserve;
};

struct tcp_window { /* Cubic or Reno */
  bool cubic;
  double ssthresh;
  double w_max, w_est, k; /* Cubic's */
  dc_time epoch;
  /* HyStart++: shortest round trips of the round before, of this one, when it became slow */
  dc_time before, least, slow;
  unsigned samples, rounds;
  uint64_t round;
  uint64_t prr_delivered, prr_sent, prr_from; /* since the recovery began: come, `sent_end` then, on its way then */
};

struct tcp {
  int *path, *back;
  int links, back_links;
  uint32_t segment;
  dc_time start, stop, armed;
  /* sender */
  const struct tcp_control *control;
  union {
    struct tcp_window w;
    struct tcp_bbr bbr;
  };
  struct tcp_rate rate;
  double cwnd;
  double pace;    /* segments per second; 0: as acknowledgements come */
  uint64_t burst; /* so many leave at once */
  dc_time due;    /* the next ones */
  enum tcp_state state;
  uint64_t una, next, recover;
  uint64_t sacked, lost; /* of una to next */
  uint64_t hole;         /* nothing below it is lost */
  uint64_t newest;       /* RACK: of all that came the segment that was sent last */
  dc_time newest_at, newest_rtt;
  dc_time reorder; /* until then what seems lost may still come */
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

extern const struct tcp_control tcp_newreno, tcp_cubic; /* tcp_window.c */
extern const struct tcp_control tcp_bbr;                /* tcp_bbr.c */

/* tcp_rate.c */
void tcp_rate_sent(struct tcp *f, dc_time now, struct tcp_out *o);
void tcp_rate_came(struct tcp *f, dc_time now, const struct tcp_out *o, struct tcp_sample *s);
/* Segments per second, 0 where nothing is known. */
double tcp_rate_of(const struct tcp *f, const struct tcp_sample *s);

/* tcp_recovery.c */
uint64_t tcp_pipe(const struct tcp *f);
void tcp_note(struct tcp *f, dc_time now, uint64_t number);
/* The next to send: what was lost first. */
uint64_t tcp_pick(struct tcp *f);
/* Says how many segments are known to have come by it, and how fast. */
void tcp_take(struct tcp *f, dc_time now, const struct tcp_segment *ack, struct tcp_news *n);
/* Returns how many are lost that were not before. */
uint64_t tcp_find_lost(struct tcp *f, dc_time now);
void tcp_time_out(struct tcp *f);

#endif
