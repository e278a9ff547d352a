#include "graph/late_groups.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "graph_internal.h"

/* Stands for an open dimension while nodes are grouped. It is one number for all, so that
 * dimensions that come from one value fit together where they meet again. */
#define STAND_IN 8
/* What is made of sizes alone is folded up to so many bytes: it would be made and kept for each set
 * of sizes. */
#define FOLD_LIMIT ((size_t)64 << 10)
/* Numbers in all lists that are made. */
#define NUMBERS_MAX ((size_t)1 << 22)

/* The values of late nodes that something depends on, ascending. */
typedef struct late_set {
    const int32_t *value;
    int32_t n;
} late_set;

/* How nodes that depend on the same values follow each other. */
typedef enum place {
    MERGES, /* none of its inputs depends on all of them */
    FOLLOWS,
    LATE
} place;

typedef struct item {
    int32_t node;
    place place;
    late_set of; /* what its inputs depend on */
} item;

typedef struct finder {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_graph *trial; /* a copy in which open dimensions are STAND_IN */
    qb_uses uses;
    late_set *of;     /* [n_values] */
    item *items;      /* [n_nodes] */
    int32_t *kept_by; /* [n_nodes] 1 + the last group whose graph has the node */
    int32_t *read_by; /* [n_values] 1 + the last group that reads the value */
    bool *needed;     /* [n_values] somebody else reads it */
    size_t numbers;   /* so far */
    qb_late_groups *to;
} finder;

void qb_late_groups_free(qb_late_groups *groups) {
    if (!groups) return;
    qb_arena_free(groups->arena);
    qb_free(groups);
}

/* NULL with an error. Beyond NUMBERS_MAX `find` gives up. */
static int32_t *new_numbers(finder *f, size_t n) {
    f->numbers += n;
    return qb_arena_alloc(f->cx, f->to->arena, n + 1, sizeof(int32_t));
}

/* ---- what depends on what -------------------------------------------------------------------- */

/* Merges two ascending lists into `to` (NULL: only counts). */
static int32_t merge(const late_set *a, const late_set *b, int32_t *to) {
    int32_t n = 0;
    for (int32_t i = 0, k = 0; i < a->n || k < b->n; n++) {
        const bool first = k == b->n || (i < a->n && a->value[i] <= b->value[k]);
        const int32_t value = first ? a->value[i] : b->value[k];
        if (to) to[n] = value;
        while (i < a->n && a->value[i] == value) i++;
        while (k < b->n && b->value[k] == value) k++;
    }
    return n;
}

static qb_status unite(finder *f, late_set *a, const late_set *b) {
    if (a->value == b->value || b->n == 0) return QB_OK;
    const int32_t n = merge(a, b, NULL);
    if (n == a->n) return QB_OK;
    if (n == b->n) {
        *a = *b;
        return QB_OK;
    }
    int32_t *merged = QB_NEW(f->cx, new_numbers(f, (size_t)n));
    merge(a, b, merged);
    *a = (late_set){merged, n};
    return QB_OK;
}

static bool is_known(const qb_graph *graph, int32_t id) {
    return id < 0 ||
           (graph->values[id].dtype != QB_DTYPE_NONE && qb_shape_known(&graph->values[id].shape));
}

static bool all_known(const qb_graph *graph, const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (!is_known(graph, ids[i])) return false;
    return true;
}

/* Do the node's sizes follow from those of its inputs? */
static bool follows(finder *f, int32_t index) {
    const qb_node *node = &f->trial->nodes[index];
    if (!all_known(f->trial, node->in, node->n_in)) return false;
    if (qb_infer_node(f->cx, f->trial, index) != QB_OK) qb_ctx_clear(f->cx);
    return all_known(f->trial, node->out, node->n_out);
}

/* What a Split with computed sizes gives adds up to what it splits. */
static int64_t stand_in(const finder *f, const qb_node *node, int32_t d) {
    if (!node->op->strided || node->n_out < 2) return STAND_IN;
    const qb_shape *whole = &f->trial->values[node->in[0]].shape;
    return d < whole->rank && whole->dim[d] >= node->n_out ? whole->dim[d] / node->n_out : STAND_IN;
}

