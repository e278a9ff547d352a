#include "datasets/listed.h"

#include "datasets/truth_internal.h"

static const qb_dataset_format listed = {.name = "list of samples", .text = "names alone"};

qb_status qb_dataset_list(qb_ctx *cx, const char *path, qb_dataset **out) {
    QB_RELEASED(qb_dataset_close_at)
    qb_dataset *dataset = QB_NEW(cx, qb_alloc(cx, 1, sizeof *dataset));
    dataset->format = &listed;
    dataset->has_tensors = true; /* there are no images to be had */
    QB_TRY(qb_arena_create(cx, &dataset->arena));
    QB_TRY_NEW(cx, dataset->path = dataset->root = qb_arena_strdup(cx, dataset->arena, path));
    *out = QB_MOVE(dataset);
    return QB_OK;
}

/* What a name is while it is read, into the arena. */
static const char *pack_name(qb_pack *p, qb_arena *arena, const char *name) {
    char *text = (char *)(uintptr_t)name; /* only written */
    qb_pack_text(p, &text);
    if (!p->reads) return name;
    const char *kept = p->status == QB_OK ? qb_arena_strdup(p->cx, arena, text) : NULL;
    if (p->status == QB_OK && !kept) p->status = p->cx->code;
    qb_free(text);
    return kept;
}

void qb_labels_pack(qb_pack *p, qb_labels *labels) {
    int64_t n = labels->n;
    qb_pack_count(p, &n, sizeof(int64_t));
    char **name = p->reads ? qb_alloc(p->cx, (size_t)n + 1, sizeof *name) : labels->name;
    if (!name && n > 0) p->status = p->cx->code;
    for (int64_t i = 0; i < n && p->status == QB_OK; i++) qb_pack_text(p, &name[i]);
    if (!p->reads) return;
    if (p->status == QB_OK && n > 0)
        p->status = qb_labels_from_names(p->cx, (const char *const *)name, (int)n, labels);
    for (int64_t i = 0; name && i < n; i++) qb_free(name[i]);
    qb_free(name);
}

/* The categories; of several parts those of the first one stay. */
static qb_status pack_categories(qb_pack *p, qb_dataset *dataset) {
    bool truth = dataset->truth != NULL;
    qb_pack_bool(p, &truth);
    if (!truth) return p->status;
    if (p->reads && !dataset->truth) QB_TRY(qb_truth_begin(p->cx, dataset));
    qb_coco *t = dataset->truth;
    int64_t n = t->n_categories;
    const bool first = p->reads && n == 0;
    qb_pack_count(p, &n, sizeof(int64_t));
    for (int64_t i = 0; i < n && p->status == QB_OK; i++) {
        int64_t id = p->reads ? 0 : t->category[i].id;
        QB_PACK(p, id);
        const char *name = pack_name(p, t->arena, p->reads ? NULL : t->category[i].name);
        if (!first || !name) continue;
        QB_TRY(qb_truth_add_category(p->cx, t, name));
        t->category[i].id = id;
    }
    if (p->reads && n != t->n_categories) qb_pack_refuse(p, "another number of categories");
    return p->status;
}

/* One object of the last image. */
static qb_status pack_object(qb_pack *p, qb_coco *t, const qb_coco_object *from) {
    qb_coco_object o = from ? *from : (qb_coco_object){0};
    QB_PACK(p, o.category);
    QB_PACK(p, o.box);
    QB_PACK(p, o.area);
    qb_pack_bool(p, &o.crowd);
    if (!p->reads || p->status != QB_OK) return p->status;
    if (o.category < -1 || o.category >= t->n_categories)
        qb_pack_refuse(p, "an object of no category");
    else if (qb_truth_add_object(p->cx, t, o.category, o.box, o.crowd) != QB_OK)
        p->status = p->cx->code;
    else
        t->objects.item[t->objects.n - 1].area = o.area;
    return p->status;
}

static qb_status pack_image(qb_pack *p, qb_dataset *dataset, int64_t index,
                            const qb_coco_by_image *by) {
    qb_coco *t = dataset->truth;
    const int32_t at = p->reads ? 0 : qb_dataset_truth_image(dataset, index);
    qb_coco_image image = p->reads ? (qb_coco_image){0} : t->image[at];
    int64_t n = p->reads ? 0 : (int64_t)(by->first[at + 1] - by->first[at]);
    QB_PACK(p, image.id);
    QB_PACK(p, image.width);
    QB_PACK(p, image.height);
    qb_pack_count(p, &n, sizeof(double));
    image.file_name = "";
    if (p->reads && p->status == QB_OK) p->status = qb_truth_put_image(p->cx, t, &image);
    for (int64_t i = 0; i < n && p->status == QB_OK; i++)
        pack_object(p, t,
                    p->reads ? NULL : &t->objects.item[by->object[by->first[at] + (size_t)i]]);
    return p->status;
}

static qb_status pack_sample(qb_pack *p, qb_dataset *dataset, int64_t index,
                             const qb_coco_by_image *by) {
    int32_t label = p->reads ? 0 : dataset->sample[index].label;
    QB_PACK(p, label);
    const char *name = pack_name(p, dataset->arena, p->reads ? NULL : dataset->sample[index].name);
    if (p->reads && p->status == QB_OK)
        p->status = qb_dataset_add(p->cx, dataset, name, index, label < 0 ? -1 : label);
    return dataset->truth ? pack_image(p, dataset, index, by) : p->status;
}

qb_status qb_dataset_pack(qb_pack *part, int32_t n, qb_dataset *dataset) {
    int64_t all = 0, last = 0;
    qb_coco_by_image by = {0};
    for (int32_t k = 0; k < n; k++) {
        qb_pack *p = &part[k];
        int64_t count = p->reads ? 0 : qb_dataset_count(dataset);
        qb_pack_bool(p, &dataset->has_labels);
        QB_PACK(p, dataset->n_classes);
        qb_pack_count(p, &count, sizeof(int32_t));
        QB_TRY(pack_categories(p, dataset));
        if (k > 0 && (count > last || count < all / k - 1))
            qb_pack_refuse(p, "another number of samples than a part has");
        all += count;
        last = count;
    }
    for (int32_t k = 0; k < n; k++) QB_TRY(part[k].status);
    if (!part->reads && dataset->truth)
        QB_TRY(qb_coco_by_image_create(part->cx, dataset->truth, &by));
    for (int64_t i = 0; i < all && part[i % n].status == QB_OK; i++)
        if (pack_sample(&part[i % n], dataset, i, &by) != QB_OK) break;
    qb_coco_by_image_release(&by);
    for (int32_t k = 0; k < n; k++) QB_TRY(part[k].status);
    return QB_OK;
}

qb_status qb_dataset_digest(qb_ctx *cx, const qb_dataset *dataset, qb_hash *out) {
    qb_pack p = {.cx = cx};
    qb_status status = qb_dataset_pack(&p, 1, (qb_dataset *)(uintptr_t)dataset); /* only written */
    if (status == QB_OK) status = qb_pack_end(&p);
    if (status == QB_OK) *out = qb_hash_bytes(p.out.data, p.out.size);
    qb_strbuf_release(&p.out);
    return status;
}
