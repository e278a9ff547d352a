// Copies to shared memory that run beside the program (cp.async), and from it to the operands of a
// warp's matrix instructions; compute capability 8.0 and later.
#ifndef QB_CUDA_COPIES_CUH
#define QB_CUDA_COPIES_CUH

#include <stdint.h>

#ifndef QB_DEVICE
#define QB_DEVICE static __device__ __forceinline__
#endif

QB_DEVICE uint32_t qb_shared_address_of(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// The first `bytes` of 16, the rest is zero-filled.
QB_DEVICE void qb_copy16(uint32_t to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// 16 bytes, or zeros: then `from` may be any address. A predicate takes one instruction, a count of
// bytes seven.
QB_DEVICE void qb_copy16_if(uint32_t to, const void *from, bool there) {
    asm volatile("{\n\t.reg .pred zeros;\n\tsetp.eq.s32 zeros, %2, 0;\n\t"
                 "cp.async.cg.shared.global [%0], [%1], 16, zeros;\n\t}" ::"r"(to),
                 "l"(from), "r"((int)there));
}

QB_DEVICE void qb_copy8_if(uint32_t to, const void *from, bool there) {
    asm volatile("{\n\t.reg .pred zeros;\n\tsetp.eq.s32 zeros, %2, 0;\n\t"
                 "cp.async.ca.shared.global [%0], [%1], 8, zeros;\n\t}" ::"r"(to),
                 "l"(from), "r"((int)there));
}

QB_DEVICE void qb_load_matrices(uint32_t (&r)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

// Ends a group of copies; waits until at most N groups are under way.
QB_DEVICE void qb_copies_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> QB_DEVICE void qb_copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
}

#endif
