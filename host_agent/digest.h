/* Digests of blocks: BLAKE3, 32 bytes. A processor's wide registers hash a block's chunks side by side, so it costs a
 * fifth of what SHA-256 does and is no weaker. */
#ifndef AGENT_DIGEST_H
#define AGENT_DIGEST_H

#include <blake3.h>

enum { DIGEST_LEN = BLAKE3_OUT_LEN };

_Static_assert(DIGEST_LEN == 32, "signalling carries 64 hex digits");

#endif
