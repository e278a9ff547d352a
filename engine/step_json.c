#include "engine/step_json.h"

static void add_reason(json_t *step, const char *key, const char *reason) {
    if (reason) json_object_set_new(step, key, json_string(reason));
}

void qb_step_choice_json(const qb_step_info *info, json_t *step) {
    add_reason(step, "half", info->f16_reason);
    add_reason(step, "in_place", info->tactic_reason);
    add_reason(step, "fallback", info->fallback_reason);
    add_reason(step, "joined", info->fuse_reason);
    add_reason(step, "note", info->note);
    if (info->seconds <= 0) return;
    json_t *others = json_array();
    for (int32_t i = 0; i < info->n_alternatives; i++)
        json_array_append_new(others,
                              json_pack("{s:s, s:f}", "tactic", info->alternatives[i].tactic, "us",
                                        info->alternatives[i].seconds * 1e6));
    json_object_set_new(step, "us", json_real(info->seconds * 1e6));
    json_object_set_new(step, "tops", json_real(info->flops / info->seconds * 1e-12));
    json_object_set_new(step, "gb_per_s", json_real(info->bytes / info->seconds * 1e-9));
    json_object_set_new(step, "alternatives", others);
}
