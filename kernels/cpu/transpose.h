/* Transposition of elements of 1, 2, 4 or 8 bytes. */
#ifndef QB_CPU_TRANSPOSE_H
#define QB_CPU_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* to[i * to_step + k] = from[k * from_step + i] for i < rows, k < columns; steps in elements. Any
 * thread; the memory does not overlap. */
void qb_transpose(size_t size, const void *from, int64_t from_step, void *to, int64_t to_step,
                  int64_t rows, int64_t columns);

#endif
