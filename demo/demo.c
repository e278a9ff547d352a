#include "draw.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

qb_status qb_demo_draw(qb_ctx *cx, uint64_t seed, int64_t index, int32_t label, qb_image *out) {
    if (!qb_demo_class_name(label))
        return qb_fail(cx, QB_STATUS_INVALID, "demo image: label: expected 0..%d, got %d",
                       QB_DEMO_CLASSES - 1, (int)label);
    if (index < 0)
        return qb_fail(cx, QB_STATUS_INVALID, "demo image: index: expected at least 0, got %lld",
                       (long long)index);
    uint8_t *pixel = qb_alloc(cx, (size_t)QB_DEMO_SIDE * QB_DEMO_SIDE, QB_DEMO_CHANNELS);
    if (!pixel) return cx->code;
    qb_demo_pixels(seed, index, label, pixel);
    *out = (qb_image){QB_DEMO_SIDE, QB_DEMO_SIDE, QB_DEMO_CHANNELS, pixel};
    return QB_OK;
}

static qb_status write_one(qb_ctx *cx, const char *folder, uint64_t seed, int64_t index,
                           int32_t label) {
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_TRY(qb_demo_draw(cx, seed, index, label, &image));
    QB_FREED char *path = QB_NEW(cx, qb_format(cx, "%s/%04lld.png", folder, (long long)index));
    return qb_image_write_png(cx, path, &image);
}

/* Images of an earlier, larger set: they would be taken for part of this one. */
static qb_status remove_rest(qb_ctx *cx, const char *folder, int64_t first) {
    for (int64_t index = first;; index++) {
        char *path = QB_NEW(cx, qb_format(cx, "%s/%04lld.png", folder, (long long)index));
        const bool gone = unlink(path) != 0;
        const bool failed = gone && errno != ENOENT;
        if (failed) qb_fail_errno(cx, "remove %s", path);
        qb_free(path);
        if (gone) return failed ? cx->code : QB_OK;
    }
}

static qb_status write_class(qb_ctx *cx, const char *folder, uint64_t seed, int64_t per_class,
                             int32_t label, qb_progress *progress) {
    QB_FREED char *class_folder = QB_NEW(cx, qb_path_join(cx, folder, qb_demo_class_name(label)));
    QB_TRY(qb_make_dirs(cx, class_folder));
    for (int64_t index = 0; index < per_class; index++) {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(write_one(cx, class_folder, seed, index, label));
        qb_progress_step(progress, 1);
    }
    return remove_rest(cx, class_folder, per_class);
}

qb_status qb_demo_write(qb_ctx *cx, const char *folder, uint64_t seed, int64_t per_class) {
    if (per_class < 1 || per_class > INT64_C(1000000))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "demo images: number a class: expected 1..1000000, got %lld",
                       (long long)per_class);
    QB_RELEASED(qb_progress_end) qb_progress progress = {0};
    qb_progress_begin(cx, &progress, "draw", "images", per_class * QB_DEMO_CLASSES);
    for (int32_t label = 0; label < QB_DEMO_CLASSES; label++)
        QB_TRY(write_class(cx, folder, seed, per_class, label, &progress));
    return QB_OK;
}
