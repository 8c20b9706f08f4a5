/* The command line. */
#ifndef SWITCH_OPTIONS_H
#define SWITCH_OPTIONS_H

#include "failure.h"
#include "rounds.h"

enum options_do { OPTIONS_RUN, OPTIONS_CHECK, OPTIONS_ASK, OPTIONS_DONE, OPTIONS_BAD };

struct options {
  const char *config;
  const char *control; /* NULL: as the configuration says */
  const char *ask_socket, *ask_op, *ask_arguments;
  bool appliance, no_hello;
  enum loop_wait wait;
};

/* OPTIONS_DONE: --help or --version were printed. OPTIONS_BAD: the error was printed. Sets the log level. */
enum options_do options_parse(struct options *o, int argc, char **argv) __attribute__((nonnull));

#endif
