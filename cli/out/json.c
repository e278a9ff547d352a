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
    qb_status status = QB_OK;
    if (common->json) {
        char *dump = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
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

/* Bytes of the UTF-8 character at `s`; 0 when it is none (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    const size_t n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    const bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    const bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

void qb_utf8_repair(char *text) {
    while (*text) {
        const size_t n = utf8_length((const unsigned char *)text);
        if (n == 0) *text = '?';
        text += n ? n : 1;
    }
}

json_t *qb_json_string(const char *text) {
    char *copy = strdup(text);
    if (!copy) return NULL;
    qb_utf8_repair(copy);
    json_t *value = json_string(copy);
    free(copy);
    return value;
}
