/* The texts that `qbench plugin new` starts from: examples/plugins/skeleton. */
#ifndef QB_CLI_PLUGIN_SKELETON_H
#define QB_CLI_PLUGIN_SKELETON_H

#include <stddef.h>

extern const char qb_skeleton_c[], qb_skeleton_cu[], qb_skeleton_cmake[];
extern const size_t qb_skeleton_c_size, qb_skeleton_cu_size, qb_skeleton_cmake_size;

#endif
