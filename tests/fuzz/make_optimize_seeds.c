/* Writes the seeds in corpus/optimize: random graphs of the unit tests as models. Run by hand:
 *   gcc -std=gnu17 -D_GNU_SOURCE -I. -Itests/support -Itests/unit/graph
 * tests/fuzz/make_optimize_seeds.c tests/unit/graph/build_graph.c tests/unit/graph/random_graph.c
 * and the libraries of a build (qb_test qb_graph qb_kernels qb_base cmocka) && ./a.out
 * tests/fuzz/corpus/optimize */
#include <stdio.h>

#include "random_graph.h"

int main(int argc, char **argv) {
    for (int seed = 1; argc == 2 && seed <= 24; seed++) {
        maker m;
        char path[1024];
        maker_init(&m, (uint64_t)seed);
        make_random_graph(&m, 4 + seed % 8);
        snprintf(path, sizeof path, "%s/random_%02d.onnx", argv[1], seed);
        if (qb_onnx_save(&m.cx, m.graph, path) != QB_OK) {
            fprintf(stderr, "%s\n", m.cx.message);
            return 1;
        }
        maker_release(&m);
    }
    return argc == 2 ? 0 : 2;
}
