/* How much memory there is, and how much of it this process has. */
#ifndef QB_BASE_MEMORY_H
#define QB_BASE_MEMORY_H

#include "ctx.h"

/* Bytes that the machine has, or those that this process's cgroup may take where that is less. */
size_t qb_memory_total(void);
/* Bytes that the process has to itself, in memory; 0 where the system does not say. Any thread. */
size_t qb_memory_used(void);
/* "64", "64M", "1.5G", "512K": MiB without a letter; false where the text says nothing like it. */
bool qb_memory_parse(const char *text, size_t length, size_t *bytes);
#endif
