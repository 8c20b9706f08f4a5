#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "datapath/instance.h"

static const char help[] =
    "usage: datacast-switch --config FILE [options]\n"
    "       datacast-switch --ctl SOCKET OP [JSON]\n"
    "\n"
    "A DPDK switch with a packet cache at every node of its configuration.\n"
    "\n"
    "  --config FILE      the YAML configuration (dpdk_cache/README.md describes it)\n"
    "  --check            read the configuration, look at the interfaces, start nothing\n"
    "  --appliance        every node is a cache appliance: one port, to the switch it serves\n"
    "  --no-hello         say no hello: only a lost carrier shows that a link failed (`no_hello: true`)\n"
    "  --control PATH     the control socket, in place of the configuration's `control`\n"
    "  --poll             poll all the time in place of sleeping when idle (one busy core)\n"
    "  --pauses           sleep between polls in place of waiting for the devices to wake us\n"
    "  --log-level LEVEL  error, warn, info (default) or debug (with DPDK's own messages)\n"
    "  --ctl SOCKET OP    ask a running switch: counters, ports, trees, config, wipe, fault, shutdown;\n"
    "                     JSON holds the arguments: --ctl S fault '{\"node\":\"s0.0\",\"port\":1,\"blackhole\":true}'\n"
    "  --version, --help\n"
    "\n"
    "SIGINT and SIGTERM stop it. SIGUSR2 stops it so that the neighbours wait for its next run (`away_ms`).\n"
    "\n"
    "Exit code: 0 stopped in order, 1 could not run, 2 wrong usage or configuration, 75 start it again (SIGUSR2).\n";

static enum options_do bad(const char *fmt, const char *word)
{
  fputs("datacast-switch: ", stderr);
  fprintf(stderr, fmt, word);
  fputs("; --help shows the usage\n", stderr);
  return OPTIONS_BAD;
}

static enum options_do ask(struct options *o, int argc, char **argv)
{
  if (optind >= argc)
    return bad("--ctl needs an operation, such as counters%s", "");
  if (argc - optind > 2)
    return bad("unexpected argument '%s'", argv[optind + 2]);
  o->ask_op = argv[optind];
  o->ask_arguments = argv[optind + 1]; /* NULL when there is none */
  return OPTIONS_ASK;
}

enum options_do options_parse(struct options *o, int argc, char **argv)
{
  static const struct option known[] = {{"config", required_argument, NULL, 'c'},
                                        {"check", no_argument, NULL, 'k'},
                                        {"appliance", no_argument, NULL, 'a'},
                                        {"control", required_argument, NULL, 's'},
                                        {"poll", no_argument, NULL, 'p'},
                                        {"pauses", no_argument, NULL, 'w'},
                                        {"log-level", required_argument, NULL, 'l'},
                                        {"ctl", required_argument, NULL, 't'},
                                        {"no-hello", no_argument, NULL, 'n'},
                                        {"version", no_argument, NULL, 'v'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  enum log_level level = LOG_INFO;
  bool check = false;
  *o = (struct options){.wait = LOOP_EVENTS};
  log_open("datacast-switch", level);
  for (int c; (c = getopt_long(argc, argv, "+:c:h", known, NULL)) != -1;)
    switch (c) {
    case 'c':
      o->config = optarg;
      break;
    case 'k':
      check = true;
      break;
    case 'a':
      o->appliance = true;
      break;
    case 'n':
      o->no_hello = true;
      break;
    case 's':
      o->control = optarg;
      break;
    case 'p':
      o->wait = LOOP_BUSY;
      break;
    case 'w':
      o->wait = LOOP_PAUSES;
      break;
    case 't':
      o->ask_socket = optarg;
      break;
    case 'l':
      if (!log_level_parse(optarg, &level))
        return bad("'%s' is no log level (error, warn, info, debug)", optarg);
      log_open("datacast-switch", level);
      break;
    case 'v':
      puts("datacast-switch " DATACAST_VERSION);
      return OPTIONS_DONE;
    case 'h':
      fputs(help, stdout);
      return OPTIONS_DONE;
    case ':':
      return bad("option %s needs a value", argv[optind - 1]);
    default:
      return bad("unknown option %s", argv[optind - 1]);
    }
  if (o->ask_socket != NULL)
    return ask(o, argc, argv);
  if (optind < argc)
    return bad("unexpected argument '%s'", argv[optind]);
  if (o->config == NULL)
    return bad("--config FILE is missing%s", "");
  return check ? OPTIONS_CHECK : OPTIONS_RUN;
}
