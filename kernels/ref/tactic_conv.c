#include "tactic_ref.h"

QB_REF_TACTIC(conv, QB_KIND_CONV,
              qb_ref_conv(&kernel->problem, args->in, args->out, qb_ref_threads(kernel)));
