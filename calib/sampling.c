#include "calib/sampling.h"

#include <math.h>

#include "base/sort.h"

enum { SHARDS = QB_SAMPLING_SHARDS, THIRD = 2 };

static int64_t count_copies(const qb_table *table) {
    int64_t copies = 0;
    for (int64_t i = 1; table->sample && i < table->samples; i++)
        copies += table->sample[i] == table->sample[i - 1];
    return copies;
}

/* False where a shard has no finite value. */
static bool moves(const qb_table_entry *e, int64_t n, bool *moving) {
    float low[SHARDS], high[SHARDS];
    for (int64_t s = 0; s < SHARDS; s++) {
        low[s] = INFINITY;
        high[s] = -INFINITY;
        for (int64_t i = s * n / SHARDS; i < (s + 1) * n / SHARDS; i++) {
            low[s] = fminf(low[s], e->sample_min[i]);
            high[s] = fmaxf(high[s], e->sample_max[i]);
        }
        if (!(low[s] <= high[s])) return false;
    }
    qb_sort_floats(low, SHARDS);
    qb_sort_floats(high, SHARDS);
    const double width = (double)high[SHARDS - 1] - (double)low[0];
    const double moved = fmax((double)low[THIRD] - (double)low[0],
                              (double)high[SHARDS - 1] - (double)high[SHARDS - 1 - THIRD]);
    *moving = moved > QB_SAMPLING_MOVED * width;
    return true;
}

void qb_sampling_of(const qb_table *table, qb_sampling *out) {
    *out = (qb_sampling){.copies = count_copies(table)};
    if (table->n_recorded < SHARDS) return;
    for (int32_t i = 0; i < table->n_entries; i++) {
        bool moving;
        if (!moves(&table->entry[i], table->n_recorded, &moving)) continue;
        out->tensors++;
        out->moving += moving;
    }
}

bool qb_sampling_is_thin(const qb_sampling *sampling) {
    return sampling->moving > QB_SAMPLING_MANY * sampling->tensors;
}
