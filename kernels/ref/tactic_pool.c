#include "tactic_ref.h"

QB_REF_TACTIC(pool, QB_KIND_POOL,
              qb_ref_pool(&kernel->problem, args->in, args->out, NULL, qb_ref_threads(kernel)));
