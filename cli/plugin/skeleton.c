#include "cli/plugin/skeleton.h"

#include "base/embed.h"

QB_EMBED(qb_skeleton_c, "examples/plugins/skeleton/skeleton.c");
QB_EMBED(qb_skeleton_cu, "examples/plugins/skeleton/skeleton.cu");
QB_EMBED(qb_skeleton_cmake, "examples/plugins/skeleton/CMakeLists.txt");
