// A tile without the Tensor Cores: each thread sums 16 channels of a pixel, a product at a time.
#include "kernels/cuda/conv/tile.cuh"

template <int M, qb_cuda_epilogue EPILOGUE>
static __global__ void newcomer(const __grid_constant__ qb_cuda_conv p,
                                const __grid_constant__ qb_cuda_conv_io io) {
    int columns = p.n_pad / 64, channel = blockIdx.x % columns * 64, quarter = threadIdx.x % 4;
    int row = blockIdx.x / columns * M + threadIdx.x / 4, taps = p.kernel_h * p.kernel_w;
    int x = row % p.out_w * p.stride_w - p.pad_w, n = row / p.out_w / p.out_h, sum[16] = {};
    int y = row / p.out_w % p.out_h * p.stride_h - p.pad_h;
    for (int tap = 0; row < p.rows && tap < taps; tap++) {
        int in_x = x + tap % p.kernel_w * p.dilation_w, in_y = y + tap / p.kernel_w * p.dilation_h;
        if (in_x < 0 || in_x >= p.in_w || in_y < 0 || in_y >= p.in_h) continue;
        const char *data = (const char *)io.in + p.in_offset +
                           ((size_t)(n * p.in_h + in_y) * p.in_w + in_x) * p.in_total;
        for (int c = 0; c < p.in_c; c++)
            for (int j = 0; j < 16; j++) { // in the order of QB_CUDA_PACKING_TENSOR
                int packed = channel + j / 2 * 8 + quarter * 2 + j % 2;
                int value = p.in_signed ? (int8_t)data[c] : (uint8_t)data[c];
                sum[j] += value * (int8_t)io.packed[((size_t)packed * taps + tap) * p.k_pad + c];
            }
    }
    auto row_of = [&](int) { return row; };
    auto value = [&](int, int, int j) -> auto & { return sum[j]; };
    qb_epilogue<qb_epilogue_of<EPILOGUE>, 1, 1, M * 4>(p, io, channel, row_of, value, NULL);
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *conv) {
    return conv->group == 1;
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    if (!call->io) return qb_reserve_shared(newcomer<M, EPILOGUE>, 0);
    const int blocks = p->n_pad / N * ((p->rows + M - 1) / M);
    newcomer<M, EPILOGUE><<<blocks, M * 4, 0, (cudaStream_t)call->stream>>>(*p, *call->io);
    return (int)cudaGetLastError();
}
