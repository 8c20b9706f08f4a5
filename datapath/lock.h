/* A lock that threads of frames share with threads of a lower priority: whoever has it goes at the priority of whoever waits
 * for it (PTHREAD_PRIO_INHERIT). Without, an ordinary thread that lost its processor on a busy machine kept frames waiting for
 * 100 ms and more, and the links of its host seemed to have failed. A condition variable has no such lock inside: threads of
 * frames wake others by semaphores. */
#ifndef DATAPATH_LOCK_H
#define DATAPATH_LOCK_H

#include <pthread.h>

static inline void lock_open(pthread_mutex_t *lock)
{
  pthread_mutexattr_t how;
  pthread_mutexattr_init(&how);
  pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT);
  if (pthread_mutex_init(lock, &how) != 0) /* a kernel without */
    pthread_mutex_init(lock, NULL);
  pthread_mutexattr_destroy(&how);
}

#endif
