// The warp-wide matrix instructions of compute capability 8.0 and later, and the dot product of
// four quantized values.
#ifndef QB_CUDA_MMA_CUH
#define QB_CUDA_MMA_CUH

#include <stdint.h>

#ifndef QB_DEVICE
#define QB_DEVICE static __device__ __forceinline__
#endif

// d (16 x 8) += a (16 x 32, u8 or s8) b (32 x 8, s8).
template <bool SIGNED>
QB_DEVICE void qb_mma(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if (SIGNED)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d (16 x 8) += a (16 x 16, f16) b (16 x 8, f16).
template <bool SIGNED>
QB_DEVICE void qb_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// sum + the four quantized values of x (u8 or s8) times those of w (s8).
template <bool SIGNED> QB_DEVICE int qb_dot4(uint32_t x, uint32_t w, int sum) {
    if (SIGNED)
        asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(w));
    else
        asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(w));
    return sum;
}

#endif
