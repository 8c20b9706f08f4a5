// The core's public headers, from C++.
#ifndef DATACAST_NS3_CORE_H
#define DATACAST_NS3_CORE_H

extern "C" {
#include "datacast/endpoint.h"
#include "datacast/node.h"
#include "datacast/receiver.h"
#include "datacast/source.h"
}

#endif
