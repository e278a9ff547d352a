#include "tactic_ref.h"

QB_REF_TACTIC(matmul, QB_KIND_MATMUL,
              qb_ref_matmul(&kernel->problem, args->in, args->out, qb_ref_threads(kernel)));
