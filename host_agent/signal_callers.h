/* Connections that others opened to this agent: masters, and agents above it in some tree.
 *
 * Parents keep their connections, and every agent may be everybody's child: so those that stand idle are closed, and when
 * there are too many the one idle longest makes room. One that a group's events go over, or an answer, is not idle. */
#ifndef AGENT_SIGNAL_CALLERS_H
#define AGENT_SIGNAL_CALLERS_H

#include "signal_tree.h"

/* Listen on an address. False with *why. */
bool callers_listen(struct signalling *s, const char *listen_on, struct fault *why) __attribute__((nonnull));
void callers_close(struct signalling *s) __attribute__((nonnull));

#endif
