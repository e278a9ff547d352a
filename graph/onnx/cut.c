/* The part of a model between named tensors: what the file has beyond it is dropped before anything
 * of it is read, so that operators nobody supports do no harm there. */
#include <string.h>

#include "base/opt.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "onnx_internal.h"

#define FIELD_GRAPH_VALUE_INFO 13
#define FIELD_TENSOR_NAME 8
#define FIELD_VALUE_INFO_NAME 1
#define NEAR_NAMES 5

typedef struct cutter {
    qb_ctx *cx;
    Onnx__GraphProto *proto;
    const qb_onnx_part *part;
    qb_onnx_spans *initializers;
    qb_span file; /* the graph in the file */
    qb_arena *arena;
    /* Names; the number is an index where there is something to look up. */
    qb_names makers;    /* tensors, the nodes that make them */
    qb_names given;     /* inputs of the file */
    qb_names constants; /* initializers */
    qb_names starts;    /* inputs of the part */
    qb_names wanted;    /* what the part reads or yields */
    bool *keep;         /* by node */
    int32_t *stack;     /* nodes that stay and whose inputs were not looked at yet */
    size_t n_stack;
} cutter;

static qb_status put(cutter *c, qb_names *names, const char *name, int32_t number) {
    if (!*name || qb_names_find(names, name) >= 0) return QB_OK;
    return qb_names_put(c->cx, c->arena, names, name, number);
}

/* A name in a message that was not unpacked; NULL on failure. */
static const char *name_in(cutter *c, qb_span message, uint32_t number) {
    qb_wire_field field;
    qb_span name = {0};
    while (qb_wire_next(&message, &field))
        if (field.number == number) name = field.content;
    const char *raw =
        name.size ? qb_arena_strndup(c->cx, c->arena, (const char *)name.data, name.size) : "";
    if (!raw || (qb_text_is_clean(raw) && !strchr(raw, '\\'))) return raw;
    const size_t size = qb_text_clean_size(raw);
    char *clean = qb_arena_alloc(c->cx, c->arena, size, 1);
    if (clean) qb_text_clean_to(raw, true, clean, size); /* as wire.c does it */
    return clean;
}

static qb_status index_constants(cutter *c) {
    for (size_t i = 0; i < c->initializers->n; i++) {
        const char *name = QB_NEW(c->cx, name_in(c, c->initializers->span[i], FIELD_TENSOR_NAME));
        QB_TRY(put(c, &c->constants, name, (int32_t)i));
    }
    return QB_OK;
}

static qb_status index_file(cutter *c) {
    const Onnx__GraphProto *proto = c->proto;
    const size_t n = proto->n_node + proto->n_input + c->initializers->n;
    if (n > INT32_MAX / 4)
        return qb_fail(c->cx, QB_STATUS_UNSUPPORTED, "%zu nodes and tensors are too many", n);
    QB_TRY(index_constants(c));
    for (size_t i = 0; i < proto->n_node; i++)
        for (size_t k = 0; k < proto->node[i]->n_output; k++)
            QB_TRY(put(c, &c->makers, proto->node[i]->output[k], (int32_t)i));
    for (size_t i = 0; i < proto->n_input; i++)
        QB_TRY(put(c, &c->given, qb_onnx_text(proto->input[i]->name), (int32_t)i));
    return QB_OK;
}

/* --- names that are not there ----------------------------------------------------------------- */

/* All tensors that a part may begin or end at, then NULL. */
static qb_status list_tensors(cutter *c, const char ***out) {
    const Onnx__GraphProto *proto = c->proto;
    size_t n = proto->n_input, at = 0;
    for (size_t i = 0; i < proto->n_node; i++) n += proto->node[i]->n_output;
    const char **names = QB_NEW(c->cx, qb_alloc(c->cx, n + 1, sizeof *names));
    for (size_t i = 0; i < proto->n_node; i++)
        for (size_t k = 0; k < proto->node[i]->n_output; k++)
            if (*proto->node[i]->output[k]) names[at++] = proto->node[i]->output[k];
    for (size_t i = 0; i < proto->n_input; i++)
        if (*qb_onnx_text(proto->input[i]->name)) names[at++] = proto->input[i]->name;
    *out = names;
    return QB_OK;
}

