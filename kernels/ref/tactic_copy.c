#include "tactic_ref.h"

QB_REF_TACTIC(copy, QB_KIND_COPY, qb_ref_copy(&kernel->problem, args->in, args->out));
