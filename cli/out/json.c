#include "cli/out/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

bool qb_json_on_stdout(const qb_common *common) {
    return common->json && strcmp(common->json, "-") == 0;
}

qb_status qb_json_text_out(qb_ctx *cx, const qb_common *common, const char *text) {
    if (!common->json) return QB_OK;
    if (!qb_json_on_stdout(common)) return qb_file_write(cx, common->json, text, strlen(text));
    fputs(text, stdout); /* the stream is checked once, when the command is done */
    return QB_OK;
}

qb_status qb_json_out(qb_ctx *cx, const qb_common *common, json_t *root) {
    return qb_json_out_digits(cx, common, root, 9);
}

qb_status qb_json_out_digits(qb_ctx *cx, const qb_common *common, json_t *root, int digits) {
    qb_status status = QB_OK;
    if (common->json) {
        const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(digits);
        char *dump = root ? json_dumps(root, flags) : NULL;
        char *text = dump ? qb_format(cx, "%s\n", dump) : NULL;
        free(dump);
        if (text)
            status = qb_json_text_out(cx, common, text);
        else
            status = qb_fail(cx, QB_STATUS_INTERNAL, "--json: the result could not be made");
        qb_free(text);
    }
    json_decref(root);
    return status;
}
