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

#define QB_D8(i)                                                                                   \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]),    \
        "+r"(d[i + 6]), "+r"(d[i + 7])
// clang-format off
template <> __device__ __forceinline__ void qb_wgmma<64, false>(int (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma<64, true>(int (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma<128, false>(int (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, %64, %65, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24), QB_D8(32), QB_D8(40), QB_D8(48), QB_D8(56)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma<128, true>(int (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, %64, %65, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24), QB_D8(32), QB_D8(40), QB_D8(48), QB_D8(56)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma<256, false>(int (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; "
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
                 "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "
                 "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "
                 "%119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24), QB_D8(32), QB_D8(40), QB_D8(48), QB_D8(56), QB_D8(64), QB_D8(72), QB_D8(80), QB_D8(88), QB_D8(96), QB_D8(104), QB_D8(112), QB_D8(120)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma<256, true>(int (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; "
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
                 "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "
                 "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "
                 "%119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, p;}"
                 : QB_D8(0), QB_D8(8), QB_D8(16), QB_D8(24), QB_D8(32), QB_D8(40), QB_D8(48), QB_D8(56), QB_D8(64), QB_D8(72), QB_D8(80), QB_D8(88), QB_D8(96), QB_D8(104), QB_D8(112), QB_D8(120)
                 : "l"(a), "l"(b), "r"(add));
}
// clang-format on
#undef QB_D8

// d (64 rows x N) = a (64 x 16, f16) b (N x 16, f16) + (add ? d : 0).
template <int N> __device__ void qb_wgmma_f16(float (&d)[N / 2], uint64_t a, uint64_t b, int add);

#define QB_F8(i)                                                                                   \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
// clang-format off
template <> __device__ __forceinline__ void qb_wgmma_f16<64>(float (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p, 1, 1, 0, 0;}"
                 : QB_F8(0), QB_F8(8), QB_F8(16), QB_F8(24)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma_f16<128>(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "
                 "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, p, 1, 1, 0, 0;}"
                 : QB_F8(0), QB_F8(8), QB_F8(16), QB_F8(24), QB_F8(32), QB_F8(40), QB_F8(48), QB_F8(56)
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma_f16<200>(float (&d)[100], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %102, 0; "
                 "wgmma.mma_async.sync.aligned.m64n200k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
                 "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                 "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
                 "%98, %99"
                 "}, %100, %101, p, 1, 1, 0, 0;}"
                 : QB_F8(0), QB_F8(8), QB_F8(16), QB_F8(24), QB_F8(32), QB_F8(40), QB_F8(48), QB_F8(56), QB_F8(64), QB_F8(72), QB_F8(80), QB_F8(88), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
                 : "l"(a), "l"(b), "r"(add));
}
template <> __device__ __forceinline__ void qb_wgmma_f16<256>(float (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; "
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
                 "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                 "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
                 "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
                 "%126, %127"
                 "}, %128, %129, p, 1, 1, 0, 0;}"
                 : QB_F8(0), QB_F8(8), QB_F8(16), QB_F8(24), QB_F8(32), QB_F8(40), QB_F8(48), QB_F8(56), QB_F8(64), QB_F8(72), QB_F8(80), QB_F8(88), QB_F8(96), QB_F8(104), QB_F8(112), QB_F8(120)
                 : "l"(a), "l"(b), "r"(add));
}
// d (64 rows x 64) = a (64 x 16, f16, in fragments of mma) b (16 x 64, f16, columns innermost) +
// (add ? d : 0).
QB_DEVICE void qb_wgmma_f16_transposed(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;}"
                 : QB_F8(0), QB_F8(8), QB_F8(16), QB_F8(24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
// clang-format on
#undef QB_F8

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
