#include "tactic_ref.h"

QB_REF_TACTIC(concat, QB_KIND_CONCAT, qb_ref_concat(&kernel->problem, args->in, args->out));
