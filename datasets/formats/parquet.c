/* parquet: is not read; says what to do instead. */
#include "datasets/shards_internal.h"

static const char *const suffixes[] = {".parquet", NULL};

static bool parquet_probe(const char *path) { return qb_shards_probe(path, suffixes); }

static qb_status parquet_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)dataset, (void)labels;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "Parquet is not read: write the rows as image files and a table of labels, five "
                   "lines of Python that docs/guides/data.md has, and give --data labels.csv");
}

const qb_dataset_format qb_format_parquet = {
    .name = "parquet",
    .text = "refused, with the way around",
    .probe = parquet_probe,
    .open = parquet_open,
};
