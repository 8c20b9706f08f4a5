/* A check that names what failed and ends the program. */
#ifndef DATAPATH_TESTS_CHECK_H
#define DATAPATH_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                                    \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                                             \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#endif
