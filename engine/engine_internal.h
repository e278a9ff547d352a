/* What the files of engine/ share. */
#ifndef QB_ENGINE_INTERNAL_H
#define QB_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "graph/fusion.h"
#include "kernels/tactic.h"

/* A stretch of memory. Arena buffers get their offset from the planner; the others point at what
 * the caller or the graph owns. */
typedef enum qb_buffer_kind {
    QB_BUFFER_ARENA,
    QB_BUFFER_INPUT,          /* the caller's input `index` */
    QB_BUFFER_OUTPUT,         /* the caller's output `index` */
    QB_BUFFER_CONSTANT,       /* `data`, in the engine's graph */
    QB_BUFFER_DEVICE,         /* in the device's arena */
    QB_BUFFER_DEVICE_CONSTANT /* `data`, uploaded into the device's block of constants */
} qb_buffer_kind;

typedef struct qb_buffer {
    qb_buffer_kind kind;
    int32_t index;
    const void *data;
    size_t bytes, offset;
    const void
        *shared; /* DEVICE_CONSTANT of a plan: where it lies for all plans; NULL: at `offset` */
    int32_t first, last; /* steps that touch it, both inclusive */
    int32_t layouts;     /* the last one in it that was made and is not overwritten for good, -1 */
    bool lasting;        /* it keeps its memory to the end: replays read it again */
} qb_buffer;

/* One form in which a value lies in memory: a value may have several (row-major for one user,
 * channels last for another), made by copy steps where they are first needed. */
typedef struct qb_value_layout {
    int32_t value;
    int32_t next; /* the next layout of the same value, -1 at the end */
    int32_t buffer;
    int32_t below; /* the one in the same buffer that was made before it, -1 at the end */
    qb_desc desc;
} qb_value_layout;

typedef enum qb_step_kind {
    QB_STEP_KERNEL,
    QB_STEP_NODE,     /* the operator's eval on row-major tensors */
    QB_STEP_PLUGIN,   /* a plugin's function, on the host or on the device */
    QB_STEP_ALIAS,    /* nothing to do: the output lies where the input lies */
    QB_STEP_UPLOAD,   /* the same bytes on the device */
    QB_STEP_DOWNLOAD, /* and back */
} qb_step_kind;

typedef struct qb_step {
    qb_step_kind kind;
    const char *name, *op, *tactic;
    qb_kernel *kernel;      /* KERNEL */
    const void **constants; /* KERNEL: [n_in] data of constant inputs, for packing; else NULL */
    size_t packed_offset;   /* KERNEL: in the engine's packed block */
    const void *shared;     /* KERNEL of a plan: packed constants of all plans, instead */
    const qb_node *node;    /* NODE, PLUGIN */
    const struct qbench_plugin_tensor *described; /* PLUGIN: [n_in + n_out] without data */
    bool on_device;                               /* the device runs it */
    size_t workspace_bytes;                       /* scratch of one run, where it runs */
    int32_t node_index;                           /* for messages, -1 for copies */
    int32_t n_in, n_out;
    int32_t *in, *out; /* layouts; -1 for what is left out */
    int32_t observed;  /* number of the value that this step completes, -1 */
    qb_dtype dtype;
    double flops, bytes;
    int32_t row; /* of the plan, -1 */
} qb_step;

typedef struct qb_port { /* an input or output as the caller sees it */
    const char *name;
    qb_desc desc;
    int32_t buffer;
} qb_port;

typedef struct qb_plans qb_plans;

/* Where an engine runs beside the host. */
typedef struct qb_device_part {
    int32_t ordinal;         /* which one of the devices */
    char *name;              /* "NVIDIA H200, compute capability 9.0, driver 13.0, ..." */
    double seconds;          /* until it was open */
    void *block;             /* there: packed constants and QB_BUFFER_DEVICE_CONSTANT */
    size_t constants;        /* bytes of it */
    size_t arena, workspace; /* of one context, there */
} qb_device_part;

/* An engine that serves one set of shapes of another one with profiles. */
typedef struct qb_engine_use {
    qb_plans *of;           /* whose it is; NULL: it is an engine of its own */
    int32_t profile;        /* whose rows it follows */
    struct qb_pack **packs; /* that it reads */
    int32_t n_packs, refs;  /* refs: of who uses it now */
    bool cached;            /* it stays when nobody uses it */
    int64_t last_use;
} qb_engine_use;

/* Packed constants of the host, then of the device. */
typedef struct qb_packed {
    void *data;
    bool mapped; /* it lies in the file */
} qb_packed;

struct qb_engine {
    qb_graph *graph;      /* bound; owns names, constants and quantization parameters */
    qb_arena *arena;      /* owns everything below but plan, kernels and packed */
    struct qb_plan *plan; /* what it was realized from: spec and rows */
    int64_t parts;        /* one run goes this often through all steps, with other items */
    int32_t n_buffers, n_layouts, n_steps, n_inputs, n_outputs, n_observed;
    qb_buffer *buffers;
    qb_value_layout *layouts;
    qb_step *steps;
    qb_port *inputs, *outputs;
    int32_t *observed; /* value ids: the graph's inputs first */
    qb_packed packed;
    struct qb_engine_file *file; /* it was loaded from; NULL: built */
    qb_compiled *compiled;       /* what was compiled for its kernels; NULL: nothing */
    qb_engine_memory memory;
    const struct qb_device_api *device; /* NULL: everything runs on the host */
    qb_device_part on;
    qb_plans *plans;      /* of an engine with profiles; NULL */
    struct qb_tail *tail; /* engine/run/tail_internal.h; NULL: all sizes are known. Where there is
                             one, the engine's own outputs are what the tail reads */
    qb_engine_use use;
};

/* The outputs as the caller sees them, of an engine with a tail. */
int32_t qb_tail_n_outputs(const struct qb_tail *tail);
const qb_port *qb_tail_output(const struct qb_tail *tail, int32_t i);

/* Sets the calling thread's OpenMP team size; returns what it was. */
int qb_use_threads(int threads);

/* Plans offsets so that buffers which live at the same time do not overlap: largest first, each
 * into the lowest gap that fits best. Only buffers of `kind` are placed. */
qb_status qb_plan_memory(qb_ctx *cx, qb_buffer_kind kind, qb_buffer *buffers, int32_t n,
                         int32_t n_steps, size_t *total, size_t *lower_bound);

/* Bytes of the constants that its steps read: packed ones and those that lie in the graph. */
size_t qb_engine_weights(const qb_engine *engine);
bool qb_layout_on_device(const qb_engine *engine, int32_t layout);

/* Packs all constants of an engine into a block of its own, unless that was done. */
qb_status qb_engine_pack(qb_ctx *cx, qb_engine *engine);
/* Where each constant of the host will lie there. */
void qb_engine_assign_offsets(qb_engine *engine);
/* engine/realize/planner.c: the order of steps, and where their tensors lie. */
qb_status qb_engine_plan_memory(qb_ctx *cx, qb_engine *engine);

/* Runs the step of a plugin; `data` has n_in + n_out pointers. */
qb_status qb_plugin_step_run(qb_ctx *cx, const qb_step *step, const void *const *data,
                             void *workspace, void *stream, int threads);

#endif