/* Closes the sizes of a late node's output, on which others depend from now on. */
static qb_status add_late(finder *f, const qb_node *node, int32_t id) {
    qb_shape *shape = &f->trial->values[id].shape;
    int32_t *own = QB_NEW(f->cx, new_numbers(f, 1));
    *own = id;
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dim[d] < 0) shape->dim[d] = stand_in(f, node, d);
    return unite(f, &f->of[id], &(late_set){own, 1});
}

static qb_status look_at(finder *f, int32_t index) {
    const qb_node *node = &f->trial->nodes[index];
    item *it = &f->items[index];
    int32_t most = 0;
    *it = (item){.node = index, .place = follows(f, index) ? FOLLOWS : LATE};
    for (int32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0) continue;
        const late_set *of = &f->of[node->in[k]];
        if (of->n > most) most = of->n;
        QB_TRY(unite(f, &it->of, of));
    }
    if (it->place == FOLLOWS && most < it->of.n) it->place = MERGES;
    for (int32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        f->of[node->out[k]] = it->of;
        if (it->place == LATE) QB_TRY(add_late(f, node, node->out[k]));
    }
    return QB_OK;
}

/* ---- an order -------------------------------------------------------------------------------- */

static int compare_sets(const late_set *a, const late_set *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    if (a->value == b->value) return 0;
    return memcmp(a->value, b->value, (size_t)a->n * sizeof *a->value);
}

/* Fewer values first, for nothing depends on more of them than what is made of it does. Of as many:
 * what merges reads none that depends on the same ones, what follows may read that, and late nodes
 * both. */
static int compare(const void *a, const void *b) {
    const item *p = a, *q = b;
    if (p->of.n != q->of.n) return p->of.n < q->of.n ? -1 : 1;
    if (p->place != q->place) return p->place < q->place ? -1 : 1;
    const int order = compare_sets(&p->of, &q->of);
    return order != 0 ? order : (p->node > q->node) - (p->node < q->node);
}

static bool together(const item *a, const item *b) {
    return a->place == FOLLOWS && b->place == FOLLOWS && compare_sets(&a->of, &b->of) == 0;
}

static qb_status make_steps(finder *f) {
    const int32_t n = f->graph->n_nodes;
    qb_late_groups *to = f->to;
    QB_TRY_NEW(f->cx, to->step = qb_arena_alloc(f->cx, to->arena, (size_t)n, sizeof *to->step));
    QB_TRY_NEW(f->cx, to->group = qb_arena_alloc(f->cx, to->arena, (size_t)n, sizeof *to->group));
    for (int32_t i = 0, end; i < n; i = end) {
        const bool late = f->items[i].place == LATE;
        for (end = i + 1; end < n && together(&f->items[i], &f->items[end]);) end++;
        to->step[to->n_steps++] =
            (qb_late_step){late ? f->items[i].node : -1, late ? -1 : to->n_groups};
        if (late) continue;
        qb_late_group *group = &to->group[to->n_groups++];
        QB_TRY_NEW(f->cx, group->node = new_numbers(f, (size_t)(end - i)));
        for (; i < end; i++) group->node[group->n_nodes++] = f->items[i].node;
    }
    return QB_OK;
}

/* ---- what groups read and give --------------------------------------------------------------- */

static bool is_of_sizes(const finder *f, int32_t value) {
    qb_sizes sizes;
    return qb_sizes_get(f->trial, value, &sizes) && qb_sizes_are_numbers(&sizes);
}

/* Appends to a list of which `n` are there, and whose memory doubles. */
static qb_status append(finder *f, int32_t **list, int32_t *n, int32_t number) {
    if ((*n & (*n - 1)) == 0) {
        int32_t *more = QB_NEW(f->cx, new_numbers(f, *n > 0 ? (size_t)*n * 2 : 1));
        if (*n > 0) memcpy(more, *list, (size_t)*n * sizeof *more);
        *list = more;
    }
    (*list)[(*n)++] = number;
    return QB_OK;
}

