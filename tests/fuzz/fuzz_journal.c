/* What a search has measured, on any bytes: what is taken over is the same when it is read again,
 * and a last line that was cut is gone from the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "search/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The results that were taken over; -1: refused. */
static int32_t read_journal(const char *path) {
    qb_ctx cx;
    qb_journal *journal = NULL;
    qb_ctx_init(&cx);
    json_t *of = json_pack("{s:s}", "model", "m");
    if (qb_journal_open(&cx, path, of, true, &journal) != QB_OK) {
        if (journal || cx.message[0] == '\0' || cx.code == QB_STATUS_INTERNAL) abort();
        return -1;
    }
    const int32_t taken = qb_journal_taken(journal);
    (void)qb_journal_find(journal, "score", "a");
    if (qb_journal_add(&cx, journal, "score", "a", json_real(1)) != QB_OK) abort();
    if (!qb_journal_find(journal, "score", "a")) abort();
    qb_journal_close(journal);
    return taken;
}

static char folder[] = "/tmp/qb_fuzz_journal.XXXXXX";

static void remove_folder(void) { rmdir(folder); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool made;
    char path[sizeof folder + 8];
    if (!made && !mkdtemp(folder)) abort();
    if (!made) atexit(remove_folder);
    made = true;
    snprintf(path, sizeof path, "%s/cache", folder); /* it is replaced, not written to */
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
    const int32_t taken = read_journal(path);
    if (taken >= 0 && read_journal(path) != taken + 1) abort();
    unlink(path);
    return 0;
}
