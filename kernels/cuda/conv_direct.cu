// The plain convolution: one thread an output element, no tile, every size, group and dilation.
// Weights are s16 so that u8 weights and weight zero points need no case of their own. Bound by
// load instructions; it stands last among the device's tactics.
#include "kernels/cuda/conv_epilogue.cuh"

#define THREADS 128

template <class T> QB_DEVICE int dot(const T *x, const int16_t *w, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += (int)x[i] * (int)w[i];
    return sum;
}

static __global__ void __launch_bounds__(THREADS)
    direct(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (int64_t)p.rows * p.out_c) return;
    int row = (int)(at / p.out_c), channel = (int)(at % p.out_c);
    int x = row % p.out_w, y = row / p.out_w % p.out_h, image = row / p.out_w / p.out_h;
    int first = channel / (p.out_c / p.group) * p.k_pad, acc = 0;
    const int16_t *w =
        (const int16_t *)io.packed + (int64_t)channel * p.kernel_h * p.kernel_w * p.k_pad;
    for (int r = 0; r < p.kernel_h; r++)
        for (int s = 0; s < p.kernel_w; s++, w += p.k_pad) {
            int iy = y * p.stride_h - p.pad_h + r * p.dilation_h;
            int ix = x * p.stride_w - p.pad_w + s * p.dilation_w;
            if (iy < 0 || iy >= p.in_h || ix < 0 || ix >= p.in_w) continue;
            size_t pixel = ((size_t)image * p.in_h + iy) * p.in_w + ix;
            const uint8_t *from = (const uint8_t *)io.in + pixel * p.in_total + p.in_offset + first;
            acc += p.in_signed ? dot((const int8_t *)from, w, p.k_pad) : dot(from, w, p.k_pad);
        }
    qb_finish(p, io, acc, row, qb_class(p, io, row), channel);
}

extern "C" int qb_cuda_conv_direct(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,
                                   void *stream) {
    int64_t n = (int64_t)conv->rows * conv->out_c;
    direct<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(*conv,
                                                                                          *io);
    return (int)cudaGetLastError();
}
