// Hopper's asynchronous instructions: wgmma, mbarriers, bulk tensor copies (sm_90a).
#ifndef QB_CUDA_HOPPER_CUH
#define QB_CUDA_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

#ifndef QB_DEVICE
#define QB_DEVICE static __device__ __forceinline__
#endif

QB_DEVICE uint32_t qb_shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// The number of the thread's group of `threads`, whole warps. The compiler knows of what a lane
// gives to all that it is the same in a warp: operands that follow from it are computed once a
// warp, where the matrix unit reads them.
QB_DEVICE int qb_warp_group_of(int threads) {
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / threads, 0);
}

QB_DEVICE void qb_barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

QB_DEVICE void qb_barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

QB_DEVICE void qb_barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity is over.
QB_DEVICE void qb_barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// Waits for `threads` threads that name the same barrier of the block; 0 is that of __syncthreads.
QB_DEVICE void qb_barrier_of_warps(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

QB_DEVICE uint4 qb_load_shared16(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from));
    return v;
}

QB_DEVICE void qb_tma_load_2d(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}

QB_DEVICE void qb_tma_load_4d(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c, int x,
                              int y, int n) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(n)
                 : "memory");
}

QB_DEVICE void qb_store_shared16(uint32_t to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// What was written to shared memory by ordinary stores may be read by copies and multiplications.
QB_DEVICE void qb_fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The box at `from` to (x, y); what lies outside is not written. Part of a group of stores.
QB_DEVICE void qb_tma_store_2d(const CUtensorMap *map, uint32_t from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(from), "r"(x), "r"(y)
                 : "memory");
}

// Until this thread's stores have read shared memory, or are done.
QB_DEVICE void qb_tma_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
QB_DEVICE void qb_tma_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Pixels from base (w, h, n) on, in the order of the bounding box, displaced by (dw, dh).
QB_DEVICE void qb_tma_load_im2col(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c,
                                  int w, int h, int n, uint16_t dw, uint16_t dh) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"(dw), "h"(dh)
        : "memory");
}

// Operand tile in shared memory, K innermost, rows of `row_bytes` (64 or 128) swizzled over as many
// bytes; groups of eight rows follow each other.
template <int ROW_BYTES> QB_DEVICE uint64_t qb_smem_descriptor(uint32_t address) {
    uint64_t swizzle = ROW_BYTES == 128 ? 1 : 2;
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(ROW_BYTES * 8 >> 4) << 32 | swizzle << 62;
}

QB_DEVICE void qb_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
QB_DEVICE void qb_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> QB_DEVICE void qb_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// d (64 rows x N) = a (64 x 32, u8 or s8) b (N x 32, s8) + (add ? d : 0).
template <int N, bool SIGNED>
__device__ void qb_wgmma(int (&d)[N / 2], uint64_t a, uint64_t b, int add);
// d (64 rows x N) = a (64 x 16, f16) b (N x 16, f16) + (add ? d : 0).
template <int N> __device__ void qb_wgmma_f16(float (&d)[N / 2], uint64_t a, uint64_t b, int add);

// Registers 0 to COUNT - 1 hold d; a, b and add are the operands behind them.
// clang-format off
#define QB_REGISTERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define QB_REGISTERS_64 QB_REGISTERS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define QB_REGISTERS_100 QB_REGISTERS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99"
#define QB_REGISTERS_128 QB_REGISTERS_100 ", " \
    "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, " \
    "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define QB_D4(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define QB_D32(C, i) \
    QB_D4(C, i), QB_D4(C, i + 4), QB_D4(C, i + 8), QB_D4(C, i + 12), QB_D4(C, i + 16), \
    QB_D4(C, i + 20), QB_D4(C, i + 24), QB_D4(C, i + 28)
#define QB_OUT_32(C) QB_D32(C, 0)
#define QB_OUT_64(C) QB_OUT_32(C), QB_D32(C, 32)
#define QB_OUT_100(C) QB_OUT_64(C), QB_D32(C, 64), QB_D4(C, 96)
#define QB_OUT_128(C) QB_OUT_64(C), QB_D32(C, 64), QB_D32(C, 96)
// KIND: shape and types; MORE: what else the instruction takes; C: constraint; ...: the function.
#define QB_WGMMA(COUNT, B, ADD, KIND, MORE, T, C, ...) \
    template <> __device__ __forceinline__ void __VA_ARGS__(T (&d)[COUNT], uint64_t a, uint64_t b, int add) { \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #ADD ", 0; wgmma.mma_async.sync.aligned." KIND " {" \
                     QB_REGISTERS_##COUNT "}, %" #COUNT ", %" #B ", p" MORE ";}" \
                     : QB_OUT_##COUNT(C) : "l"(a), "l"(b), "r"(add)); \
    }
QB_WGMMA(32, 33, 34, "m64n64k32.s32.u8.s8", "", int, "+r", qb_wgmma<64, false>)
QB_WGMMA(32, 33, 34, "m64n64k32.s32.s8.s8", "", int, "+r", qb_wgmma<64, true>)
QB_WGMMA(64, 65, 66, "m64n128k32.s32.u8.s8", "", int, "+r", qb_wgmma<128, false>)
QB_WGMMA(64, 65, 66, "m64n128k32.s32.s8.s8", "", int, "+r", qb_wgmma<128, true>)
QB_WGMMA(128, 129, 130, "m64n256k32.s32.u8.s8", "", int, "+r", qb_wgmma<256, false>)
QB_WGMMA(128, 129, 130, "m64n256k32.s32.s8.s8", "", int, "+r", qb_wgmma<256, true>)
QB_WGMMA(32, 33, 34, "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0", float, "+f", qb_wgmma_f16<64>)
QB_WGMMA(64, 65, 66, "m64n128k16.f32.f16.f16", ", 1, 1, 0, 0", float, "+f", qb_wgmma_f16<128>)
QB_WGMMA(100, 101, 102, "m64n200k16.f32.f16.f16", ", 1, 1, 0, 0", float, "+f", qb_wgmma_f16<200>)
QB_WGMMA(128, 129, 130, "m64n256k16.f32.f16.f16", ", 1, 1, 0, 0", float, "+f", qb_wgmma_f16<256>)
// d (64 rows x 64) = a (64 x 16, f16, in fragments of mma) b (16 x 64, f16, columns innermost) +
// (add ? d : 0).
QB_DEVICE void qb_wgmma_f16_transposed(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" QB_REGISTERS_32 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;}"
                 : QB_OUT_32("+f")
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
#undef QB_WGMMA
// clang-format on

// Sums of any type on the unit.
template <int N, bool SIGNED>
QB_DEVICE void qb_multiply(int (&d)[N / 2], uint64_t a, uint64_t b, int add) {
    qb_wgmma<N, SIGNED>(d, a, b, add);
}
template <int N, bool SIGNED>
QB_DEVICE void qb_multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
    qb_wgmma_f16<N>(d, a, b, add);
}

#endif
