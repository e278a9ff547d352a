/* segment: a class for each pixel, scored at the image's own size against masks. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "datasets/listed.h"
#include "eval/boundary.h"
#include "eval/compare_internal.h"
#include "eval/task.h"

enum { CLASSES_MAX = 254, IGNORED = 255, SMALL = 96 };
#define PIXELS_MAX ((int64_t)1 << 32) /* of an image */

/* Pixels of one class in one image, as one engine sees it. */
typedef struct counts {
    uint32_t both, truth, found;     /* in both, in the ground truth, in the engine's mask */
    uint32_t edge_truth, edge_found; /* on the class's border */
    uint32_t edge_truth_hit, edge_found_hit; /* of these near to the other's border */
} counts;

/* A mask in the image's proportions, nearest classes; class NULL: none was made. */
typedef struct small_mask {
    uint8_t *class;
    int32_t width, height;           /* of the mask */
    int32_t full_width, full_height; /* of the image */
} small_mask;

typedef struct state {
    qb_task_data data;
    const qb_coco *coco; /* NULL: masks of files, or none */
    bool has_truth;
    int32_t classes, output; /* of the model; which output has them */
    bool whole;              /* the output holds the classes' numbers */
    qb_labels names;         /* of the classes */
    int32_t *class_of;       /* COCO: of each category, -1: none */
    qb_coco_by_image by;     /* COCO: which objects an image has */
    int64_t samples;
    counts *count;   /* [engines x samples x classes] */
    int64_t *pixels; /* [engines x samples x 2]: counted, right */
    int64_t *same; /* [engines x samples]: pixels of the first engine's class in the model's size */
    int64_t *all;  /* [samples]: pixels of the model's mask */
    small_mask *small;       /* [engines x samples]: for pictures */
    uint8_t **mask;          /* [samples]: of the first engine until the last has its answer */
    bool *seen, *counts_for; /* [samples]: read; and it shows one of the classes */
    atomic_llong strays;     /* true pixels of a class that the model has not */
    atomic_int stray;        /* one of these classes */
} state;

static void segment_close(void *opened) {
    state *s = opened;
    if (!s) return;
    for (int64_t i = 0; s->mask && i < s->samples; i++) qb_free(s->mask[i]);
    for (int64_t i = 0; s->small && i < s->samples * s->data.n_engines; i++)
        qb_free(s->small[i].class);
    QB_FREE_ALL(s->small, s->class_of, s->count, s->pixels, s->same, s->all, s->mask, s->counts_for,
                s->seen);
    qb_coco_by_image_release(&s->by);
    qb_labels_release(&s->names);
    qb_free(s);
}
QB_RELEASE_AT(state, segment_close)

/* ---- which output, and how it lies ---- */

/* Height, width and channels of an output, and steps between neighbours of each. */
typedef struct plane {
    int64_t height, width, channels;
    int64_t down, across, step;
} plane;

/* Does an image of the input's sides fit these, at whatever scale? */
static bool has_aspect(const qb_loader_options *loader, int64_t height, int64_t width) {
    return height > 1 && width > 1 && height * loader->width == width * loader->height;
}

/* 1 x C x H x W or 1 x H x W x C (by the number of classes, the input's aspect, then the smaller),
 * 1 x H x W, H x W. */
static bool plane_of(const state *s, const qb_shape *shape, plane *out) {
    int64_t d[3] = {1, 1, 1};
    int32_t n = 0, from = shape->rank > 2 ? 1 : 0;
    if (shape->rank < 2 || shape->rank > 4 || (from && shape->dim[0] != 1 && shape->dim[0] >= 0))
        return false;
    for (int32_t i = from; i < shape->rank; i++) d[n++] = shape->dim[i];
    if (n == 2) {
        *out = (plane){d[0], d[1], 1, d[1], 1, 0};
        return true;
    }
    const qb_loader_options *loader = s->data.loader;
    const bool told = s->names.n > 0 && (d[0] == s->names.n) != (d[2] == s->names.n);
    const bool fits_first = has_aspect(loader, d[1], d[2]),
               fits_last = has_aspect(loader, d[0], d[1]);
    const bool last = told                      ? d[2] == s->names.n
                      : d[0] == 1 || d[2] == 1  ? d[0] != 1
                      : fits_first != fits_last ? fits_last
                                                : d[2] > 0 && d[2] < d[0];
    *out = last ? (plane){d[0], d[1], d[2], d[1] * d[2], d[2], 1}
                : (plane){d[1], d[2], d[0], d[2], 1, d[1] * d[2]};
    return true;
}

