/* --config FILE: the options of the command line as YAML. A mapping of an option's name to its value, to a list of values,
 * or, for an option without a value, to true or false. */
#ifndef AGENT_CONFIG_FILE_H
#define AGENT_CONFIG_FILE_H

#include <getopt.h>

enum {
  CONFIG_ARGS_MAX = 1024,     /* options that a file may hold, lists counted one by one */
  CONFIG_BYTES_MAX = 1 << 20, /* of the file */
};

/* Writes argv[0] = "datacast-agent" and then --name=value for each line of the file; returns how many there are, -1 when the
 * file is wrong, which is printed with its line. The strings live as long as the process. */
int config_file_read(const char *path, const struct option *known, char *argv[CONFIG_ARGS_MAX + 1])
    __attribute__((nonnull));

#endif
