/* Which run of this program this is: process ids come again, in a container at once. */
#ifndef DATAPATH_INSTANCE_H
#define DATAPATH_INSTANCE_H

#define DATACAST_VERSION "0.1.0"

/* 32 hexadecimal digits, random, the same for as long as the process lives. */
const char *instance_id(void);

#endif
