/* A failing seed as a file, to be run again elsewhere: text of three lines, "datacast campaign VERSION", "seed N",
 * "digest HEX". */
#ifndef DATACAST_CAMPAIGN_SEEDFILE_H
#define DATACAST_CAMPAIGN_SEEDFILE_H

#include <stdbool.h>
#include <stdint.h>

/* Counts up when the same seed makes another world: what drawing changed. */
enum { SEEDFILE_VERSION = 2 };

/* Both say on stderr why they fail, with the file's name. */
bool seedfile_write(const char *folder, uint64_t seed, uint64_t digest);
bool seedfile_read(const char *path, uint64_t *seed, uint64_t *digest);

#endif