static const Onnx__NodeProto *find_node(const Onnx__GraphProto *proto, const char *name) {
    for (size_t i = 0; i < proto->n_node; i++)
        if (strcmp(qb_onnx_text(proto->node[i]->name), name) == 0) return proto->node[i];
    return NULL;
}

static void add_quoted(qb_strbuf *text, const char *before, const char *name) {
    qb_strbuf_addf(text, "%s'%.120s'", before, name);
}

static const char *end_name(bool output) { return output ? "outputs" : "inputs"; }

/* Says what is meant perhaps: what the node of this name makes, the nearest tensors, or for want of
 * them where the model ends. */
static qb_status unknown_tensor(cutter *c, bool output, const char *name) {
    const Onnx__NodeProto *node = find_node(c->proto, name);
    QB_FREED const char **names = NULL;
    const char *near[NEAR_NAMES];
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    QB_TRY(list_tensors(c, &names));
    const int32_t n = node ? 0 : qb_nearest_few(name, names, near, NEAR_NAMES);
    for (size_t k = 0; node && k < node->n_output; k++)
        add_quoted(&text, k ? ", " : ": it is a node, which makes ", node->output[k]);
    for (int32_t i = 0; i < n; i++) add_quoted(&text, i ? ", " : "; near it are ", near[i]);
    const size_t n_ends = output && !node && n == 0 ? c->proto->n_output : 0;
    for (size_t i = 0; i < n_ends && i < NEAR_NAMES; i++)
        add_quoted(&text, i ? ", " : "; the model's outputs are ",
                   qb_onnx_text(c->proto->output[i]->name));
    return qb_fail(c->cx, QB_STATUS_NOTFOUND, "%s: the model has no tensor '%.120s'%s",
                   end_name(output), name, text.failed || !text.data ? "" : text.data);
}

static qb_status check_name(cutter *c, bool output, const char *name) {
    if (qb_names_find(&c->makers, name) >= 0 || qb_names_find(&c->given, name) >= 0) return QB_OK;
    if (qb_names_find(&c->constants, name) >= 0)
        return qb_fail(c->cx, QB_STATUS_INVALID, "%s: '%.120s' is a constant", end_name(output),
                       name);
    return unknown_tensor(c, output, name);
}

/* --- what the part needs ---------------------------------------------------------------------- */

static qb_status want(cutter *c, const char *name) {
    if (!*name || qb_names_find(&c->wanted, name) >= 0) return QB_OK;
    QB_TRY(put(c, &c->wanted, name, 0));
    const int32_t node = qb_names_find(&c->makers, name);
    if (node < 0 || c->keep[node] || qb_names_find(&c->starts, name) >= 0) return QB_OK;
    c->keep[node] = true;
    c->stack[c->n_stack++] = node;
    return QB_OK;
}

/* Bodies of control flow read names of the graph around them. */
static qb_status want_inputs(cutter *c, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_input; i++) QB_TRY(want(c, node->input[i]));
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__GraphProto *body = node->attribute[i]->g;
        if (!body) continue;
        for (size_t k = 0; k < body->n_node; k++) QB_TRY(want_inputs(c, body->node[k]));
        for (size_t k = 0; k < body->n_output; k++)
            QB_TRY(want(c, qb_onnx_text(body->output[k]->name)));
    }
    return QB_OK;
}

static qb_status name_ends(cutter *c) {
    const qb_onnx_part *part = c->part;
    for (int32_t i = 0; i < part->n_inputs; i++) {
        QB_TRY(check_name(c, false, part->inputs[i]));
        if (qb_names_find(&c->starts, part->inputs[i]) >= 0)
            return qb_fail(c->cx, QB_STATUS_INVALID, "inputs: '%.120s' is named twice",
                           part->inputs[i]);
        QB_TRY(put(c, &c->starts, part->inputs[i], i));
    }
    for (int32_t i = 0; i < part->n_outputs; i++) {
        QB_TRY(check_name(c, true, part->outputs[i]));
        if (qb_names_find(&c->wanted, part->outputs[i]) >= 0)
            return qb_fail(c->cx, QB_STATUS_INVALID, "outputs: '%.120s' is named twice",
                           part->outputs[i]);
        QB_TRY(want(c, part->outputs[i]));
    }
    return QB_OK;
}

