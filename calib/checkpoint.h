/* Progress of a calibration on disk: what was gathered so far and how far in the data that is. */
#ifndef QB_CALIB_CHECKPOINT_H
#define QB_CALIB_CHECKPOINT_H

#include "calib/table.h"
#include "datasets/loader.h"

/* What a run does: model, preparation and the samples in their order, as a hash. A checkpoint is
 * for one plan. */
qb_hash qb_checkpoint_plan(qb_hash model, const qb_loader_options *loader, bool per_channel);

/* A table of statistics without ranges, as qb_gather_table gives it, how far it reaches, and what
 * was read before that (qb_loader_options). Atomic. While some tensor has had no finite value yet
 * nothing is saved. */
qb_status qb_checkpoint_save(qb_ctx *cx, const char *path, qb_hash plan,
                             const qb_loader_progress *progress, const uint64_t *seen,
                             qb_table *table);
/* QB_STATUS_MISMATCH when it belongs to another plan. *seen: of progress->next samples, new memory.
 */
qb_status qb_checkpoint_load(qb_ctx *cx, const char *path, qb_hash plan,
                             qb_loader_progress *progress, uint64_t **seen, qb_table **table);
/* The same from memory; `name` for messages. */
qb_status qb_checkpoint_parse(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                              qb_hash *plan, qb_loader_progress *progress, uint64_t **seen,
                              qb_table **table);
#endif
