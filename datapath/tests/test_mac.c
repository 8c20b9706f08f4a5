/* An Ethernet address is six numbers, and nothing that looks a little like them. */
#include "datapath/mac.h"

#include <stdio.h>
#include <string.h>

#include "datapath/tests/check.h"

int main(void)
{
  uint8_t mac[6];
  char text[18];
  CHECK(mac_read(mac, "02:00:5E:f:00:a1"));
  mac_write(text, mac);
  CHECK(strcmp(text, "02:00:5e:0f:00:a1") == 0);
  static const char *const none[] = {"",
                                     "zz:00",
                                     "02:00:00:00:00",
                                     "02:00:00:00:00:",
                                     "02:00:00:00:00:01:",
                                     "02:00:00:00:00:01 ",
                                     " 02:00:00:00:00:01",
                                     "02: 0:00:00:00:01",
                                     "02:-1:00:00:00:01",
                                     "02:+1:00:00:00:01",
                                     "02:0x:00:00:00:01",
                                     "02:0x1:00:00:00:01",
                                     "02:001:00:00:00:01",
                                     "02-00-00-00-00-01",
                                     "02::00:00:00:01"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    CHECK(!mac_read(mac, none[i]));
  puts("addresses: ok");
  return 0;
}
