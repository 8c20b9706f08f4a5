#include "datapath/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void on_signal(struct watch *w, uint32_t events)
{
  struct signals *s = (struct signals *)(void *)w;
  struct signalfd_siginfo info;
  (void)events;
  if (read(w->fd, &info, sizeof info) != sizeof info)
    return;
  if (info.ssi_signo == SIGUSR2) {
    s->leave(s->arg);
    return;
  }
  log_info("stopping on %s", strsignal((int)info.ssi_signo));
  *s->stop = true;
}

bool signals_block(struct signals *s, struct fault *why)
{
  sigset_t set;
  struct sigaction hangup;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup: blocked it would come */
    sigaddset(&set, SIGHUP);
  if (s->leave != NULL)
    sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file longer than this process may write is one part's error, not its end */
  s->watch = (struct watch){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal};
  s->stop = NULL;
  return s->watch.fd >= 0 || fault_set(why, "io", "signals: %s", strerror(errno));
}

bool signals_watch(struct signals *s, struct loop *loop, struct fault *why)
{
  s->stop = &loop->stop;
  return loop_watch(loop, &s->watch, EPOLLIN) == 0 || fault_set(why, "io", "signals: %s", strerror(errno));
}

void signals_close(struct signals *s)
{
  if (s->watch.fd > 0)
    close(s->watch.fd);
}
