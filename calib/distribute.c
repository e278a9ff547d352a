/* The module that mpirun's processes load: MPI behind the few calls of qb_ranks. Large messages go
 * in pieces, because MPI counts in int. */
#include "calib/distribute.h"

#include <stdlib.h>

#include <mpi.h>

#define PIECE ((size_t)1 << 30)
enum { TAG_SIZE = 1, TAG_BYTES };

static int send_bytes(int32_t to, const void *bytes, size_t n) {
    uint64_t size = n;
    int failed = MPI_Send(&size, 1, MPI_UINT64_T, to, TAG_SIZE, MPI_COMM_WORLD);
    for (size_t at = 0; !failed && at < n; at += PIECE) {
        const size_t piece = n - at < PIECE ? n - at : PIECE;
        failed =
            MPI_Send((const char *)bytes + at, (int)piece, MPI_BYTE, to, TAG_BYTES, MPI_COMM_WORLD);
    }
    return failed;
}

static int receive_bytes(int32_t from, void **bytes, size_t *n) {
    uint64_t size;
    int failed =
        MPI_Recv(&size, 1, MPI_UINT64_T, from, TAG_SIZE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (failed) return failed;
    char *data = malloc(size > 0 ? (size_t)size : 1);
    if (!data) return 1;
    for (size_t at = 0; !failed && at < size; at += PIECE) {
        const size_t piece = size - at < PIECE ? (size_t)size - at : PIECE;
        failed = MPI_Recv(data + at, (int)piece, MPI_BYTE, from, TAG_BYTES, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE);
    }
    if (failed) {
        free(data);
        return failed;
    }
    *bytes = data;
    *n = (size_t)size;
    return 0;
}

static void finish(void) { MPI_Finalize(); }

int qb_ranks_start(qb_ranks *out) {
    int rank, size, failed = MPI_Init(NULL, NULL);
    if (!failed) failed = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!failed) failed = MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!failed) *out = (qb_ranks){rank, size, send_bytes, receive_bytes, finish};
    return failed;
}
