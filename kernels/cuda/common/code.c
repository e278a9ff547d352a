#include "kernels/cuda/common/code.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 8 /* the major version that all kernels need: cp.async, mma.sync of 8-bit values */

#ifdef QB_HAVE_WGMMA
static const bool has_wgmma = true;
#else
static const bool has_wgmma = false;
#endif

/* One of the architectures: "90a-real". */
typedef struct entry {
    int32_t number; /* 10 major + minor */
    char kind;      /* 'a', 'f' or none */
    bool machine, ptx;
} entry;

const char *qb_cuda_architectures(void) { return QB_CUDA_ARCHITECTURES; }

/* Reads the entry at *at and moves on to the next; false at the end. */
static bool next_entry(const char **at, entry *out) {
    if (!**at) return false;
    char *end;
    *out = (entry){.number = (int32_t)strtol(*at, &end, 10), .machine = true, .ptx = true};
    if (*end == 'a' || *end == 'f') out->kind = *end++;
    if (strncmp(end, "-real", 5) == 0) out->ptx = false;
    if (strncmp(end, "-virtual", 8) == 0) out->machine = false;
    end += strcspn(end, " ");
    *at = *end ? end + 1 : end;
    return true;
}

static qb_cuda_code code_of(const entry *e, int32_t number) {
    if (e->kind == 'a' ? number != e->number : number < e->number) return QB_CUDA_CODE_NONE;
    const bool family = number / 10 == e->number / 10;
    if (e->machine && family) return QB_CUDA_CODE_MACHINE;
    return e->ptx && (family || e->kind != 'f') ? QB_CUDA_CODE_PTX : QB_CUDA_CODE_NONE;
}

qb_cuda_code qb_cuda_code_for(const char *architectures, int32_t major, int32_t minor,
                              int32_t *from) {
    qb_cuda_code best = QB_CUDA_CODE_NONE;
    int32_t best_number = 0;
    for (entry e; next_entry(&architectures, &e);) {
        const qb_cuda_code code = code_of(&e, major * 10 + minor);
        if (code == QB_CUDA_CODE_NONE || code < best) continue;
        if (code == best && e.number < best_number) continue;
        best = code;
        best_number = e.number;
    }
    if (from) *from = best_number;
    return best;
}

qb_status qb_cuda_code_check(qb_ctx *cx, const char *architectures, const qb_cuda_device *d) {
    if (d->major < LEAST)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected compute capability %d.0 or later, got %d.%d", d->name, LEAST,
                       d->major, d->minor);
    if (qb_cuda_code_for(architectures, d->major, d->minor, NULL) != QB_CUDA_CODE_NONE)
        return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "%s: no code for compute capability %d.%d in this program, which is built for "
                   "%s; build with %d%d in QB_CUDA_ARCHITECTURES",
                   d->name, d->major, d->minor, architectures, d->major, d->minor);
}

static bool is_hopper(const qb_cuda_device *d) { return d->major == 9 && d->minor == 0; }

bool qb_cuda_lacks_wgmma(const qb_cuda_device *d) { return is_hopper(d) && !has_wgmma; }

qb_status qb_cuda_need_check(qb_ctx *cx, const char *name, const qb_cuda_need *need,
                             const qb_cuda_device *d) {
    if (need->wgmma && !is_hopper(d))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected compute capability 9.0, got %d.%d",
                       name, d->major, d->minor);
    if (need->wgmma && qb_cuda_lacks_wgmma(d))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: not in this program, which is built for %s, without 90a", name,
                       qb_cuda_architectures());
    if (need->shared_bytes > QB_CUDA_SHARED && need->shared_bytes > d->shared_per_block)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected %d bytes of shared memory for a block, got %d", name,
                       need->shared_bytes, d->shared_per_block);
    return QB_OK;
}
