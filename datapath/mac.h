/* Ethernet addresses as text, such as 02:00:00:00:00:01. */
#ifndef DATAPATH_MAC_H
#define DATAPATH_MAC_H

#include <stdbool.h>
#include <stdint.h>

void mac_write(char out[18], const uint8_t mac[6]) __attribute__((nonnull));
/* Six numbers of one or two hex digits, and nothing else. */
bool mac_read(uint8_t mac[6], const char *text) __attribute__((nonnull));

#endif
