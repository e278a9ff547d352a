/* Who makes and who reads each value, while a pass rewrites the graph. A match sees the uses as
 * they were when it started; then the nodes that it touched are entered anew, and no others: the
 * time goes with the changes, not with the graph. */
#include <string.h>

#include "graph/rewrite_internal.h"

/* What the index says of a node: its inputs, then its outputs; an input of -1 counts as none. */
typedef struct qb_rewrite_links {
    int32_t n_in, n_out;
    int32_t *id;
    size_t capacity; /* places in `id` */
} qb_rewrite_links;

qb_status qb_rewrite_arena(qb_rewrite *rw) {
    return rw->index.arena ? QB_OK : qb_arena_create(rw->cx, &rw->index.arena);
}

static qb_status grow(qb_rewrite *rw) {
    qb_rewrite_index *x = &rw->index;
    const size_t nodes = (size_t)rw->graph->n_nodes, values = (size_t)rw->graph->n_values;
    QB_TRY(qb_grow(rw->cx, &x->links, &x->cap_nodes, nodes, sizeof *x->links));
    QB_TRY(qb_grow(rw->cx, &rw->uses.producer, &x->cap_producers, values, sizeof(int32_t)));
    QB_TRY(qb_grow(rw->cx, &rw->uses.n_users, &x->cap_counts, values, sizeof(int32_t)));
    QB_TRY(qb_grow(rw->cx, &rw->uses.users, &x->cap_users, values, sizeof(int32_t *)));
    QB_TRY(qb_grow(rw->cx, &x->capacity, &x->cap_capacity, values, sizeof *x->capacity));
    for (; x->n_nodes < nodes; x->n_nodes++) x->links[x->n_nodes] = (qb_rewrite_links){0};
    for (; x->n_values < values; x->n_values++) {
        rw->uses.producer[x->n_values] = -1;
        rw->uses.n_users[x->n_values] = 0;
        rw->uses.users[x->n_values] = NULL;
        x->capacity[x->n_values] = 0;
    }
    return QB_OK;
}

