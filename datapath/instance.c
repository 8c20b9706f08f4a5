#include "datapath/instance.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "datapath/loop.h"

const char *instance_id(void)
{
  static char text[33];
  if (text[0] == '\0') {
    unsigned long long id[2];
    if (getrandom(id, sizeof id, 0) != sizeof id) { /* never for so few bytes; the start's time tells runs apart too */
      id[0] = loop_realtime_ns();
      id[1] = (unsigned long long)getpid();
    }
    snprintf(text, sizeof text, "%016llx%016llx", id[0], id[1]);
  }
  return text;
}
