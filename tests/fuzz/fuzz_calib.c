/* The .calib.h5 reader. The bytes are tried as they are and, so that mutations get past the check
 * of the hash, with the user block made right. */
#include <stdlib.h>
#include <string.h>

#include "calib/table_h5_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* HDF5 1.10 loses some memory where it fails to open a damaged file, and complains of it when the
 * program ends. */
__attribute__((constructor)) static void no_complaints(void) { H5dont_atexit(); }
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

static void parse(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = NULL;
    if (qb_table_parse(&cx, "fuzz.calib.h5", data, size, &table) == QB_OK) {
        if (table->n_entries < 1 || table->n_methods < 1) abort();
        if (!qb_table_find(table, table->entry[0].name)) abort();
    } else if (table || cx.code == QB_OK || cx.message[0] == '\0') {
        abort();
    }
    qb_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size <= QB_H5_USER_BLOCK) return 0;
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data, size);
    qb_h5_user_block(copy + QB_H5_USER_BLOCK, size - QB_H5_USER_BLOCK, (char *)copy);
    parse(copy, size);
    free(copy);
    return 0;
}
