/* Sizes of inputs on the command line: one set of them, or ranges (profiles). */
#ifndef QB_CLI_SETTINGS_SHAPE_FLAGS_H
#define QB_CLI_SETTINGS_SHAPE_FLAGS_H

#include "base/opt.h"
#include "engine/profiles.h"

typedef struct qb_shape_flags {
    const char *shapes;   /* --shapes; NULL */
    qb_opt_list profiles; /* --profile, --minShapes, --optShapes, --maxShapes as they came */
} qb_shape_flags;

/* Rows of an option struct with a member `qb_shape_flags sizes`. */
#define QB_SHAPE_OPTIONS(STRUCT)                                                                   \
    QB_TEXT(STRUCT, "shapes", sizes.shapes, "NAME:AxB,...", "sizes of inputs: input:1x3x224x224"), \
        QB_NAMED(STRUCT, "minShapes", sizes.profiles, "NAME:AxB,...",                              \
                 "smallest sizes that the engine takes"),                                          \
        QB_NAMED(STRUCT, "optShapes", sizes.profiles, "NAME:AxB,...",                              \
                 "usual sizes: kernels are chosen for them"),                                      \
        QB_NAMED(STRUCT, "maxShapes", sizes.profiles, "NAME:AxB,...",                              \
                 "largest sizes: memory is planned for them"),                                     \
        QB_NAMED(STRUCT, "profile", sizes.profiles, "N",                                           \
                 "the profile that the following --minShapes, --optShapes and --maxShapes are of " \
                 "(default: 0)")

/* Sizes by name into shapes[n]: "in:1x3x224x224,in2:8x128"; the only input needs no name. What is
 * not named stays as it is. `option` is for messages. */
qb_status qb_shapes_parse(qb_ctx *cx, const char *option, const char *text,
                          const char *const *names, int32_t n, qb_shape *shapes);

/* The profiles that the flags ask for; *n is 0 without any. One block of new memory. Of min, opt
 * and max those that are missing follow from the others (opt from max, min and max from opt);
 * inputs that are not named keep the model's own shape, with the batch for a symbolic first
 * dimension. */
qb_status qb_profiles_parse(qb_ctx *cx, const qb_shape_flags *flags, const qb_graph *graph,
                            int64_t batch, qb_profile **out, int32_t *n);

/* The plan of an engine that a run should take: for the sizes in `shapes` (the others as they are)
 * by a profile (-1: the one that fits them best) or, without them, for its usual ones (-1: those of
 * the first). */
qb_status qb_shapes_plan(qb_ctx *cx, const qb_engine *engine, const char *shapes, int64_t profile,
                         const qb_engine **plan);

#endif
