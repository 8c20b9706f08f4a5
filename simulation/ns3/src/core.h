// The core's public headers, from C++. Some functions there share the name of a struct, as C allows.
#ifndef DATACAST_NS3_CORE_H
#define DATACAST_NS3_CORE_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "datacast/endpoint.h"
#include "datacast/node.h"
#include "datacast/receiver.h"
#include "datacast/source.h"
}
#pragma GCC diagnostic pop

#endif