/* The output that is named, else the one with most pixels. */
static qb_status choose_output(qb_ctx *cx, state *s) {
    const qb_graph *graph = s->data.graph;
    const char *name = s->data.settings->output;
    int64_t most = -1;
    s->output = -1;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const qb_value *value = &graph->values[graph->outputs[i]];
        plane p;
        if (name && strcmp(name, value->name) == 0) {
            s->output = i;
            break;
        }
        if (!plane_of(s, &value->shape, &p) || p.height * p.width <= most) continue;
        most = p.height * p.width;
        s->output = i;
    }
    plane p;
    const qb_value *value = s->output < 0 ? NULL : &graph->values[graph->outputs[s->output]];
    if (!value || !plane_of(s, &value->shape, &p))
        return qb_fail(
            cx, QB_STATUS_UNSUPPORTED,
            "task segment: expected an output 1 x classes x H x W, 1 x H x W x classes or "
            "1 x H x W among the model's %d outputs",
            graph->n_outputs);
    s->whole = !qb_dtype_is_float(value->dtype) || (p.channels == 1 && s->names.n > 2);
    s->classes = s->whole          ? (s->names.n > 0 ? s->names.n : CLASSES_MAX)
                 : p.channels == 1 ? 2
                                   : (int32_t)p.channels;
    if (p.channels > CLASSES_MAX || p.channels < 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task segment: output '%s' has %lld classes, "
                       "the limit is %d",
                       value->name, (long long)p.channels, CLASSES_MAX);
    return QB_OK;
}

/* ---- classes ---- */

static qb_status copy_names(qb_ctx *cx, const qb_labels *from, qb_labels *out) {
    return from && from->n > 0
               ? qb_labels_from_names(cx, (const char *const *)from->name, from->n, out)
               : QB_OK;
}

/* The data's categories in their order, behind a background where the model has one class more. */
static qb_status names_of_data(qb_ctx *cx, state *s) {
    const qb_coco *c = s->coco;
    const int32_t behind = s->classes == c->n_categories + 1;
    QB_FREED const char **name = QB_NEW(cx, qb_alloc(cx, (size_t)s->classes, sizeof *name));
    for (int32_t i = 0; i < s->classes; i++)
        name[i] = i < behind                     ? "background"
                  : i - behind < c->n_categories ? c->category[i - behind].name
                                                 : "?";
    return qb_labels_from_names(cx, name, s->classes, &s->names);
}

static qb_status map_categories(qb_ctx *cx, state *s) {
    const qb_coco *c = s->coco;
    int32_t known = 0;
    QB_TRY_NEW(cx, s->class_of = qb_alloc(cx, (size_t)c->n_categories, sizeof *s->class_of));
    if (s->names.n == 0) QB_TRY(names_of_data(cx, s));
    for (int32_t k = 0; k < c->n_categories; k++) {
        s->class_of[k] = -1;
        for (int32_t i = 0; i < s->names.n && i < s->classes; i++)
            if (strcmp(s->names.name[i], c->category[k].name) == 0) s->class_of[k] = i;
        known += s->class_of[k] >= 0;
    }
    if (known > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "task segment: no category of the data is called as one of the model's %d "
                   "classes ('%s', ...): name them with segmentation.classes in the sidecar or "
                   "qbench.yaml",
                   s->classes, s->names.n > 0 ? s->names.name[s->names.n - 1] : "");
}

