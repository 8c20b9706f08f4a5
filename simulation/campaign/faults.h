/* Faults of a campaign. Each begins when the transfer has got to a certain point, where something is still missing, and
 * lasts a while; several may lie on one link, and the end of one leaves the others as they are. */
#ifndef DATACAST_CAMPAIGN_FAULTS_H
#define DATACAST_CAMPAIGN_FAULTS_H

#include "world.h"

enum kind { LOSS, REPEAT, REORDER, CORRUPT, SPIKE, DOWN, SLOW, WIPE, RESTART, KILL, PAUSE, LATE, KINDS };
enum { FAULTS = 12 };

struct fault {
  enum kind kind;
  uint64_t point; /* pieces that the receiver which is furthest behind has when it begins */
  uint64_t lasts, until;
  int where; /* link, vertex, receiver or tree */
  uint32_t ppb;
  bool beside; /* where the one before it is */
  bool begun, ended;
};

struct faults {
  struct fault fault[FAULTS];
  int n, last;          /* the one that began last */
  int active, together; /* now; most at a time */
};

void faults_plan(struct world *w, struct faults *f);
/* Those whose time has come; `behind`: pieces of the receiver furthest behind. */
void faults_begin(struct world *w, struct faults *f, uint64_t behind, bool trace);
/* When the next one ends, UINT64_MAX when none is active, and its end. */
uint64_t faults_next_end(const struct faults *f);
void faults_end(struct world *w, struct faults *f, bool trace);
bool faults_over(const struct faults *f);

#endif
