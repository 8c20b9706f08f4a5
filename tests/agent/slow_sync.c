/* A disk that does not answer (LD_PRELOAD): a sync lasts as long as the file named by HOLD is there. */
#include <stdlib.h>
#include <unistd.h>

int fsync(int fd)
{
  while (access(getenv("HOLD"), F_OK) == 0)
    usleep(1000);
  return fdatasync(fd);
}
