#include "tactic_ref.h"

QB_REF_TACTIC(attention, QB_KIND_ATTENTION,
              qb_ref_attention(&kernel->problem, args->in, args->out));
