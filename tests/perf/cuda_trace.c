#include "cuda_trace.h"
#include "base/sort.h"

json_t *bench_trace_json(const bench_trace *t) {
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "kernels", t->kernels, "ms_span", t->span,
                     "ms_busy", t->busy, "ms_sum_of_kernels", t->sum, "idle_percent", 100 * t->idle,
                     "idle_percent_worst", 100 * t->idle_worst);
}

#ifdef QB_HAVE_CUPTI

#include <cupti.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)4 << 20)
#define RUNS_MAX 256

#define FUNCTIONS(X)                                                                               \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityDisable)                                                                        \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord)

static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} cupti;

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
#define KINDS (sizeof kinds / sizeof *kinds)

typedef struct record {
    uint64_t begin, end; /* nanoseconds */
} record;

static record *records;
static size_t n_records, capacity;
static bool lost;

static void add(uint64_t begin, uint64_t end) {
    if (n_records == capacity) {
        capacity = capacity ? 2 * capacity : 4096;
        record *grown = realloc(records, capacity * sizeof *records);
        if (!grown) {
            capacity = n_records;
            lost = true;
            return;
        }
        records = grown;
    }
    records[n_records++] = (record){begin, end};
}

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *most) {
    *size = BUFFER_BYTES;
    *most = 0;
    *buffer = aligned_alloc(8, BUFFER_BYTES);
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                          size_t valid) {
    CUpti_Activity *r = NULL;
    (void)context, (void)stream, (void)size;
    while (cupti.cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
        if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel10 *k = (const void *)r;
            add(k->start, k->end);
        } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy6 *m = (const void *)r;
            add(m->start, m->end);
        } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            const CUpti_ActivityMemset4 *m = (const void *)r;
            add(m->start, m->end);
        }
    }
    free(buffer);
}

static qb_status open_library(qb_ctx *cx) {
    static bool ready;
    if (ready) return QB_OK;
    void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "libcupti.so.13 was not found");
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        if (!symbol) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "CUPTI has no " #name);             \
        memcpy(&cupti.name, &symbol, sizeof symbol);                                               \
    }
    FUNCTIONS(X)
#undef X
    if (cupti.cuptiActivityRegisterCallbacks(give, take) != CUPTI_SUCCESS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "CUPTI does not start");
    ready = true;
    return QB_OK;
}

qb_status bench_trace_begin(qb_ctx *cx) {
    QB_TRY(open_library(cx));
    for (size_t i = 0; i < KINDS; i++)
        if (cupti.cuptiActivityEnable(kinds[i]) != CUPTI_SUCCESS)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "CUPTI records no kernels here");
    return QB_OK;
}

void bench_trace_forget(void) {
    (void)cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    n_records = 0;
    lost = false;
}

static int by_begin(const void *a, const void *b) {
    const record *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static double median(double *v, int n) {
    qb_sort_doubles(v, (size_t)n);
    return v[n / 2];
}

/* One run's records, by their begin; milliseconds. */
static void look_at(const record *r, size_t n, double *span, double *busy, double *sum) {
    uint64_t end = r[0].begin, covered = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t from = r[i].begin > end ? r[i].begin : end;
        if (r[i].end > from) covered += r[i].end - from;
        if (r[i].end > end) end = r[i].end;
        all += r[i].end - r[i].begin;
    }
    *span = (double)(end - r[0].begin) * 1e-6;
    *busy = (double)covered * 1e-6;
    *sum = (double)all * 1e-6;
}

qb_status bench_trace_end(qb_ctx *cx, int runs, bench_trace *out) {
    double span[RUNS_MAX], busy[RUNS_MAX], sum[RUNS_MAX], idle[RUNS_MAX];
    (void)cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (size_t i = 0; i < KINDS; i++) (void)cupti.cuptiActivityDisable(kinds[i]);
    if (lost || runs < 2 || runs > RUNS_MAX || n_records == 0 || n_records % (size_t)runs)
        return qb_fail(cx, QB_STATUS_INTERNAL, "%zu kernels recorded in %d runs", n_records, runs);
    const size_t n = n_records / (size_t)runs;
    qsort(records, n_records, sizeof *records, by_begin);
    const int kept = runs - 1;
    for (int r = 0; r < kept; r++) {
        look_at(records + (size_t)(r + 1) * n, n, &span[r], &busy[r], &sum[r]);
        idle[r] = (span[r] - busy[r]) / span[r];
    }
    *out = (bench_trace){.kernels = (int)n,
                         .span = median(span, kept),
                         .busy = median(busy, kept),
                         .sum = median(sum, kept),
                         .idle = median(idle, kept)};
    out->idle_worst = idle[kept - 1];
    return QB_OK;
}

#else

qb_status bench_trace_begin(qb_ctx *cx) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "built without CUPTI's header");
}

void bench_trace_forget(void) {}

qb_status bench_trace_end(qb_ctx *cx, int runs, bench_trace *out) {
    (void)runs, (void)out;
    return bench_trace_begin(cx);
}

#endif
