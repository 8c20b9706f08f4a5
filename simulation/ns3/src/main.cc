// datacast-ns3: libdatacast inside ns-3, as the independent witness of Datacast's own simulator. See
// simulation/ns3/README.md.
#include "world.h"

#include "ns3/nstime.h"

#include <cstring>
#include <fstream>
#include <iostream>

using datacast::Changes;
using datacast::Error;
using datacast::World;

static const char *const usage =
    "usage: datacast-ns3 [OPTION VALUE]... [SCENARIO]\n"
    "\n"
    "Runs a scenario (a file, or standard input) inside ns-3 and prints JSON: for each `report` in it all counters,\n"
    "one object per line; if it has no `run`, it runs until every receiver is done and prints one row per group.\n"
    "`python -m datacast.simulation.ns3 describe table1` writes a scenario.\n"
    "\n"
    "Options change what the scenario says, for every group and tree:\n"
    "  --cc NAME        rule of rate control\n"
    "  --cache BYTES    content store C\n"
    "  --delta BIT/S    rate added per interval\n"
    "  --interval NS    T\n"
    "  --credits N      w\n"
    "  --loss P         probability of loss of a data packet, from 0 to below 1, on the links that have a `loss` line\n"
    "  --size BYTES     of the file, spread evenly over the trees\n"
    "  --seed N         of ns-3's random numbers\n"
    "  --help\n";

static uint64_t Number(const char *option, const std::string &value, uint64_t least, uint64_t most)
{
  size_t used = 0;
  uint64_t n = 0;
  try {
    n = value[0] == '-' ? 0 : std::stoull(value, &used);
  } catch (const std::exception &) {
  }
  if (used != value.size() || n < least || n > most)
    throw Error(std::string(option) + " is a number from " + std::to_string(least) + " to " + std::to_string(most) +
                ", not '" + value + "'");
  return n;
}

static double Probability(const char *option, const std::string &value)
{
  size_t used = 0;
  double p = -1;
  try {
    p = std::stod(value, &used);
  } catch (const std::exception &) {
  }
  if (used != value.size() || !(p >= 0 && p < 1))
    throw Error(std::string(option) + " is from 0 to below 1, not '" + value + "'");
  return p;
}

// Returns the scenario's name; empty: standard input.
static std::string Arguments(int argc, char **argv, Changes &c)
{
  std::string scenario;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a.rfind("--", 0) != 0) {
      if (!scenario.empty())
        throw Error("one scenario only, not also '" + a + "'");
      scenario = a;
      continue;
    }
    if (i + 1 == argc)
      throw Error(a + " needs a value, or is unknown; see --help");
    std::string v = argv[++i];
    const char *o = a.c_str();
    if (a == "--cc")
      c.cc = v;
    else if (a == "--cache")
      c.cache = Number(o, v, 1, UINT32_MAX);
    else if (a == "--delta")
      c.delta = Number(o, v, 1, UINT64_C(1000000000000));
    else if (a == "--interval")
      c.interval = Number(o, v, 1, UINT64_C(1000000000000));
    else if (a == "--credits")
      c.credits = Number(o, v, 1, DC_CREDITS_MAX);
    else if (a == "--loss")
      c.loss = Probability(o, v);
    else if (a == "--size")
      c.size = Number(o, v, 0, UINT64_C(1) << 40);
    else if (a == "--seed")
      c.seed = Number(o, v, 0, UINT64_MAX);
    else
      throw Error("unknown option " + a + "; see --help");
  }
  return scenario;
}

// `run UNTIL whole` or `run UNTIL all`.
static void Run(World &world, const std::string &line)
{
  char mode[8];
  unsigned long long until;
  if (std::sscanf(line.c_str(), "run %llu %7s", &until, mode) != 2 ||
      (std::strcmp(mode, "whole") != 0 && std::strcmp(mode, "all") != 0))
    throw Error("run UNTIL whole, or run UNTIL all");
  world.Run(until, mode[0] == 'w');
}

static void Play(std::istream &in, World &world)
{
  std::string line;
  unsigned number = 0;
  bool ran = false;
  while (std::getline(in, line)) {
    number++;
    try {
      if (world.Line(line))
        continue;
      if (line.rfind("run", 0) == 0)
        Run(world, line);
      else if (!ran)
        throw Error("report comes after run");
      else
        world.Report(std::cout);
      ran = true;
    } catch (const Error &e) {
      throw Error("line " + std::to_string(number) + ": " + e.what());
    }
  }
  if (ran)
    return;
  world.Run(UINT64_MAX, true);
  world.Rows(std::cout);
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::cout << usage;
      return 0;
    }
  // A nanosecond, ns-3's own choice, is long on a fast link: an interest takes 1.28 ns at 100 Gb/s.
  ns3::Time::SetResolution(ns3::Time::PS);
  try {
    Changes changes;
    std::string scenario = Arguments(argc, argv, changes);
    World world(changes);
    if (scenario.empty()) {
      Play(std::cin, world);
      return 0;
    }
    std::ifstream file(scenario);
    if (!file)
      throw Error("cannot read " + scenario);
    Play(file, world);
    return 0;
  } catch (const Error &e) {
    std::cerr << "datacast-ns3: " << e.what() << std::endl;
    return 2;
  } catch (const std::bad_alloc &) {
    std::cerr << "datacast-ns3: out of memory" << std::endl;
    return 1;
  }
}