static qb_status allocate(qb_ctx *cx, state *s) {
    const size_t samples = (size_t)s->samples, each = samples * (size_t)s->data.n_engines;
    QB_TRY_NEW(cx, s->count = qb_alloc(cx, each * (size_t)s->classes, sizeof *s->count));
    QB_TRY_NEW(cx, s->pixels = qb_alloc(cx, 2 * each, sizeof *s->pixels));
    QB_TRY_NEW(cx, s->same = qb_alloc(cx, each, sizeof *s->same));
    QB_TRY_NEW(cx, s->all = qb_alloc(cx, samples, sizeof *s->all));
    QB_TRY_NEW(cx, s->mask = qb_alloc(cx, samples, sizeof *s->mask));
    QB_TRY_NEW(cx, s->small = qb_alloc(cx, each, sizeof *s->small));
    QB_TRY_NEW(cx, s->seen = qb_alloc(cx, samples, sizeof *s->seen));
    QB_TRY_NEW(cx, s->counts_for = qb_alloc(cx, samples, sizeof *s->counts_for));
    return QB_OK;
}

static qb_status segment_open(qb_ctx *cx, const qb_task_data *data, void **out) {
    const qb_dataset *dataset = data->loader->dataset;
    if (qb_dataset_has_tensors(dataset))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task segment: expected images with masks, got tensors");
    QB_RELEASED(segment_close_at) state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    *s = (state){
        .data = *data, .coco = qb_dataset_truth(dataset), .samples = qb_dataset_count(dataset)};
    const qb_labels *told = &data->settings->segment.classes;
    QB_TRY(copy_names(cx, told->n > 0 ? told : data->labels, &s->names));
    QB_TRY(choose_output(cx, s));
    s->has_truth = s->coco != NULL || qb_dataset_has_masks(dataset);
    if (s->coco) {
        QB_TRY(map_categories(cx, s));
        QB_TRY(qb_coco_by_image_create(cx, s->coco, &s->by));
    }
    QB_TRY(allocate(cx, s));
    if (!s->has_truth)
        qb_warn(cx, "the data have no masks: engines are compared with the first one only (COCO's "
                    "ground truth: --data instances.json; masks as PNG: a folder with images/ and "
                    "masks/)");
    *out = QB_MOVE(s);
    return QB_OK;
}

/* ---- one image ---- */

/* The class of each pixel of the output; IGNORED, which is never right, where there is none. One
 * channel holds the second class's probability, or its
 * logit where values leave 0 to 1. */
static void classify(const state *s, const float *v, const plane *p, uint8_t *mask) {
    double threshold = s->data.settings->segment.threshold;
    const int64_t n = p->height * p->width;
    for (int64_t i = 0; p->channels == 1 && !s->whole && i < n; i++)
        if (v[i] < -0.01F || v[i] > 1.01F) {
            threshold = log(threshold / (1 - threshold));
            break;
        }
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++) {
            const float *at = v + y * p->down + x * p->across;
            int64_t best = 0;
            if (s->whole)
                best = *at >= 0 && *at < (float)s->classes ? (int64_t)*at : IGNORED;
            else if (p->channels == 1)
                best = isnan(*at) ? QB_NO_ANSWER : *at > threshold;
            else
                best = qb_best_of(at, p->channels, p->step);
            mask[y * p->width + x] = (uint8_t)(best == QB_NO_ANSWER ? IGNORED : best);
        }
}

/* The masks of COCO's objects, later ones over earlier ones; what only crowds cover is ignored. */
static qb_status paint_objects(qb_ctx *cx, const state *s, int32_t image, qb_image *out) {
    const size_t from = s->by.first[image], to = s->by.first[image + 1];
    QB_FREED uint8_t *crowd = QB_NEW(cx, qb_alloc(cx, (size_t)out->width * (size_t)out->height, 1));
    for (size_t i = from; i < to; i++) {
        const qb_coco_object *o = &s->coco->objects.item[s->by.object[i]];
        QB_RELEASED(qb_rle_release) qb_rle rle = {0};
        if (o->category < 0 || s->class_of[o->category] < 0 || o->mask == 0) continue;
        QB_TRY(qb_coco_mask(cx, s->coco, &s->coco->objects, o, &rle));
        const uint8_t value = (uint8_t)s->class_of[o->category];
        qb_rle_paint(&rle, o->crowd ? 1 : value, o->crowd ? crowd : out->pixel);
    }
    for (int64_t i = 0; i < (int64_t)out->width * out->height; i++)
        if (crowd[i] && out->pixel[i] == 0) out->pixel[i] = IGNORED;
    return QB_OK;
}

