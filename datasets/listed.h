/* Data sets of which only a list is there: names, labels and ground truth, as a part of a
 * comparison tells them. Their samples cannot be read. */
#ifndef QB_DATASETS_LISTED_H
#define QB_DATASETS_LISTED_H

#include "base/pack.h"
#include "datasets/dataset.h"

/* An empty one, to be filled by qb_dataset_pack; `path` is for messages. */
qb_status qb_dataset_list(qb_ctx *cx, const char *path, qb_dataset **out);
/* Writes what is known of the samples but for masks (n is 1), or reads n parts of one data set:
 * sample i is the next one of part i modulo n. */
qb_status qb_dataset_pack(qb_pack *part, int32_t n, qb_dataset *dataset);
/* Names of classes; *labels is empty before it is read. */
void qb_labels_pack(qb_pack *p, qb_labels *labels);
/* Tells data sets apart without reading their samples: the names in their order, labels and ground
 * truth. */
qb_status qb_dataset_digest(qb_ctx *cx, const qb_dataset *dataset, qb_hash *out);
#endif
