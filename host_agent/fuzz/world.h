/* What the parts of the agent's fuzzer share: the agent itself, and those around it. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "fuzz/script.h"
#include "ops.h"
#include "registrant.h"
#include "signal_tree.h"

enum { PORTS = 2, MTU = 1500, PIECE = 1000, PER_BLOCK = 4, FRAMES = 64, ASKED = 64, FILE_BYTES = 20 * PIECE + 17 };

/* ---- world.c: the agent, its clock, its files and its ports ---- */

extern struct agent {
  struct loop loop;
  struct worker worker, disk;
  struct shards shards; /* one, whose thread is the fuzzer's */
  struct groups groups;
  struct host host;
  struct signalling signalling;
  struct registration registration;
} a;
extern struct forward *const frames; /* of the shard */

extern char own[32], child_addr[32], manager_addr[32]; /* addresses */
extern char source_path[96], dest_path[96];
extern uint8_t content[FILE_BYTES]; /* of the source's file */
extern int child_listen, manager_listen;
extern bool kept; /* some `close` may have left the temporary file */

void set_up(void); /* once */
void clean_folder(void);
/* A round of the loop, and everything that it hands to the worker. */
void turn(void);
/* Time goes on, and every timer on the way comes at its own moment. */
void pass(dc_time how_long);
void hang_up(int *fd);
/* Frames for the next round. */
void arrive(unsigned port, const uint8_t *p, size_t len);
void data_packet(struct script *s, uint8_t op);
void interest(struct script *s, uint8_t op);

/* ---- sides.c: who speaks with it ---- */

struct side {
  int fd;
  size_t have;
  uint8_t in[1 << 16];
};

extern struct side master, child, manager;
extern uint64_t asked[ASKED]; /* ids that a child was asked with */
extern unsigned nasked;
extern unsigned requests, answers; /* on the master's connection */
extern bool sane;                  /* nothing but whole requests was sent on it */

void connect_master(void);
void send_bytes(struct side *s, const void *p, size_t n);
void send_frame(struct side *s, const void *p, size_t n);
void send_json(struct side *s, json_t *m); /* takes it over */
void listen_to_all(void);

/* ---- messages.c: what they say ---- */

json_t *request(struct script *s, uint8_t op);
void child_answers(struct script *s, uint8_t op);
void manager_says(struct script *s, uint8_t op);

#endif
