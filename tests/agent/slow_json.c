/* A message that takes long to read (LD_PRELOAD): one of more than a megabyte lasts as long as the file named by HOLD is there.
 * That it has come is said by the file named by READS. */
#include <dlfcn.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

json_t *json_loadb(const char *buffer, size_t length, size_t flags, json_error_t *error)
{
  json_t *(*real)(const char *, size_t, size_t, json_error_t *) = dlsym(RTLD_NEXT, "json_loadb");
  if (length > 1 << 20) {
    close(open(getenv("READS"), O_WRONLY | O_CREAT, 0600));
    while (access(getenv("HOLD"), F_OK) == 0)
      usleep(1000);
  }
  return real(buffer, length, flags, error);
}
