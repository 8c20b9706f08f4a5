/* Which worker has a tree: those of a group lie with as many workers as there are, groups are no burden of one, and the program
 * that the kernel runs says of every frame what the workers say. */
#include "datapath/steering.h"

#include <linux/filter.h>
#include <string.h>

#include "datapath/tests/check.h"

enum { GROUP = 1 << STEERING_GROUP_LOG2, WORKERS = 8, FRAME = DC_ETHER_LEN + DC_LABEL_LEN + DC_HEADER_LEN };

/* The trees of the worker that has most, of groups that follow one another. */
static unsigned most(uint32_t first, unsigned groups, unsigned trees, unsigned workers)
{
  unsigned n[WORKERS] = {0}, top = 0;
  for (uint32_t g = 0; g < groups; g++)
    for (uint32_t t = 0; t < trees; t++)
      n[steering_of_tree(first + g * GROUP + t, workers)]++;
  for (unsigned i = 0; i < workers; i++)
    top = n[i] > top ? n[i] : top;
  return top;
}

static void check_shares(unsigned workers)
{
  for (uint32_t first = 1; first < 4000; first += GROUP) {
    CHECK(most(first, 1, workers, workers) == 1);
    CHECK(most(first, workers, 1, workers) == 1);
    CHECK(most(first, 4, workers, workers) == 4);
  }
}

/* What the kernel would say: as much of its language as the program has. */
static uint32_t run(const struct sock_fprog *program, const uint8_t *frame, unsigned workers)
{
  const uint8_t *behind = frame + DC_ETHER_LEN;
  uint32_t a = 0, x = 0;
  for (unsigned i = 0; i < program->len; i++) {
    const struct sock_filter *f = &program->filter[i];
    switch (f->code) {
    case BPF_LD | BPF_W | BPF_ABS:
      a = f->k == (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL) ? dc_get16(frame + 12) : dc_get32(behind + f->k);
      break;
    case BPF_JMP | BPF_JEQ | BPF_K:
      i += a == f->k ? f->jt : f->jf;
      break;
    case BPF_JMP | BPF_JA:
      i += f->k;
      break;
    case BPF_ALU | BPF_RSH | BPF_K:
      a >>= f->k;
      break;
    case BPF_ALU | BPF_ADD | BPF_X:
      a += x;
      break;
    case BPF_MISC | BPF_TAX:
      x = a;
      break;
    case BPF_RET | BPF_A:
      return a % workers;
    case BPF_RET | BPF_K:
      return f->k % workers;
    default:
      CHECK(false);
    }
  }
  CHECK(false);
  return 0;
}

static void put32(uint8_t *p, uint32_t v)
{
  for (unsigned i = 0; i < 4; i++)
    p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void frame_of(uint8_t *frame, uint16_t type, uint32_t label, uint32_t tree)
{
  uint8_t *at = frame + DC_ETHER_LEN;
  memset(frame, 0xa5, FRAME);
  frame[12] = (uint8_t)(type >> 8);
  frame[13] = (uint8_t)type;
  if (type == DC_ETHERTYPE_MPLS) {
    put32(at, label << 12 | 1 << 8 | 64);
    at += DC_LABEL_LEN;
  }
  put32(at + DC_AT_TREE, tree);
}

static int worker_says(const uint8_t *frame, unsigned workers)
{
  const struct dc_frame f = {.data = (uint8_t *)(uintptr_t)frame, .len = FRAME};
  return steering_of(&f, true, workers);
}

static void check_kernel(unsigned workers)
{
  static const uint32_t tree[] = {1, 2, 15, 16, 17, 4711, UINT32_C(0x12345678), UINT32_MAX};
  const struct sock_fprog *program = steering_program();
  uint8_t frame[FRAME];
  bool spread = false;
  for (size_t i = 0; i < sizeof tree / sizeof *tree; i++) {
    frame_of(frame, DC_ETHERTYPE_MPLS, DC_LABEL_LOCAL, tree[i]);
    CHECK((int)run(program, frame, workers) == worker_says(frame, workers));
    frame_of(frame, DC_ETHERTYPE_DATACAST, 0, tree[i]);
    CHECK((int)run(program, frame, workers) == worker_says(frame, workers));
    frame_of(frame, 0x0800, 0, tree[i]);
    CHECK(run(program, frame, workers) == 0 && worker_says(frame, workers) == 0);
    frame_of(frame, DC_ETHERTYPE_MPLS, DC_LABEL_ADJ + (uint32_t)i, 1); /* it goes on: anybody can send it */
    CHECK(worker_says(frame, workers) == STEERING_ANY);
    spread = spread || run(program, frame, workers) != 0;
  }
  CHECK(spread || workers == 1);
}

int main(void)
{
  for (unsigned workers = 1; workers <= WORKERS; workers++) {
    if ((workers & (workers - 1)) == 0)
      check_shares(workers);
    check_kernel(workers);
  }
  puts("workers of trees: ok");
  return 0;
}
