// The asynchronous pipeline of the kernels on wgmma (sm_90a), in CUTLASS's words: a producer warp
// group copies steps of K into a ring of stages in shared memory, consumer warp groups multiply
// them. A stage has two barriers: full, which the copies complete, and empty, at which consumers
// arrive when they are done with it.
//
// A barrier tells two passes of the ring apart, no more. So with a ping-pong schedule, where each
// consumer group has its own tile, a group looks at the ring only in its turn: see
// qb_ordered_sequence.
#ifndef QB_CUDA_PIPELINE_CUH
#define QB_CUDA_PIPELINE_CUH

#include "kernels/cuda/common/hopper.cuh"
#include "kernels/cuda/common/launch.cuh"

#define QB_WARP_GROUP 128 // threads

// The stage that a thread comes to next, and the parity of the pass that it awaits there.
struct qb_pipeline_state {
    int index;
    uint32_t phase;
};

// STAGES: 0 where the kernel's caller says how many there are (`count`). ROLLED: loops that advance
// are not unrolled, where the code of a step is long.
template <int STAGES = 0, bool ROLLED = false> struct qb_pipeline {
    uint32_t data, full, empty; // shared memory: stages of stage_bytes each, and their barriers
    int stage_bytes, count;

    __device__ __forceinline__ int stages() const { return STAGES ? STAGES : count; }
    __device__ __forceinline__ uint32_t at(const qb_pipeline_state &s) const {
        return data + s.index * stage_bytes;
    }

    // Producers begin with a ring that is empty, consumers with its first stage.
    __device__ __forceinline__ static qb_pipeline_state producer_start() { return {0, 1}; }
    __device__ __forceinline__ static qb_pipeline_state consumer_start() { return {0, 0}; }

    __device__ __forceinline__ void advance(qb_pipeline_state &s) const {
        if constexpr (ROLLED)
            advance(s, 1);
        else if (++s.index == stages())
            s.index = 0, s.phase ^= 1;
    }
    // Passes stages that are another group's.
    __device__ __forceinline__ void advance(qb_pipeline_state &s, int steps) const {
        if constexpr (STAGES > 0) {
            unsigned to = (unsigned)s.index + (unsigned)steps;
            s.index = (int)(to % STAGES);
            s.phase ^= to / STAGES & 1;
        } else {
            for (s.index += steps; s.index >= count; s.index -= count) s.phase ^= 1;
        }
    }

    // By one thread; `consumers`: arrivals that make a stage empty.
    __device__ __forceinline__ void init(int consumers) const {
        for (int i = 0; i < stages(); i++) {
            qb_barrier_init(full + i * 8, 1);
            qb_barrier_init(empty + i * 8, consumers);
        }
    }

    __device__ __forceinline__ void producer_acquire(const qb_pipeline_state &s) const {
        qb_barrier_wait(empty + s.index * 8, s.phase);
    }
    // The barrier for copies of so many bytes into the stage.
    __device__ __forceinline__ uint32_t producer_expect(const qb_pipeline_state &s,
                                                        uint32_t bytes) const {
        uint32_t barrier = full + s.index * 8;
        qb_barrier_expect(barrier, bytes);
        return barrier;
    }
    // The stage is full without a copy.
    __device__ __forceinline__ void producer_commit(const qb_pipeline_state &s) const {
        qb_barrier_arrive(full + s.index * 8);
    }
    __device__ __forceinline__ void consumer_wait(const qb_pipeline_state &s) const {
        qb_barrier_wait(full + s.index * 8, s.phase);
    }
    __device__ __forceinline__ void consumer_release(int index) const {
        qb_barrier_arrive(empty + index * 8);
    }
};

// A consumer group's steps of one tile. `arrived`(step): behind the wait for a step's data.
// `multiply`(step, data): begins its multiplications. A stage is released as soon as those of the
// next have begun, by the threads with `releases`.
template <class Pipeline, class Arrived, class Multiply>
QB_DEVICE void qb_consume(const Pipeline &pipeline, qb_pipeline_state &at, int steps, bool releases,
                          Arrived arrived, Multiply multiply) {
    const uint32_t empty = pipeline.empty;
    int before = 0;
    for (int step = 0; step < steps; step++) {
        uint32_t data = pipeline.at(at);
        pipeline.consumer_wait(at);
        arrived(step);
        qb_wgmma_fence();
        multiply(step, data);
        qb_wgmma_commit();
        qb_wgmma_wait<1>();
        if (releases && step > 0) qb_barrier_arrive(empty + before * 8);
        before = at.index;
        pipeline.advance(at);
    }
    qb_wgmma_wait<0>();
    if (releases) qb_barrier_arrive(empty + before * 8);
}

// The order of a ping-pong schedule: a barrier for each consumer group, at which the four warps of
// the group before it arrive once they have seen the last step of their tile.
template <int GROUPS> struct qb_ordered_sequence {
    uint32_t barriers; // shared memory, 8 bytes each

    __device__ __forceinline__ void init() const {
        for (int i = 0; i < GROUPS; i++) qb_barrier_init(barriers + i * 8, 4);
    }
    // `phase` begins with group == 0, for nobody comes before the first turn, and alternates.
    __device__ __forceinline__ void wait(int group, uint32_t phase) const {
        qb_barrier_wait(barriers + group * 8, phase);
    }
    __device__ __forceinline__ uint32_t next(int group) const {
        return barriers + (group + 1) % GROUPS * 8;
    }
};

// Barriers that a thread has set up are there for copies.
QB_DEVICE void qb_fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    qb_fence_shared();
}

// All threads see the barriers, the next kernel may set itself up as this one did, and all before
// this one are done.
QB_DEVICE void qb_begin_pipeline() {
    __syncthreads();
    qb_launch_dependents();
    qb_wait_for_dependencies();
}

// A producer group leaves registers to consumer groups.
template <int REGISTERS> QB_DEVICE void qb_warp_group_reg_dealloc() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> QB_DEVICE void qb_warp_group_reg_alloc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#endif
