/* Connections that others open. */
#ifndef DATAPATH_ACCEPTING_H
#define DATAPATH_ACCEPTING_H

#include <sys/socket.h>

/* A descriptor to be given up in need; of a listener, and its owner's to close. */
int accept_spare(int listener);
/* As accept4, nonblocking. Where this process may open no more files the connection is refused: one that waits would wake it for
 * ever. `from` and `len` may be NULL. */
int accept_or_refuse(int listener, int *spare, struct sockaddr *from, socklen_t *len) __attribute__((nonnull(2)));

#endif
