#include "tactic_ref.h"

QB_REF_TACTIC(binary, QB_KIND_BINARY, qb_ref_binary(&kernel->problem, args->in, args->out));
