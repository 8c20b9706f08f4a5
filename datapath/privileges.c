#include "datapath/privileges.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool privileges_keep(uint64_t keep, struct fault *why)
{
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return fault_set(why, "io", "no_new_privs: %s", strerror(errno));
  /* First, while CAP_SETPCAP is there; without it the set cannot grow from an exec anyway. */
  for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
    if (cap >= 64 || (keep & PRIVILEGE(cap)) == 0)
      (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capget, &head, data) < 0)
    return fault_set(why, "io", "capabilities: %s", strerror(errno));
  for (unsigned i = 0; i < 2; i++) {
    data[i].permitted &= (uint32_t)(keep >> (32 * i));
    data[i].effective = data[i].permitted;
    data[i].inheritable = 0;
  }
  if (syscall(SYS_capset, &head, data) < 0)
    return fault_set(why, "io", "capabilities: %s", strerror(errno));
  return true;
}

bool privileges_has(unsigned cap)
{
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}};
  return syscall(SYS_capget, &head, data) == 0 && (data[cap / 32].effective >> cap % 32 & 1) != 0;
}