static qb_status add_inputs(finder *f, int32_t number, int32_t index) {
    qb_late_group *group = &f->to->group[number];
    const qb_node *node = &f->graph->nodes[index];
    for (int32_t k = 0; k < node->n_in; k++) {
        const int32_t id = node->in[k], maker = id < 0 ? -1 : f->uses.producer[id];
        if (id < 0 || f->graph->values[id].data) continue;
        if ((maker >= 0 && f->kept_by[maker] == number + 1) || f->read_by[id] == number + 1)
            continue;
        f->read_by[id] = number + 1;
        f->needed[id] = true;
        QB_TRY(append(f, &group->in, &group->n_in, id));
        if (maker < 0 || !is_of_sizes(f, id)) continue;
        f->kept_by[maker] = number + 1;
        QB_TRY(append(f, &group->with, &group->n_with, maker));
    }
    return QB_OK;
}

static qb_status find_inputs(finder *f, int32_t number) {
    const qb_late_group *group = &f->to->group[number];
    for (int32_t i = 0; i < group->n_nodes; i++) f->kept_by[group->node[i]] = number + 1;
    for (int32_t i = 0; i < group->n_nodes; i++) QB_TRY(add_inputs(f, number, group->node[i]));
    for (int32_t i = 0; i < group->n_with; i++) QB_TRY(add_inputs(f, number, group->with[i]));
    return QB_OK;
}

static qb_status find_outputs(finder *f, qb_late_group *group) {
    for (int32_t i = 0; i < group->n_nodes; i++) {
        const qb_node *node = &f->graph->nodes[group->node[i]];
        for (int32_t k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0 && f->needed[node->out[k]])
                QB_TRY(append(f, &group->out, &group->n_out, node->out[k]));
    }
    return QB_OK;
}