static qb_status walk(cutter *c) {
    QB_TRY(name_ends(c));
    for (size_t i = 0; i < c->proto->n_output && c->part->n_outputs == 0; i++)
        QB_TRY(want(c, qb_onnx_text(c->proto->output[i]->name)));
    while (c->n_stack) QB_TRY(want_inputs(c, c->proto->node[c->stack[--c->n_stack]]));
    for (int32_t i = 0; i < c->part->n_inputs; i++)
        if (qb_names_find(&c->wanted, c->part->inputs[i]) < 0)
            return qb_fail(c->cx, QB_STATUS_INVALID, "inputs: '%.120s' leads to no output",
                           c->part->inputs[i]);
    return QB_OK;
}

/* --- the interface ---------------------------------------------------------------------------- */

/* What the file says of an inner tensor; *out is NULL when it says nothing. */
static qb_status find_info(cutter *c, const char *name, Onnx__ValueInfoProto **out) {
    qb_span rest = c->file;
    qb_wire_field field;
    ProtobufCMessage *message = NULL;
    *out = NULL;
    while (!message && qb_wire_next(&rest, &field)) {
        if (field.number != FIELD_GRAPH_VALUE_INFO) continue;
        const char *of = QB_NEW(c->cx, name_in(c, field.content, FIELD_VALUE_INFO_NAME));
        if (strcmp(of, name) != 0) continue;
        QB_TRY(qb_wire_check(c->cx, &onnx__value_info_proto__descriptor, field.content));
        QB_TRY(qb_wire_unpack(c->cx, &onnx__value_info_proto__descriptor, field.content, &message));
    }
    *out = (Onnx__ValueInfoProto *)message;
    return QB_OK;
}

/* An entry for a tensor: the one that `list` has, which is taken out of it, or a new one. */
static qb_status take_info(cutter *c, size_t n, Onnx__ValueInfoProto **list, const char *name,
                           Onnx__ValueInfoProto **out) {
    for (size_t i = 0; i < n; i++) {
        if (!list[i] || strcmp(qb_onnx_text(list[i]->name), name) != 0) continue;
        *out = list[i];
        list[i] = NULL;
        return QB_OK;
    }
    QB_TRY(find_info(c, name, out));
    if (*out) return QB_OK;
    QB_FREED Onnx__ValueInfoProto *info = QB_NEW(c->cx, qb_alloc(c->cx, 1, sizeof *info));
    onnx__value_info_proto__init(info);
    QB_TRY_NEW(c->cx, info->name = qb_strdup(c->cx, name)); /* freed as if it had been unpacked */
    *out = QB_MOVE(info);
    return QB_OK;
}

/* The list becomes entries for `names`; the others are freed. */
static qb_status choose(cutter *c, const char *const *names, int32_t n_names, size_t *n,
                        Onnx__ValueInfoProto ***list) {
    Onnx__ValueInfoProto **chosen = qb_alloc(c->cx, (size_t)n_names, sizeof *chosen);
    qb_status status = chosen ? QB_OK : c->cx->code;
    int32_t found = 0;
    for (; found < n_names && status == QB_OK; found += status == QB_OK)
        status = take_info(c, *n, *list, names[found], &chosen[found]);
    for (size_t i = 0; i < *n; i++) qb_wire_free((ProtobufCMessage *)(*list)[i]);
    qb_free(*list);
    *n = (size_t)found;
    *list = chosen;
    return status;
}

/* Without names the model's own inputs stay, where the part reads them. */
static void drop_inputs(cutter *c) {
    Onnx__GraphProto *proto = c->proto;
    size_t n = 0;
    for (size_t i = 0; i < proto->n_input; i++) {
        if (qb_names_find(&c->wanted, qb_onnx_text(proto->input[i]->name)) >= 0)
            proto->input[n++] = proto->input[i];
        else
            qb_wire_free((ProtobufCMessage *)proto->input[i]);
    }
    proto->n_input = n;
}

/* Named inputs are all that there are. */
static qb_status check_inputs(cutter *c) {
    for (size_t i = 0; i < c->proto->n_input; i++) {
        const char *name = qb_onnx_text(c->proto->input[i]->name);
        if (qb_names_find(&c->wanted, name) < 0 || qb_names_find(&c->starts, name) >= 0) continue;
        if (qb_names_find(&c->constants, name) >= 0) continue; /* until IR 4 they were listed */
        return qb_fail(c->cx, QB_STATUS_INVALID,
                       "inputs: the outputs need the model's input '%.120s' as well: name it, or "
                       "tensors that stand between",
                       name);
    }
    return QB_OK;
}