/* Does a COCO image show one of the classes? Others say nothing of the model's. */
static bool shows_class(const state *s, int32_t image) {
    for (size_t i = s->by.first[image]; i < s->by.first[image + 1]; i++) {
        const qb_coco_object *o = &s->coco->objects.item[s->by.object[i]];
        if (!o->crowd && o->mask != 0 && o->category >= 0 && s->class_of[o->category] >= 0)
            return true;
    }
    return false;
}

/* Masks of one class are often black and white: 255 is the class where nothing else is. */
static void widen_binary(qb_image *mask) {
    const int64_t n = (int64_t)mask->width * mask->height;
    for (int64_t i = 0; i < n; i++)
        if (mask->pixel[i] != 0 && mask->pixel[i] != IGNORED) return;
    for (int64_t i = 0; i < n; i++) mask->pixel[i] = mask->pixel[i] != 0;
}

/* The image's true classes, new memory. */
static qb_status read_truth(qb_ctx *cx, const state *s, int64_t index, qb_image *out) {
    if (!s->coco) {
        QB_TRY(qb_dataset_read_mask(cx, s->data.loader->dataset, index, out));
        if (s->classes == 2) widen_binary(out);
        return QB_OK;
    }
    const int32_t k = qb_dataset_truth_image(s->data.loader->dataset, index);
    const qb_coco_image *image = &s->coco->image[k];
    *out = (qb_image){.width = image->width, .height = image->height, .channels = 1};
    QB_TRY_NEW(cx, out->pixel = qb_alloc(cx, (size_t)image->width * (size_t)image->height, 1));
    return paint_objects(cx, s, k, out);
}

/* The place in the mask of each pixel along one side: nearest, through the preparation. Outside of
 * what the model saw (a crop) the edge counts. */
static void places(double scale, double offset, int64_t input, int64_t sides, int32_t n,
                   int32_t *out) {
    const double unit = (double)sides / (double)input;
    for (int32_t i = 0; i < n; i++) {
        /* The small part keeps exact halves from falling short by rounding. */
        const double at = floor(((i + 0.5) * scale + offset) * unit + 1e-9);
        out[i] = (int32_t)fmin(fmax(at, 0), (double)(sides - 1));
    }
}

/* The mask in the image's size; ignored where the ground truth is. */
static qb_status enlarge(qb_ctx *cx, const state *s, const uint8_t *mask, const plane *p,
                         const qb_image *truth, uint8_t *out) {
    const qb_loader_options *loader = s->data.loader;
    int32_t width = truth->width, height = truth->height;
    qb_pixel_map map;
    QB_TRY(qb_preprocess_map(cx, &loader->preprocess, truth->width, truth->height, &map));
    QB_TRY(qb_preprocess_size(cx, &loader->preprocess, &width, &height));
    QB_FREED int32_t *column =
        QB_NEW(cx, qb_alloc(cx, (size_t)truth->width + (size_t)truth->height, sizeof *column));
    int32_t *row = column + truth->width;
    places(map.scale[0], map.offset[0], width, p->width, truth->width, column);
    places(map.scale[1], map.offset[1], height, p->height, truth->height, row);
    for (int64_t y = 0; y < truth->height; y++)
        for (int64_t x = 0; x < truth->width; x++) {
            const int64_t i = y * truth->width + x;
            out[i] = truth->pixel[i] == IGNORED ? IGNORED : mask[row[y] * p->width + column[x]];
        }
    return QB_OK;
}

