// P4 has no loops outside of parsers: a macro is written out so many times.
#ifndef DATACAST_REPEAT_P4
#define DATACAST_REPEAT_P4

#define FOUR(M) M(0) M(1) M(2) M(3)
#define EIGHT(M) FOUR(M) M(4) M(5) M(6) M(7)
#define THIRTY_TWO(M) EIGHT(M) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) M(21) \
    M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31)
#define THIRTY_FIVE(M) THIRTY_TWO(M) M(32) M(33) M(34)

#endif