/* The place behind the last use by a node up to `node` in a sorted list. */
static int32_t place(const int32_t *list, int32_t n, int32_t node) {
    int32_t low = 0;
    while (low < n) {
        const int32_t middle = low + (n - low) / 2;
        if (list[middle] <= node)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

static qb_status add_user(qb_rewrite *rw, int32_t value, int32_t node) {
    int32_t *n = &rw->uses.n_users[value], *capacity = &rw->index.capacity[value];
    if (*n == *capacity) {
        const int32_t wider = *capacity < 4 ? 4 : *capacity * 2;
        int32_t *list = qb_arena_pack(rw->cx, rw->index.arena, (size_t)wider, sizeof *list);
        if (!list) return rw->cx->code;
        if (*n) memcpy(list, rw->uses.users[value], (size_t)*n * sizeof *list);
        rw->uses.users[value] = list;
        *capacity = wider;
    }
    int32_t *list = rw->uses.users[value];
    const int32_t at = place(list, *n, node);
    memmove(list + at + 1, list + at, (size_t)(*n - at) * sizeof *list);
    list[at] = node;
    (*n)++;
    return QB_OK;
}

/* The node has an entry in the list. */
static void drop_user(qb_rewrite *rw, int32_t value, int32_t node) {
    int32_t *list = rw->uses.users[value], *n = &rw->uses.n_users[value];
    const int32_t after = place(list, *n, node);
    memmove(list + after - 1, list + after, (size_t)(*n - after) * sizeof *list);
    (*n)--;
}

/* A dead node has none. */
static void count_links(const qb_node *node, int32_t *n_in, int32_t *n_out) {
    *n_in = node->op ? node->n_in : 0;
    *n_out = node->op ? node->n_out : 0;
}

/* The first place from `i` on where two lists of n numbers differ, else n. */
static int32_t next_change(const int32_t *a, const int32_t *b, int32_t i, int32_t n) {
    enum { BLOCK = 64 };
    while (n - i >= BLOCK && memcmp(a + i, b + i, BLOCK * sizeof *a) == 0) i += BLOCK;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* Takes out what the node no longer reads. A node with thousands of inputs may be touched for each
 * of them: the others stay as they are. */
static void drop_node(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    qb_rewrite_links *links = &rw->index.links[index];
    int32_t n_in, n_out;
    count_links(node, &n_in, &n_out);
    const bool same = n_in == links->n_in && n_out == links->n_out;
    for (int32_t i = 0; i < links->n_in; i++) {
        if (same) i = next_change(links->id, node->in, i, n_in);
        if (i == links->n_in) break;
        if (links->id[i] >= 0) drop_user(rw, links->id[i], index);
        links->id[i] = -1;
    }
    for (int32_t i = 0; i < links->n_out; i++) {
        const int32_t value = links->id[links->n_in + i];
        if (value >= 0 && rw->uses.producer[value] == index) rw->uses.producer[value] = -1;
    }
    if (!same) links->n_in = links->n_out = 0;
}

/* Room for as many links; a list that has to grow doubles. Nothing is entered yet. */
static qb_status open_links(qb_rewrite *rw, qb_rewrite_links *links, int32_t n_in, int32_t n_out) {
    const size_t n = (size_t)n_in + (size_t)n_out, twice = 2 * links->capacity;
    if (n > links->capacity) {
        const size_t wider = n > twice ? n : twice;
        int32_t *id = QB_NEW(rw->cx, qb_arena_pack(rw->cx, rw->index.arena, wider, sizeof *id));
        links->id = id;
        links->capacity = wider;
    }
    for (int32_t i = 0; i < n_in; i++) links->id[i] = -1;
    links->n_in = n_in;
    links->n_out = n_out;
    return QB_OK;
}

/* Enters what is new since drop_node. */
static qb_status enter_node(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    qb_rewrite_links *links = &rw->index.links[index];
    int32_t n_in, n_out;
    count_links(node, &n_in, &n_out);
    if (links->n_in != n_in || links->n_out != n_out) QB_TRY(open_links(rw, links, n_in, n_out));
    for (int32_t i = 0; (i = next_change(links->id, node->in, i, n_in)) < n_in; i++) {
        if (node->in[i] >= 0) QB_TRY(add_user(rw, node->in[i], index));
        links->id[i] = node->in[i];
    }
    for (int32_t i = 0; i < n_out; i++) {
        links->id[n_in + i] = node->out[i];
        if (node->out[i] >= 0) rw->uses.producer[node->out[i]] = index;
    }
    return QB_OK;
}

static qb_status enter_all(qb_rewrite *rw) {
    QB_TRY(qb_rewrite_arena(rw));
    QB_TRY(grow(rw));
    for (int32_t i = 0; i < rw->graph->n_nodes; i++) QB_TRY(enter_node(rw, i));
    rw->index.n_touched = 0;
    rw->index.entered = true;
    return QB_OK;
}

qb_status qb_rewrite_refresh(qb_rewrite *rw) {
    qb_rewrite_index *x = &rw->index;
    if (x->failed) return rw->cx->code;
    if (!x->entered) return enter_all(rw);
    if (x->n_touched == 0 && x->n_values == (size_t)rw->graph->n_values) return QB_OK;
    QB_TRY(grow(rw));
    for (size_t i = 0; i < x->n_touched; i++) drop_node(rw, x->touched[i]);
    for (size_t i = 0; i < x->n_touched; i++) QB_TRY(enter_node(rw, x->touched[i]));
    x->n_touched = 0;
    return QB_OK;
}

void qb_rewrite_touch(qb_rewrite *rw, int32_t node) {
    qb_rewrite_index *x = &rw->index;
    if (qb_grow(rw->cx, &x->touched, &x->cap_touched, x->n_touched + 1, sizeof *x->touched))
        x->failed = true;
    else
        x->touched[x->n_touched++] = node;
}

static void replace_in(qb_graph *graph, int32_t index, int32_t from, int32_t to) {
    const qb_node *node = &graph->nodes[index];
    for (int32_t i = 0; node->op && i < node->n_in; i++)
        if (node->in[i] == from) node->in[i] = to;
}

void qb_rewrite_replace_uses(qb_rewrite *rw, int32_t from, int32_t to) {
    const qb_rewrite_index *x = &rw->index;
    qb_graph *graph = rw->graph;
    /* Nodes that this match touched may read it since. */
    for (size_t i = 0; i < x->n_touched; i++) replace_in(graph, x->touched[i], from, to);
    const int32_t n = (size_t)from < x->n_values ? rw->uses.n_users[from] : 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t *user = &rw->uses.users[from][i];
        if (i > 0 && user[0] == user[-1]) continue; /* it reads the value twice */
        qb_rewrite_touch(rw, *user);
        replace_in(graph, *user, from, to);
    }
    qb_graph_replace_output(graph, from, to);
}

/* What was entered bit by bit is what is there: a node that was changed and not touched shows. */
qb_status qb_rewrite_check(qb_rewrite *rw) {
    qb_uses whole;
    QB_TRY(qb_rewrite_refresh(rw));
    QB_TRY(qb_uses_build(rw->cx, rw->graph, &whole));
    bool same = true;
    for (int32_t i = 0; i < rw->graph->n_values && same; i++)
        same = whole.producer[i] == rw->uses.producer[i] &&
               whole.n_users[i] == rw->uses.n_users[i] &&
               (whole.n_users[i] == 0 || memcmp(whole.users[i], rw->uses.users[i],
                                                (size_t)whole.n_users[i] * sizeof(int32_t)) == 0);
    qb_uses_release(&whole);
    return same ? QB_OK : qb_fail(rw->cx, QB_STATUS_INTERNAL, "a rewrite changed a node unseen");
}

void qb_rewrite_release(qb_rewrite *rw) {
    QB_FREE_ALL(rw->uses.producer, rw->uses.n_users, rw->uses.users, rw->index.links,
                rw->index.capacity, rw->index.touched);
    qb_arena_free(rw->index.arena);
    rw->uses = (qb_uses){0};
    rw->index = (qb_rewrite_index){0};
}