static qb_status count_image(qb_ctx *cx, state *s, int64_t slot, const qb_image *truth,
                             const uint8_t *found) {
    counts *count = s->count + slot * s->classes;
    const int64_t n = (int64_t)truth->width * truth->height;
    int64_t strays = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t t = truth->pixel[i], f = found[i];
        if (t == IGNORED) continue;
        if (t >= s->classes && strays++ == 0) atomic_store(&s->stray, t);
        s->pixels[2 * slot]++;
        s->pixels[2 * slot + 1] += t == f;
        if (t < s->classes) count[t].truth++;
        if (f < s->classes) count[f].found++;
        if (t == f && t < s->classes) count[t].both++;
    }
    if (slot < s->samples) atomic_fetch_add(&s->strays, strays); /* once for all engines */
    for (int32_t k = 0; k < s->classes; k++) {
        qb_boundary edge;
        if (count[k].truth == 0 && count[k].found == 0) continue;
        QB_TRY(qb_boundary_compare(cx, truth->pixel, found, truth->width, truth->height, (uint8_t)k,
                                   IGNORED, &edge));
        count[k].edge_truth = edge.first;
        count[k].edge_found = edge.second;
        count[k].edge_truth_hit = edge.first_near;
        count[k].edge_found_hit = edge.second_near;
    }
    return QB_OK;
}

/* Sides of at most SMALL, for a picture. */
static qb_status keep_small(qb_ctx *cx, const qb_image *truth, const uint8_t *found,
                            small_mask *out) {
    const int32_t most = truth->width > truth->height ? truth->width : truth->height;
    const int32_t side = most > SMALL ? SMALL : most;
    out->full_width = truth->width;
    out->full_height = truth->height;
    out->width = (int32_t)fmax(1, (double)truth->width * side / most);
    out->height = (int32_t)fmax(1, (double)truth->height * side / most);
    QB_TRY_NEW(cx, out->class = qb_alloc(cx, (size_t)out->width * (size_t)out->height, 1));
    for (int32_t y = 0; y < out->height; y++)
        for (int32_t x = 0; x < out->width; x++)
            out->class[y * out->width + x] =
                found[(int64_t)y * truth->height / out->height * truth->width +
                      (int64_t)x * truth->width / out->width];
    return QB_OK;
}

static qb_status score_image(qb_ctx *cx, state *s, int64_t slot, int64_t index, const uint8_t *mask,
                             const plane *p) {
    QB_RELEASED(qb_image_release) qb_image truth = {0};
    QB_TRY(read_truth(cx, s, index, &truth));
    QB_FREED uint8_t *found = qb_alloc(cx, (size_t)truth.width * (size_t)truth.height, 1);
    QB_TRY(found ? enlarge(cx, s, mask, p, &truth, found) : cx->code);
    QB_TRY(count_image(cx, s, slot, &truth, found));
    return keep_small(cx, &truth, found, &s->small[slot]);
}

/* Pixels of the first engine's class; the last engine lets its mask go. */
static void count_same(state *s, int32_t engine, int64_t index, uint8_t *mask, int64_t n) {
    if (engine == 0) {
        qb_free(s->mask[index]);
        s->mask[index] = mask;
        s->all[index] = n;
    }
    for (int64_t i = 0; s->all[index] == n && i < n; i++)
        s->same[engine * s->samples + index] += mask[i] == s->mask[index][i] && mask[i] != IGNORED;
    if (engine > 0) qb_free(mask);
    if (engine == s->data.n_engines - 1) qb_free(QB_MOVE(s->mask[index]));
}

