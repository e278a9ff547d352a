// What follows the sums of a product, composed of policies: epilogues.def names those of each.
#ifndef QB_CUDA_EPILOGUE_POLICIES_CUH
#define QB_CUDA_EPILOGUE_POLICIES_CUH

#include <type_traits>

#include "kernels/cuda/conv/epilogue_values.cuh"

struct qb_sums_S32 {
    typedef int type;
};
struct qb_sums_F32 {
    typedef float type;
};

// `add`: what stands behind the scale.
struct qb_bias_S32 {
    static __device__ __forceinline__ float add(float v, float) { return v; }
};
struct qb_bias_CLASS : qb_bias_S32 {};
struct qb_bias_FLOAT {
    static __device__ __forceinline__ float add(float v, float bias) { return __fadd_rn(v, bias); }
};
struct qb_bias_MAYBE : qb_bias_FLOAT {}; // -0 where there is none: it changes nothing

// `quantize4`: four values, in units of the result's scale, to four bytes less their zero point.
struct qb_activation_CLAMP {
    static __device__ __forceinline__ uint32_t quantize4(const qb_cuda_conv &p, float (&v)[4]) {
        return qb_quantize4<false>(p, v);
    }
    static __device__ __forceinline__ float apply(float v) { return v; } // bounds come last
};
struct qb_activation_SATURATE {
    static __device__ __forceinline__ uint32_t quantize4(const qb_cuda_conv &p, float (&v)[4]) {
        return qb_quantize4<true>(p, v);
    }
};
struct qb_activation_SILU {
    static __device__ __forceinline__ float apply(float v) { return qb_silu_fast(v); }
};
struct qb_activation_GELU {
    static __device__ __forceinline__ float apply(float v) { return qb_gelu_fast(v); }
};
struct qb_activation_GELU_COARSE { // to Q8 with its store: qb_store_gelu16
    static __device__ __forceinline__ float apply(float v) { return qb_gelu_coarse(v); }
};
struct qb_activation_EXACT {}; // with its store: qb_exact4
struct qb_activation_ANY {};

// `add`: byte i of four quantized ones; `add_f16`: element i of words of f16.
struct qb_residual_NONE {
    static constexpr bool q8 = false, f16 = false;
    static __device__ __forceinline__ float add(const qb_cuda_conv &, float v, uint32_t, int,
                                                qb_residual_q8) {
        return v;
    }
};
struct qb_residual_Q8 {
    static constexpr bool q8 = true, f16 = false;
    static __device__ __forceinline__ float add(const qb_cuda_conv &p, float v, uint32_t word,
                                                int i, qb_residual_q8 q) {
        return __fadd_rn(v, __fmul_rn(p.res_scale, qb_residual_value(word, i, q)));
    }
};
struct qb_residual_Q8_ROUNDED : qb_residual_Q8 {
    static __device__ __forceinline__ float add(const qb_cuda_conv &p, float v, uint32_t word,
                                                int i, qb_residual_q8 q) {
        return qb_residual_Q8::add(p, qb_round_first(p, v), word, i, q);
    }
};
struct qb_residual_F16 {
    static constexpr bool q8 = false, f16 = true;
};
struct qb_residual_MAYBE {
    static constexpr bool q8 = false, f16 = false;
};

// `staging`: bytes of shared memory for each thread.
struct qb_store_Q8 {
    static constexpr int staging = 0;
};
struct qb_store_F16 : qb_store_Q8 {};
struct qb_store_VECTOR : qb_store_Q8 {};
struct qb_store_UNALIGNED {
    static constexpr int staging = 64;
};
struct qb_store_ELEMENT : qb_store_UNALIGNED {};

template <class Sums, class Bias, class Activation, class Residual, class Store>
struct qb_epilogue_policies {
    typedef typename Sums::type sum;
    typedef Bias bias;
    typedef Activation activation;
    typedef Residual residual;
    typedef Store store;
    template <class A, class B> static constexpr bool is = std::is_same<A, B>::value;
    static constexpr bool f16 = is<Sums, qb_sums_F32>; // data
    static constexpr bool bounds =
        is<Activation, qb_activation_CLAMP> || is<Activation, qb_activation_SATURATE>;
    static constexpr bool by_class = is<Bias, qb_bias_CLASS>;
    // integer constants that may stay in registers from tile to tile
    static constexpr bool holds =
        !f16 && bounds && is<Store, qb_store_Q8> && (by_class || is<Bias, qb_bias_S32>);
    static constexpr int staging = Store::staging;
};

template <qb_cuda_epilogue E> struct qb_epilogue_of;
#define QB_CUDA_EPILOGUE(NAME, SUMS, BIAS, ACTIVATION, RESIDUAL, STORE, NEXT)                      \
    template <>                                                                                    \
    struct qb_epilogue_of<QB_EPILOGUE_##NAME>                                                      \
        : qb_epilogue_policies<qb_sums_##SUMS, qb_bias_##BIAS, qb_activation_##ACTIVATION,         \
                               qb_residual_##RESIDUAL, qb_store_##STORE> {};
#include "kernels/cuda/conv/epilogues.def"
#undef QB_CUDA_EPILOGUE

// Calls launch(integral_constant) with the epilogue of the set that takes the problem.
template <uint32_t SET, int E = 0, class Launch>
static int qb_dispatch_epilogue(int epilogue, Launch launch) {
    if constexpr (E == QB_EPILOGUES) {
        return (int)cudaErrorInvalidValue;
    } else {
        if constexpr ((SET >> E & 1) != 0)
            if (epilogue == E)
                return launch(std::integral_constant<qb_cuda_epilogue, (qb_cuda_epilogue)E>());
        return qb_dispatch_epilogue<SET, E + 1>(epilogue, launch);
    }
}
template <uint32_t SET, class Launch>
static int qb_dispatch_epilogue(const qb_cuda_conv *p, Launch launch) {
    return qb_dispatch_epilogue<SET, 0>((int)qb_cuda_conv_epilogue(p, SET), launch);
}

#endif
