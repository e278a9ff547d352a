/* Transposition in tiles of as many rows as elements fit 16 bytes: interleaving the first half of a
 * tile's rows with the second, once for each bit of their number, is a transposition. What is left
 * at the edges is a tile that overlaps the one before. */
#include "transpose.h"

#include <string.h>

#include "cpu_internal.h"

#define TILE_BYTES 16
#define COLUMNS 128 /* lines of the data that stay in the first level cache */

#define LOW_8(a, b)                                                                                \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_8(a, b)                                                                               \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_64(a, b) __builtin_shufflevector(a, b, 1, 3)

#define DEFINE_TRANSPOSE(BITS)                                                                     \
    typedef uint##BITS##_t v##BITS __attribute__((vector_size(TILE_BYTES)));                       \
    enum { SIDE_##BITS = TILE_BYTES * 8 / BITS };                                                  \
    static inline __attribute__((always_inline)) void tile_##BITS(                                 \
        const uint##BITS##_t *from, int64_t from_step, uint##BITS##_t *to, int64_t to_step) {      \
        enum { SIDE = SIDE_##BITS };                                                               \
        v##BITS a[SIDE], b[SIDE];                                                                  \
        QB_UNROLL for (int i = 0; i < SIDE; i++) memcpy(&a[i], from + i * from_step, TILE_BYTES);  \
        QB_UNROLL for (int stage = 1; stage < SIDE; stage *= 2) {                                  \
            QB_UNROLL for (int i = 0; i < SIDE / 2; i++) {                                         \
                b[2 * i] = LOW_##BITS(a[i], a[i + SIDE / 2]);                                      \
                b[2 * i + 1] = HIGH_##BITS(a[i], a[i + SIDE / 2]);                                 \
            }                                                                                      \
            QB_UNROLL for (int i = 0; i < SIDE; i++) a[i] = b[i];                                  \
        }                                                                                          \
        QB_UNROLL for (int i = 0; i < SIDE; i++) memcpy(to + i * to_step, &a[i], TILE_BYTES);      \
    }                                                                                              \
    static void transpose_##BITS(const uint##BITS##_t *from, int64_t from_step,                    \
                                 uint##BITS##_t *to, int64_t to_step, int64_t rows,                \
                                 int64_t columns) {                                                \
        const int64_t side = SIDE_##BITS;                                                          \
        if (rows < side || columns < side) {                                                       \
            for (int64_t i = 0; i < rows; i++)                                                     \
                for (int64_t k = 0; k < columns; k++)                                              \
                    to[i * to_step + k] = from[k * from_step + i];                                 \
            return;                                                                                \
        }                                                                                          \
        for (int64_t first = 0; first < columns; first += COLUMNS)                                 \
            for (int64_t i = 0; i < rows; i += side)                                               \
                for (int64_t k = first; k < columns && k < first + COLUMNS; k += side) {           \
                    const int64_t x = qb_min64(i, rows - side), y = qb_min64(k, columns - side);   \
                    tile_##BITS(from + y * from_step + x, from_step, to + x * to_step + y,         \
                                to_step);                                                          \
                }                                                                                  \
    }
DEFINE_TRANSPOSE(8)
DEFINE_TRANSPOSE(16)
DEFINE_TRANSPOSE(32)
DEFINE_TRANSPOSE(64)

/* Three planes of bytes to pixels: four bytes are stored at once, the last of which the next pixel
 * overwrites. */
static void interleave_3(const uint8_t *from, int64_t step, uint8_t *to, int64_t n) {
    int64_t at = 0;
    for (; at + SIDE_8 < n; at += SIDE_8) {
        uint32_t pixel[SIDE_8];
        v8 x[3];
        for (int c = 0; c < 3; c++) memcpy(&x[c], from + c * step + at, TILE_BYTES);
        const v16 low = (v16)LOW_8(x[0], x[1]), high = (v16)HIGH_8(x[0], x[1]);
        const v16 low2 = (v16)LOW_8(x[2], x[2]), high2 = (v16)HIGH_8(x[2], x[2]);
        const v16 all[4] = {LOW_16(low, low2), HIGH_16(low, low2), LOW_16(high, high2),
                            HIGH_16(high, high2)};
        memcpy(pixel, all, sizeof pixel);
        QB_UNROLL for (int i = 0; i < SIDE_8; i++) memcpy(to + 3 * (at + i), &pixel[i], 4);
    }
    for (; at < n; at++)
        for (int64_t c = 0; c < 3; c++) to[3 * at + c] = from[c * step + at];
}

void qb_transpose(size_t size, const void *from, int64_t from_step, void *to, int64_t to_step,
                  int64_t rows, int64_t columns) {
    switch (size) {
    case 1:
        if (columns == 3 && to_step == 3) {
            interleave_3(from, from_step, to, rows);
            return;
        }
        transpose_8(from, from_step, to, to_step, rows, columns);
        return;
    case 2: transpose_16(from, from_step, to, to_step, rows, columns); return;
    case 4: transpose_32(from, from_step, to, to_step, rows, columns); return;
    default: transpose_64(from, from_step, to, to_step, rows, columns); return;
    }
}
