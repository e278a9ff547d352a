#include "tactic_ref.h"

QB_REF_TACTIC(conv_transpose, QB_KIND_CONV_TRANSPOSE,
              qb_ref_conv_transpose(&kernel->problem, args->in, args->out, qb_ref_threads(kernel)));