static qb_status segment_outputs(qb_ctx *cx, void *opened, int32_t engine, int64_t index,
                                 const qb_tensor *output, int32_t n) {
    state *s = opened;
    plane p;
    if (s->output >= n || !plane_of(s, &output[s->output].desc.shape, &p) || p.height < 1 ||
        p.width < 1 || (!s->whole && p.channels != 1 && p.channels != s->classes))
        return qb_fail(cx, QB_STATUS_MISMATCH, "task segment: output %d has another shape",
                       s->output);
    uint8_t *mask = QB_NEW(cx, qb_alloc(cx, (size_t)(p.height * p.width), 1));
    classify(s, output[s->output].data, &p, mask);
    const int64_t slot = engine * s->samples + index;
    const qb_dataset *dataset = s->data.loader->dataset;
    const bool counts_for =
        s->has_truth && (!s->coco || shows_class(s, qb_dataset_truth_image(dataset, index)));
    const qb_status status = counts_for ? score_image(cx, s, slot, index, mask, &p) : QB_OK;
    s->seen[index] = true; /* by every engine with the same value */
    s->counts_for[index] = counts_for;
    count_same(s, engine, index, mask, p.height * p.width);
    return status;
}

static void pack_small(qb_pack *p, small_mask *m) {
    void *class = m->class;
    int64_t n = (int64_t)m->width * m->height;
    QB_PACK(p, m->width);
    QB_PACK(p, m->height);
    QB_PACK(p, m->full_width);
    QB_PACK(p, m->full_height);
    qb_pack_list(p, &class, &n, 1);
    m->class = class;
    if (m->width < 0 || m->width > SMALL || m->height < 0 || m->height > SMALL ||
        n != (int64_t)m->width * m->height)
        qb_pack_refuse(p, "a picture of another size");
}

static qb_status segment_pack(qb_pack *part, int32_t n, const qb_task_data *data, void **opened) {
    state *s = QB_NEW(part->cx, part->reads ? qb_alloc(part->cx, 1, sizeof *s) : *opened);
    *opened = s;
    if (part->reads)
        *s = (state){.data = *data, .samples = qb_dataset_count(data->loader->dataset)};
    for (int32_t k = 0; k < n; k++) {
        qb_labels_release(part->reads ? &s->names : &(qb_labels){0});
        QB_PACK(&part[k], s->classes);
        qb_pack_bool(&part[k], &s->has_truth);
        qb_labels_pack(&part[k], &s->names);
        if (s->classes < 1 || s->classes > CLASSES_MAX) qb_pack_refuse(&part[k], "classes");
        QB_TRY(part[k].status);
    }
    if (part->reads) QB_TRY(allocate(part->cx, s));
    for (int64_t i = 0; i < s->samples; i++) {
        qb_pack *p = &part[i % n];
        qb_pack_bool(p, &s->seen[i]);
        qb_pack_bool(p, &s->counts_for[i]);
        qb_pack_number_of(p, &s->all[i], PIXELS_MAX);
        for (int32_t e = 0; s->seen[i] && e < data->n_engines; e++) {
            const int64_t slot = e * s->samples + i;
            qb_pack_number_of(p, &s->same[slot], s->all[i]);
            if (!s->counts_for[i]) continue;
            pack_small(p, &s->small[slot]);
            qb_pack_number_of(p, &s->pixels[2 * slot], PIXELS_MAX);
            qb_pack_number_of(p, &s->pixels[2 * slot + 1], s->pixels[2 * slot]);
            qb_pack_bytes(p, s->count + slot * s->classes, (size_t)s->classes * sizeof *s->count);
        }
        QB_TRY(p->status);
    }
    return QB_OK;
}

/* ---- all images ---- */

static const qb_task_metric segment_metric[] = {
    {{"miou", "mIoU", "%",
      "mean over classes of pixels in both masks over pixels in either, all images together (those "
      "of COCO that show none of the classes do not count); interval: bootstrap over images"},
     true},
    {{"pixel_accuracy", "pixel accuracy", "%", "pixels of the right class"}, true},
    {{"boundary_f", "boundary F", "%",
      "mean over classes of the F score of border pixels that lie within 0.75 % of the image's "
      "diagonal of the other border"},
     true},
};
enum { METRICS = sizeof segment_metric / sizeof *segment_metric };

/* A class's counts over all images. */
typedef struct sums {
    double both, truth, found, edge[4];
} sums;

