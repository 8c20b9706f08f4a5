/* The control socket: a Unix stream socket of mode 0600; one JSON request per line, one JSON answer per line. */
#ifndef SWITCH_CONTROL_H
#define SWITCH_CONTROL_H

#include "workers.h"

struct control;

/* Serve on `path`. A socket file that nobody serves any more is replaced; one that is in use is an error. NULL with
 * f. */
struct control *control_open(struct workers *w, const char *path, struct fault *f) __attribute__((nonnull));
void control_close(struct control *c);

/* The client: send one request line, print the answer indented. Returns the program's exit code. */
int control_ask(const char *path, const char *op, const char *arguments) __attribute__((nonnull(1, 2)));

#endif
