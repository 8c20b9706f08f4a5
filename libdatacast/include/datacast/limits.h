/* Fixed capacities of the core, in one place. Everything that can grow has its limit here. */
#ifndef DATACAST_LIMITS_H
#define DATACAST_LIMITS_H

enum {
  /* Ports of one segment: the longest run of links between two waypoints. */
  DC_SEG_MAX = 48,
  /* Stops of one route: the receiver, the waypoints and the source. */
  DC_STOPS_MAX = 64,
  /* Bytes of a route under an interest's header; with the stack it fits a 1,500-byte frame. */
  DC_ROUTE_MAX = 1024,
  /* Highest port number: ports travel as 16 bits, the last value names the host itself. */
  DC_PORT_MAX = 65534,
  /* Children (distinct return segments) of one tree at one node. */
  DC_CHILDREN_MAX = 128,
  /* Ports of one node. */
  DC_NODE_PORTS_MAX = 256,
  /* Trees of one node; slots of one tree's content store or waiting table. */
  DC_NODE_TREES_MAX = 65536,
  DC_NODE_SLOTS_MAX = 65536,
  /* Places in the waiting table where an interest of one sequence number may stand. */
  DC_WAITING_WAYS = 4,
  /* Frames that one arriving frame can cause at a node: data goes to each child; an interest for a range causes at most
   * one frame per number (64). */
  DC_NODE_TX_MAX = DC_CHILDREN_MAX + 1,
  /* Credits of one receiver in one tree: those that a plan gives, and with what its path holds beside. */
  DC_PLAN_CREDITS_MAX = 4096,
  DC_CREDITS_MAX = 16384,
  /* New numbers that it asks for at once. */
  DC_BATCH_MAX = 8,
  /* What a source says at most that its path holds: packets of 1,500 bytes at 1 Gb/s over 100 ms are 8,333. With a plan's credits it
   * fits a node's waiting table and a source's queue. */
  DC_PATH_MAX = 9216,
  /* A receiver asks for nothing that is so far beyond its first missing packet: one that is lost again and again, for which a timer ends
   * each time, holds up nothing for seven such paths. */
  DC_RECEIVER_REACH = 65536,
  /* Assignments (extents) a tree remembers at a source or receiver. */
  DC_EXTENTS_MAX = 256,
  /* Interests that wait for tokens at a source, per tree. */
  DC_SOURCE_QUEUE_MAX = 16384,
  /* Return segments known to a source, per tree (the old and the new ones around a repair). */
  DC_SOURCE_CHILDREN_MAX = 16,
  /* Interests for numbers that it has not been told of yet, per tree. */
  DC_SOURCE_EARLY_MAX = 128,
  /* Ethernet, the deepest stack (with LOCAL), the Datacast header. */
  DC_PREFIX_MAX = 14 + 4 * (DC_SEG_MAX + 1) + 16,
  /* Payload bytes of one data packet. */
  DC_PAYLOAD_MAX = 65000
};

#endif