static void add_counts(sums *to, const counts *c, int32_t weight) {
    to->both += (double)weight * c->both;
    to->truth += (double)weight * c->truth;
    to->found += (double)weight * c->found;
    const uint32_t edge[] = {c->edge_truth, c->edge_truth_hit, c->edge_found, c->edge_found_hit};
    for (int i = 0; i < 4; i++) to->edge[i] += (double)weight * edge[i];
}

static double iou_of(const sums *c) {
    const double either = c->truth + c->found - c->both;
    return either > 0 ? 100 * c->both / either : NAN;
}

static double boundary_of(const sums *c) {
    if (c->edge[0] + c->edge[2] == 0) return NAN;
    const double recall = c->edge[0] > 0 ? c->edge[1] / c->edge[0] : 0;
    const double precision = c->edge[2] > 0 ? c->edge[3] / c->edge[2] : 0;
    return recall + precision > 0 ? 200 * recall * precision / (recall + precision) : 0;
}

/* Of all classes, with `weight` images. */
static qb_status sum_classes(qb_ctx *cx, const state *s, int32_t engine, const int32_t *weight,
                             sums **out) {
    QB_TRY_NEW(cx, *out = qb_alloc(cx, (size_t)s->classes, sizeof **out));
    for (int64_t i = 0; i < s->samples; i++)
        for (int32_t k = 0; weight[i] > 0 && k < s->classes; k++)
            add_counts(&(*out)[k], &s->count[(engine * s->samples + i) * s->classes + k],
                       weight[i]);
    return QB_OK;
}

static qb_status segment_values(qb_ctx *cx, const void *opened, int32_t engine,
                                const int32_t *weight, bool draw, double value[QB_TASK_METRICS]) {
    (void)draw;
    const state *s = opened;
    QB_FREED sums *sum = NULL;
    QB_TRY(sum_classes(cx, s, engine, weight, &sum));
    double iou = 0, edge = 0, pixels = 0, right = 0;
    int32_t classes = 0, edges = 0;
    for (int32_t k = 0; k < s->classes; k++) {
        const double a = iou_of(&sum[k]), b = boundary_of(&sum[k]);
        if (!isnan(a)) iou += a, classes++;
        if (!isnan(b)) edge += b, edges++;
    }
    for (int64_t i = 0; i < s->samples; i++) {
        const int64_t *p = s->pixels + 2 * (engine * s->samples + i);
        pixels += (double)weight[i] * (double)p[0];
        right += (double)weight[i] * (double)p[1];
    }
    value[0] = classes > 0 ? iou / classes : NAN;
    value[1] = pixels > 0 ? 100 * right / pixels : NAN;
    value[2] = edges > 0 ? edge / edges : NAN;
    return QB_OK;
}

/* IoU of each class that occurs. */
static qb_status add_classes(qb_ctx *cx, const state *s, int32_t engine, qb_run_row *row) {
    QB_FREED int32_t *weight = QB_NEW(cx, qb_alloc(cx, (size_t)s->samples, sizeof *weight));
    QB_FREED sums *sum = NULL;
    char text[16];
    for (int64_t i = 0; i < s->samples; i++) weight[i] = s->counts_for[i];
    QB_TRY(sum_classes(cx, s, engine, weight, &sum));
    for (int32_t k = 0; k < s->classes; k++) {
        snprintf(text, sizeof text, "%d", k);
        if (isnan(iou_of(&sum[k]))) continue;
        QB_TRY(qb_run_class_score_add(cx, row, k < s->names.n ? s->names.name[k] : text,
                                      iou_of(&sum[k]), (int64_t)sum[k].truth));
    }
    return QB_OK;
}

/* ---- pictures ---- */

static double segment_badness(const void *opened, int32_t engine, int64_t index) {
    const state *s = opened;
    const int64_t all = s->all[index];
    if (s->has_truth && !s->counts_for[index]) return 0; /* it says nothing of the classes */
    return all > 0 ? 1 - (double)s->same[engine * s->samples + index] / (double)all : 0;
}

