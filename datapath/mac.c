#include "datapath/mac.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

void mac_write(char out[18], const uint8_t mac[6])
{
  snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

bool mac_read(uint8_t mac[6], const char *text)
{
  for (unsigned i = 0; i < 6; i++) {
    char *end;
    if (!isxdigit((unsigned char)text[0]))
      return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
      return false; /* strtoul takes it for its own prefix */
    unsigned long n = strtoul(text, &end, 16);
    if (end - text > 2 || *end != (i < 5 ? ':' : '\0'))
      return false;
    mac[i] = (uint8_t)n;
    text = end + 1;
  }
  return true;
}
