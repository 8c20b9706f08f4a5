/* Groups this host takes part in: what is common to all roles. */
#ifndef AGENT_GROUP_H
#define AGENT_GROUP_H

#include "below.h"
#include "epochs.h"
#include "host.h"
#include "left.h"
#include "params.h"

enum role { ROLE_RELAY, ROLE_SOURCE, ROLE_RECEIVER };
enum group_state { GROUP_RUNNING, GROUP_DONE, GROUP_FAILED };

struct source;
struct source_file;
struct receiver;
struct fetching;
struct conn;

struct group {
  struct groups *all;
  struct group *next;
  char id[NAME_MAX_LEN + 1];
  enum role role;
  enum group_state state;
  struct fault fault; /* GROUP_FAILED */
  struct dc_layout layout;
  bool bundle;  /* a directory's stream: receivers make the directory of it */
  bool expects; /* the whole file's SHA-256 must be this */
  uint8_t sha256[SHA256_LEN];
  char stamp[STAMP_MAX_LEN + 1]; /* names the source's file as it is now; "": not known */
  uint64_t lease_ms;
  struct timer lease;
  bool unheard;              /* its lease has ended; a receiver waits for the next master a while longer */
  uint64_t epoch;            /* of the latest master that has spoken */
  struct conn *parent;       /* where events go; NULL when it is gone */
  struct below below;        /* whom `parent` has each child handed: of these it may tell events */
  struct source *source;     /* its trees begin here */
  struct source_file *local; /* the file that it has from the beginning */
  struct receiver *receiver;
  struct fetching *fetching;      /* what it fetches from an origin */
  uint64_t had_n;                 /* number of the last assign, cut or digest applied */
  size_t had_rows;                /* of the assign that follows, applied before a tree had no room for more */
  uint64_t routed_n;              /* and of the last open or reroute */
  uint64_t rates_n;               /* and of the last rates */
  uint64_t t_first_ns, t_done_ns; /* realtime; 0: not yet */
};

struct groups {
  struct host *host;
  struct group *first;
  uint32_t n, limit, trees;
  struct epochs epochs;                                    /* of groups that are closed */
  struct left left;                                        /* of groups that an agent before this one had */
  void (*emit)(void *arg, struct group *g, json_t *event); /* borrows event */
  void *arg;
};

void groups_init(struct groups *all, struct host *host, uint32_t limit) __attribute__((nonnull));
void groups_close(struct groups *all) __attribute__((nonnull));

struct group *group_find(const struct groups *all, const char *id) __attribute__((nonnull));
/* A request of a master of `epoch` for the group `id`, `g` when it is open here. An earlier master's is refused (`stale`);
 * with a later one all that has numbers is numbered anew, and who asks hears the group's events. */
bool group_epoch(struct groups *all, struct group *g, const char *id, uint64_t epoch, struct fault *why)
    __attribute__((nonnull(1, 3, 5)));
/* The group was named by a request. */
void group_renew(struct group *g) __attribute__((nonnull));
/* When nobody hears the group's events any more (the connection they went over is gone), `from` does from now on, and
 * is told what may have been missed. */
void group_adopt(struct group *g, struct conn *from) __attribute__((nonnull));
void group_close(struct group *g, const char *reason, bool keep) __attribute__((nonnull));

/* `open`: create or update. False with *why. One whose `n` is lower than that of the last `open` or `reroute`, or that is late
 * for a group that was closed since, is refused (`overtaken`) and changes nothing. */
bool group_open(struct groups *all, const char *id, const json_t *whole, const json_t *part, struct conn *parent,
                struct fault *why) __attribute__((nonnull(1, 2, 3, 6)));
/* `assign`, `digest`, `cut`: the argument is the message's `all`. Its `n` numbers them: one that was applied already
 * changes nothing, one out of turn is refused (`gap`). */
enum group_order { GROUP_ASSIGN, GROUP_DIGEST, GROUP_CUT };
bool group_order(struct group *g, enum group_order what, const json_t *whole, struct fault *why)
    __attribute__((nonnull));
/* `reroute`: the message's `all` and the own part; numbered with `open`. */
bool group_reroute(struct group *g, const json_t *whole, const json_t *part, struct fault *why)
    __attribute__((nonnull(1, 2, 4)));
/* `rates`: the message's `all`. Nothing for who is no source, and for an `n` lower than that of the last one. */
bool group_rates(struct group *g, const json_t *whole, struct fault *why) __attribute__((nonnull));
json_t *group_status(struct group *g) __attribute__((nonnull)); /* a new reference */

/* For the roles: tell the master; `fields` (stolen, may be NULL) joins the event. */
void group_event(struct group *g, const char *event, json_t *fields) __attribute__((nonnull(1, 2)));
/* This member is out: endpoints stop, the master hears why. */
void group_fail(struct group *g, const struct fault *why) __attribute__((nonnull));
void group_first(struct group *g, uint64_t t_ns) __attribute__((nonnull)); /* data packet of a tree, told once */

#endif