/* Classes as colours that stay apart, the first one black; pixels that do not count are grey. */
static qb_status picture_of(qb_ctx *cx, const small_mask *m, char **out) {
    static const uint8_t color[8][3] = {{230, 159, 0},   {86, 180, 233}, {0, 158, 115},
                                        {240, 228, 66},  {0, 114, 178},  {213, 94, 0},
                                        {204, 121, 167}, {255, 255, 255}};
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_TRY(qb_image_create(cx, "mask", m->width, m->height, 3, &image));
    for (int32_t i = 0; i < m->width * m->height; i++)
        for (int c = 0; c < 3; c++)
            image.pixel[3 * i + c] = m->class[i] == IGNORED ? 128
                                     : m->class[i] > 0      ? color[(m->class[i] - 1) % 8][c]
                                                            : 0;
    return qb_picture_text(cx, "mask", &image, out);
}

static qb_status segment_illustrate(qb_ctx *cx, const void *opened, int32_t engine, int64_t index,
                                    qb_run_shown *shown, qb_run_worst *out) {
    const state *s = opened;
    const small_mask *first = &s->small[index], *own = &s->small[engine * s->samples + index];
    if (!first->class || !own->class) return QB_OK;
    shown->width = first->full_width;
    shown->height = first->full_height;
    QB_TRY(picture_of(cx, first, &out->reference_mask));
    return picture_of(cx, own, &out->mask);
}

static const qb_metric_label same_metric = {
    "same_pixels", "same pixels", "%", "pixels of the model's mask with the first row's class"};

static qb_status segment_finish(qb_ctx *cx, void *opened, qb_run *run) {
    const state *s = opened;
    const qb_task_scores scores = {.metric = segment_metric,
                                   .n = METRICS,
                                   .n_engines = s->data.n_engines,
                                   .samples = s->samples,
                                   .seen = s->counts_for,
                                   .value = segment_values,
                                   .state = s};
    if (atomic_load(&s->strays) > 0)
        qb_warn(
            cx,
            "task segment: %lld true pixels are of classes that the model has not (%d; it has 0 "
            "to %d, %d is ignored): they count as wrong",
            (long long)s->strays, (int)s->stray, (int)s->classes - 1, IGNORED);
    if (s->has_truth) QB_TRY(qb_task_score(cx, &scores, run));
    for (int32_t e = 0; e < s->data.n_engines; e++) {
        int64_t same = 0, all = 0;
        for (int64_t i = 0; i < s->samples; i++) {
            same += s->same[e * s->samples + i];
            all += s->all[i];
        }
        QB_TRY(qb_run_number_add(cx, &run->row[e], &same_metric,
                                 all > 0 ? 100 * (double)same / (double)all : NAN));
        if (s->has_truth) QB_TRY(add_classes(cx, s, e, &run->row[e]));
    }
    return QB_OK;
}

/* Masks, and an output as fine as an eighth of the input. */
static bool segment_fits(qb_ctx *cx, const qb_task_data *data) {
    (void)cx;
    const qb_dataset *dataset = data->loader->dataset;
    state s = {.data = *data};
    plane p;
    bool fine = false;
    if (!qb_dataset_truth(dataset) && !qb_dataset_has_masks(dataset)) return false;
    for (int32_t i = 0; i < data->graph->n_outputs; i++)
        fine = fine || (plane_of(&s, &data->graph->values[data->graph->outputs[i]].shape, &p) &&
                        has_aspect(data->loader, p.height, p.width) &&
                        p.height * 8 >= data->loader->height);
    return fine;
}

const qb_task qb_task_segment = {
    .name = "segment",
    .text = "a class for each pixel",
    .words = "segmentation matting",
    .metric = "miou",
    .method = "auto", /* entropy cuts off the rare large values that boxes and masks are made of */
    .fits = segment_fits,
    .open = segment_open,
    .outputs = segment_outputs,
    .finish = segment_finish,
    .pack = segment_pack,
    .badness = segment_badness,
    .illustrate = segment_illustrate,
    .close = segment_close,
};
