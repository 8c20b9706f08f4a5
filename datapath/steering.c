#include "datapath/steering.h"

#include <linux/filter.h>

const struct sock_fprog *steering_program(void)
{
  enum { LABELLED = DC_LABEL_LEN + DC_AT_TREE, BARE = DC_AT_TREE }; /* counted from behind the Ethernet header */
  static struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_DATACAST, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_MPLS, 0, 10),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_LABEL_LOCAL, 2, 6), /* another label spreads by itself */
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BARE),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LABELLED),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, STEERING_GROUP_LOG2),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      BPF_STMT(BPF_RET | BPF_A, 0),
      BPF_STMT(BPF_RET | BPF_K, 0), /* neither */
  };
  static const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  return &program;
}