static qb_status cut_interface(cutter *c) {
    const qb_onnx_part *part = c->part;
    Onnx__GraphProto *proto = c->proto;
    if (part->n_outputs > 0)
        QB_TRY(choose(c, part->outputs, part->n_outputs, &proto->n_output, &proto->output));
    if (part->n_inputs == 0) {
        drop_inputs(c);
        return QB_OK;
    }
    QB_TRY(check_inputs(c));
    return choose(c, part->inputs, part->n_inputs, &proto->n_input, &proto->input);
}

/* --- the rest --------------------------------------------------------------------------------- */

/* A name that nothing has, made from `name`; NULL on failure. */
static const char *free_name(cutter *c, const char *name) {
    const char *other = name;
    for (int k = 0; other; k++) {
        if (qb_names_find(&c->makers, other) < 0 && qb_names_find(&c->given, other) < 0 &&
            qb_names_find(&c->constants, other) < 0)
            break;
        other = qb_arena_format(c->cx, c->arena, "%s_cut%d", name, k);
    }
    return other;
}

static qb_status rename_outputs(cutter *c, const Onnx__NodeProto *node, const char *const *other) {
    for (size_t i = 0; i < node->n_output; i++) {
        const int32_t start = qb_names_find(&c->starts, node->output[i]);
        if (start < 0) continue;
        char *copy = QB_NEW(c->cx, qb_strdup(c->cx, other[start]));
        qb_free(node->output[i]);
        node->output[i] = copy;
    }
    return QB_OK;
}

/* A node may make a tensor that is an input now, and another that is needed: the first gets another
 * name (Split counts its outputs, so none may be left out). */
static qb_status free_starts(cutter *c) {
    const char **other = qb_arena_alloc(c->cx, c->arena, (size_t)c->part->n_inputs, sizeof *other);
    if (!other) return c->cx->code;
    for (int32_t i = 0; i < c->part->n_inputs; i++)
        QB_TRY_NEW(c->cx, other[i] = free_name(c, c->part->inputs[i]));
    for (size_t i = 0; i < c->proto->n_node; i++)
        if (c->keep[i]) QB_TRY(rename_outputs(c, c->proto->node[i], other));
    return QB_OK;
}

/* The last step: nodes have the texts of names. */
static void drop_nodes(cutter *c) {
    Onnx__GraphProto *proto = c->proto;
    size_t n = 0;
    for (size_t i = 0; i < proto->n_node; i++) {
        if (c->keep[i])
            proto->node[n++] = proto->node[i];
        else
            qb_wire_free((ProtobufCMessage *)proto->node[i]);
    }
    proto->n_node = n;
}

static qb_status drop_initializers(cutter *c) {
    qb_onnx_spans *all = c->initializers;
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = QB_NEW(c->cx, name_in(c, all->span[i], FIELD_TENSOR_NAME));
        if (qb_names_find(&c->wanted, name) >= 0 && qb_names_find(&c->starts, name) < 0)
            all->span[n++] = all->span[i];
    }
    all->n = n;
    return QB_OK;
}

static qb_status cut(cutter *c) {
    QB_TRY(index_file(c));
    QB_TRY(walk(c));
    QB_TRY(free_starts(c));
    QB_TRY(cut_interface(c));
    QB_TRY(drop_initializers(c));
    drop_nodes(c);
    return QB_OK;
}

qb_status qb_onnx_cut(qb_ctx *cx, qb_onnx_reader *reader, const qb_onnx_part *part,
                      qb_onnx_spans *initializers) {
    const size_t n = reader->proto->n_node;
    QB_FREED bool *keep = QB_NEW(cx, qb_alloc(cx, n, sizeof *keep));
    QB_FREED int32_t *stack = QB_NEW(cx, qb_alloc(cx, n, sizeof *stack));
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_TRY(qb_arena_create(cx, &arena));
    cutter c = {.cx = cx,
                .proto = reader->proto,
                .part = part,
                .initializers = initializers,
                .file = reader->graph_bytes,
                .keep = keep,
                .stack = stack,
                .arena = arena};
    return cut(&c);
}
