#include "tactic_ref.h"

QB_REF_TACTIC(unary, QB_KIND_UNARY, qb_ref_unary(&kernel->problem, args->in, args->out));
