#include "tactic_ref.h"

QB_REF_TACTIC(softmax, QB_KIND_SOFTMAX, qb_ref_softmax(&kernel->problem, args->in, args->out));
