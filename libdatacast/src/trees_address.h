/* Trees as parent functions of the address (paper, section 4.1.1).
 *
 * BCube, Torus and hypercube look the same from every host, so the trees are kept once, for host 0: a node's port to
 * its parent. For another source every address is taken relative to it (digit by digit, modulo n), and the ports stay
 * the same, but for BCube's switches, whose ports are digits themselves.
 */
#ifndef DATACAST_TREES_ADDRESS_H
#define DATACAST_TREES_ADDRESS_H

#include "trees_graph.h"

/* Trees of the structured construction; 0 where there is none. */
uint32_t dc_address_trees(enum dc_net_kind kind, uint32_t n, uint32_t k);

/* Recognise the network as `kind`, or leave it DC_NET_ANY; fill in the tables. */
void dc_address_init(struct dc_net *net, enum dc_net_kind kind) __attribute__((nonnull));

/* Addresses relative to a source: host v is low[v % fold] + high[v / fold]. */
struct dc_relative {
  uint32_t source;
  uint32_t *low, *high; /* dc_relative_words of them in all */
  uint32_t digit[32];   /* the source's */
};
size_t dc_relative_words(const struct dc_net *net) __attribute__((nonnull));
void dc_relative_init(const struct dc_net *net, struct dc_relative *rel, uint32_t *words, uint32_t source)
    __attribute__((nonnull));

static inline uint32_t dc_relative_host(const struct dc_net *net, const struct dc_relative *rel, uint32_t v)
{
  if (net->kind == DC_NET_HYPERCUBE)
    return v ^ rel->source;
  return rel->low[v % net->fold] + rel->high[v / net->fold];
}

/* A port of v in the relative network, and back. */
static inline uint32_t dc_relative_port(const struct dc_net *net, const struct dc_relative *rel, uint32_t v,
                                        uint32_t port)
{
  if (net->kind != DC_NET_BCUBE || v < net->hosts)
    return port;
  uint32_t digit = rel->digit[(v - net->hosts) / net->per_level];
  return port >= digit ? port - digit : port + net->n - digit;
}

static inline uint32_t dc_actual_port(const struct dc_net *net, const struct dc_relative *rel, uint32_t level,
                                      uint32_t port)
{
  uint32_t moved = port + rel->digit[level];
  return moved >= net->n ? moved - net->n : moved;
}

#endif
