/* Sharing out a recurrent layer among blocks. */
#include "recurrent_internal.h"

#define ALONE 65536 /* elements of R that a block multiplies as fast as blocks could meet */
#define ALONE_FLOATS 16384
#define TEAM_ITEMS 64 /* most items of a team with several blocks */
#define RESERVED 1024 /* bytes of a multiprocessor's shared memory that each block costs */

static int32_t pad(int64_t n, int32_t to) { return (int32_t)((n + to - 1) / to * to); }

int64_t qb_cuda_recurrent_columns(const qb_cuda_recurrent *p) {
    return (int64_t)p->directions * p->blocks * p->units * p->x_gates;
}

static int32_t element(const qb_cuda_recurrent *p) { return p->f16 ? 2 : 4; }

static void plan_pass(qb_cuda_recurrent *p, int32_t first_gate, int32_t gates) {
    qb_cuda_recurrent_pass *pass = &p->pass[p->n_passes++];
    *pass = (qb_cuda_recurrent_pass){.gates = gates,
                                     .first_gate = first_gate,
                                     .rows = p->stationary ? 4 * p->units
                                                           : pad((int64_t)gates * p->units, 16)};
    const int32_t parts = pad(pass->rows, QB_CUDA_RECURRENT_ROWS) / QB_CUDA_RECURRENT_ROWS;
    const int32_t across = parts < QB_CUDA_RECURRENT_WARPS ? parts : QB_CUDA_RECURRENT_WARPS;
    pass->pitch = pass->rows + 4; /* neighbours write to other banks */
    pass->slices = QB_CUDA_RECURRENT_WARPS / across;
    pass->at_weights = p->weight_bytes;
    p->weight_bytes += (int64_t)pass->rows * p->depth * element(p);
}

static void plan_passes(qb_cuda_recurrent *p) {
    const bool two = p->layer.cell == QB_CELL_GRU && !p->layer.linear_before_reset;
    p->n_passes = 0;
    p->weight_bytes = 0;
    plan_pass(p, 0, two ? 2 : p->gates);
    if (two) plan_pass(p, 2, 1);
}

static int32_t take(int64_t *end, int64_t bytes) {
    const int64_t at = *end;
    *end += (bytes + 15) / 16 * 16;
    return (int32_t)at;
}

/* False where a block has not so much. */
static bool place_shared(qb_cuda_recurrent *p, bool weights, const qb_cuda_device *device) {
    int64_t end = 0, sums = 0;
    const int64_t states = (int64_t)p->items * p->units * (int64_t)sizeof(float);
    for (int32_t i = 0; i < p->n_passes; i++) {
        const int64_t floats = (int64_t)p->pass[i].slices * p->at_once * p->pass[i].pitch;
        if (floats > sums) sums = floats;
    }
    p->in_shared = weights;
    if (weights) take(&end, p->weight_bytes);
    if (end + states * (2 * p->gates + 2) > device->shared_per_block) return false;
    p->shared.x = take(&end, 2 * states * p->gates);
    p->shared.sums = take(&end, sums * (int64_t)sizeof(float));
    p->shared.h = take(&end, states);
    p->shared.c = take(&end, states);
    p->shared.lengths = take(&end, p->items * (int64_t)sizeof(int32_t));
    p->shared.states =
        take(&end, p->alone ? (int64_t)3 * QB_CUDA_RECURRENT_ITEMS_8 * p->depth * element(p) : 0);
    p->shared.bytes = (int32_t)end;
    return end <= device->shared_per_block;
}

static void share_out(qb_cuda_recurrent *p, int32_t units, int32_t items) {
    p->units = units;
    p->x_gates = p->stationary ? 4 : p->gates;
    p->blocks = pad(p->hidden, units) / units;
    p->items = items;
    p->groups = pad(p->batch, items) / items;
    p->padded_items = pad(p->groups > 1 ? (int64_t)p->groups * items : items, 8);
    p->at_once = p->f16 && items > QB_CUDA_RECURRENT_ITEMS_8 ? QB_CUDA_RECURRENT_ITEMS_32
                                                             : QB_CUDA_RECURRENT_ITEMS_8;
    plan_passes(p);
}

/* Do all blocks run at once? */
static bool are_resident(const qb_cuda_recurrent *p, const qb_cuda_device *device) {
    const int64_t all = (int64_t)device->shared_per_block + RESERVED;
    int64_t each = all / (p->shared.bytes + RESERVED);
    if (each > QB_CUDA_RECURRENT_BLOCKS) each = QB_CUDA_RECURRENT_BLOCKS;
    return (int64_t)p->directions * p->groups * p->blocks <= each * device->multiprocessors;
}

/* All units in a block, which waits for nobody: then the items may as well be apart, on as many
 * multiprocessors as there are. */
static bool plan_alone(qb_cuda_recurrent *p, const qb_cuda_device *device) {
    const int64_t all = (int64_t)p->batch * p->directions;
    int32_t items = (int32_t)((all + device->multiprocessors - 1) / device->multiprocessors);
    if (items > QB_CUDA_RECURRENT_ITEMS_8) items = QB_CUDA_RECURRENT_ITEMS_8;
    share_out(p, pad(p->hidden, 4), items);
    p->alone = true;
    return p->weight_bytes / element(p) <= (p->f16 ? ALONE : ALONE_FLOATS) &&
           place_shared(p, true, device);
}

/* R in registers: a thread has half a row's depth of words, so rows are in classes. Teams of eight
 * items where all run at once, else of sixteen. */
static bool plan_stationary(qb_cuda_recurrent *p, const qb_cuda_device *device, bool clusters) {
    static const struct {
        int32_t depth, blocks;
        bool wide; /* sixteen items have room, too */
    } classes[] = {{64, 1, true}, {128, 1, false}, {256, 4, false}};
    const int64_t rows = (int64_t)p->steps * p->batch * p->directions;
    if (!p->f16 || !p->usual) return false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const int32_t blocks = classes[i].blocks;
        if (p->hidden > classes[i].depth || (blocks > 1 && !clusters)) continue;
        if (rows * classes[i].depth * 4 > INT32_MAX) return false; /* offsets have 32 bits */
        const int64_t teams = (int64_t)p->directions * pad(p->batch, 8) / 8;
        const bool wide = classes[i].wide && teams * blocks > device->multiprocessors;
        p->depth = classes[i].depth;
        p->stationary = true;
        share_out(p, pad(pad(p->hidden, blocks) / blocks, 8), wide ? 16 : 8);
        return true;
    }
    return false;
}

bool qb_cuda_recurrent_plan(qb_cuda_recurrent *p, const qb_cuda_device *device, bool clusters) {
    const int32_t items = p->batch < TEAM_ITEMS ? p->batch : TEAM_ITEMS;
    if (plan_stationary(p, device, clusters)) return true;
    p->depth = pad(p->hidden, QB_CUDA_RECURRENT_DEPTH);
    if (plan_alone(p, device)) return true;
    p->alone = false;
    for (int weights = 1; weights >= 0; weights--) /* else they come from the second-level cache */
        for (int32_t units = 8; units <= 64; units *= 2) {
            share_out(p, units, items);
            if (place_shared(p, weights, device) && are_resident(p, device)) return true;
        }
    return false;
}