static qb_status connect(finder *f) {
    const qb_late_groups *to = f->to;
    for (int32_t i = 0; i < f->graph->n_outputs; i++) f->needed[f->graph->outputs[i]] = true;
    for (int32_t i = 0; i < to->n_steps; i++) {
        const qb_node *node = to->step[i].node >= 0 ? &f->graph->nodes[to->step[i].node] : NULL;
        for (int32_t k = 0; node && k < node->n_in; k++)
            if (node->in[k] >= 0) f->needed[node->in[k]] = true;
    }
    for (int32_t g = 0; g < to->n_groups && f->numbers <= NUMBERS_MAX; g++)
        QB_TRY(find_inputs(f, g));
    for (int32_t g = 0; g < to->n_groups; g++) QB_TRY(find_outputs(f, &to->group[g]));
    return QB_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static qb_status allocate(finder *f) {
    const size_t n_nodes = (size_t)f->graph->n_nodes, n_values = (size_t)f->graph->n_values;
    QB_TRY(qb_graph_clone_sharing(f->cx, f->graph, &f->trial));
    QB_TRY(qb_uses_build(f->cx, f->graph, &f->uses));
    QB_TRY_NEW(f->cx, f->of = qb_alloc(f->cx, n_values, sizeof *f->of));
    QB_TRY_NEW(f->cx, f->items = qb_alloc(f->cx, n_nodes, sizeof *f->items));
    QB_TRY_NEW(f->cx, f->kept_by = qb_alloc(f->cx, n_nodes, sizeof *f->kept_by));
    QB_TRY_NEW(f->cx, f->read_by = qb_alloc(f->cx, n_values, sizeof *f->read_by));
    QB_TRY_NEW(f->cx, f->needed = qb_alloc(f->cx, n_values, sizeof *f->needed));
    QB_TRY_NEW(f->cx, f->to = qb_alloc(f->cx, 1, sizeof *f->to));
    return qb_arena_create(f->cx, &f->to->arena);
}

static qb_status find(finder *f) {
    const int32_t n = f->graph->n_nodes;
    for (int32_t i = 0; i < n && f->numbers <= NUMBERS_MAX; i++) QB_TRY(look_at(f, i));
    if (f->numbers <= NUMBERS_MAX) {
        qsort(f->items, (size_t)n, sizeof *f->items, compare);
        QB_TRY(make_steps(f));
        QB_TRY(connect(f));
    }
    if (f->numbers <= NUMBERS_MAX) return QB_OK;
    for (int32_t i = 0; i < n; i++) f->items[i] = (item){.node = i, .place = LATE};
    f->to->n_steps = f->to->n_groups = 0;
    return make_steps(f);
}

qb_status qb_late_groups_find(qb_ctx *cx, const qb_graph *graph, qb_late_groups **out) {
    finder f = {.cx = cx, .graph = graph};
    qb_status status = allocate(&f);
    if (status == QB_OK) status = find(&f);
    if (status == QB_OK)
        *out = f.to;
    else
        qb_late_groups_free(f.to);
    qb_graph_free(f.trial);
    qb_uses_release(&f.uses);
    QB_FREE_ALL(f.of, f.items, f.kept_by, f.read_by, f.needed);
    return status;
}

/* ---- one group ------------------------------------------------------------------------------- */

qb_late_extent qb_late_group_measure(qb_ctx *cx, qb_graph *graph, const qb_late_group *group) {
    qb_late_extent all = {.known = true};
    for (int32_t i = 0; i < group->n_nodes && all.known; i++) {
        const qb_node *node = &graph->nodes[group->node[i]];
        if (qb_infer_node(cx, graph, group->node[i]) != QB_OK) qb_ctx_clear(cx);
        all.known = all_known(graph, node->out, node->n_out);
        for (int32_t k = 0; k < node->n_in + node->n_out && all.known; k++) {
            const int32_t id = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
            if (id < 0) continue;
            const qb_value *value = &graph->values[id];
            const size_t bytes =
                qb_desc_bytes(&(qb_desc){.dtype = value->dtype, .shape = value->shape});
            all.elements += (double)qb_shape_count(&value->shape);
            if (bytes > all.largest) all.largest = bytes;
            all.known = bytes > 0;
        }
        if (all.known) all.work += qb_node_work(graph, node);
    }
    return all;
}

static qb_status kill_others(qb_ctx *cx, qb_graph *graph, const qb_late_group *group) {
    QB_FREED bool *kept = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_nodes, sizeof *kept));
    for (int32_t i = 0; i < group->n_nodes; i++) kept[group->node[i]] = true;
    for (int32_t i = 0; i < group->n_with; i++) kept[group->with[i]] = true;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (!kept[i]) qb_graph_kill_node(graph, i);
    return QB_OK;
}

/* What nobody in the graph makes is an input; its sizes may be any. */
static qb_status add_open_inputs(qb_ctx *cx, qb_graph *alone, const qb_late_group *group,
                                 const qb_graph *now) {
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    QB_TRY(qb_uses_build(cx, alone, &uses));
    alone->n_inputs = 0;
    for (int32_t k = 0; k < group->n_in; k++) {
        const int32_t id = group->in[k];
        qb_value *value = &alone->values[id];
        if (uses.producer[id] >= 0) continue;
        if (value->q.n == 0) value->dtype = now->values[id].dtype;
        value->shape = now->values[id].shape;
        for (int32_t d = 0; d < value->shape.rank; d++) value->shape.dim[d] = -1;
        QB_TRY(qb_graph_add_input(cx, alone, id));
    }
    return QB_OK;
}

qb_status qb_late_group_graph(qb_ctx *cx, const qb_graph *graph, const qb_late_group *group,
                              const qb_graph *now, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *alone = NULL;
    QB_TRY(qb_graph_clone_sharing(cx, graph, &alone));
    int32_t *outputs = qb_arena_alloc(cx, alone->arena, (size_t)group->n_out, sizeof *outputs);
    if (!outputs) return cx->code;
    memcpy(outputs, group->out, (size_t)group->n_out * sizeof *outputs);
    alone->fold_limit = alone->folded + FOLD_LIMIT;
    QB_TRY(kill_others(cx, alone, group));
    qb_graph_set_outputs(alone, outputs, group->n_out);
    QB_TRY(add_open_inputs(cx, alone, group, now));
    QB_TRY(qb_graph_sweep(cx, alone));
    *out = QB_MOVE(alone);
    return QB_OK;
}
