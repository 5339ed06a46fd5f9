/* Captures and graphs. A node stands behind those that its stream had before it, and behind those
 * of what it waited for; a launch runs the nodes in any order that this leaves open. */
#include <stdlib.h>
#include <string.h>

#include "test/cuda_stub/internal.h"

#define CALL(flags, work)                                                                          \
    do {                                                                                           \
        sc_cu_result entered = enter(__func__, flags);                                             \
        return leave(entered != SC_CU_SUCCESS ? entered : (sc_cu_result)(work));                   \
    } while (0)

/* ---- lists of nodes ---- */

void set_tail(uint32_t **tail, uint32_t *count, const uint32_t *list, uint32_t list_count)
{
    *tail = must_have(realloc(*tail, (list_count + 1) * sizeof **tail));
    if (list_count > 0)
        memcpy(*tail, list, list_count * sizeof **tail);
    *count = list_count;
}

void add_tail(uint32_t **tail, uint32_t *count, const uint32_t *list, uint32_t list_count)
{
    *tail = must_have(realloc(*tail, (*count + list_count + 1) * sizeof **tail));
    if (list_count > 0)
        memcpy(*tail + *count, list, list_count * sizeof **tail);
    *count += list_count;
}

void nodes_drop(nodes *n)
{
    if (n == NULL || --n->refs > 0)
        return;
    for (uint32_t i = 0; i < n->count; i++) {
        op_free(n->list[i].work);
        free(n->list[i].after);
    }
    free(n->list);
    free(n);
}

void capture_add(sc_cu_stream stream, op *o)
{
    nodes *n = stream->capture->nodes;
    if (n->count == n->room) {
        n->room = 2 * n->room + 8;
        n->list = must_have(realloc(n->list, n->room * sizeof *n->list));
    }
    node *made = &n->list[n->count];
    *made = (node){.work = o};
    set_tail(&made->after, &made->after_count, stream->tail, stream->tail_count);
    set_tail(&stream->tail, &stream->tail_count, &n->count, 1);
    n->count++;
}

/* ---- captures ---- */

capture *capture_numbered(uint64_t wanted)
{
    capture *c = the.captures;
    while (c != NULL && c->number != wanted)
        c = c->next;
    return c;
}

bool spoils_capture(void)
{
    bool spoils = false;
    for (capture *c = the.captures; c != NULL; c = c->next) {
        bool is_own = pthread_equal(c->thread, pthread_self());
        if (c->mode == SC_CU_CAPTURE_GLOBAL || (c->mode == SC_CU_CAPTURE_THREAD && is_own))
            spoils = c->is_invalid = true;
    }
    return spoils;
}

bool sc_stub_records(void)
{
    bool records = false;
    pthread_mutex_lock(&the.lock);
    for (const capture *c = the.captures; c != NULL; c = c->next)
        records = records || pthread_equal(c->thread, pthread_self());
    pthread_mutex_unlock(&the.lock);
    return records;
}

static sc_cu_result begin_capture(sc_cu_stream stream, sc_cu_capture_mode mode)
{
    if (!is_live(stream, STREAM) || stream->base.context != current)
        return RESULT_INVALID_HANDLE;
    if (mode > SC_CU_CAPTURE_RELAXED)
        return RESULT_INVALID_VALUE;
    if (stream->capture != NULL)
        return RESULT_ILLEGAL_STATE;
    capture *c = must_have(calloc(1, sizeof *c));
    *c = (capture){.number = ++the.capture_count,
                   .origin = stream,
                   .mode = mode,
                   .thread = pthread_self(),
                   .next = the.captures};
    c->nodes = must_have(calloc(1, sizeof *c->nodes));
    c->nodes->refs = 1;
    the.captures = c;
    stream->capture = c;
    set_tail(&stream->tail, &stream->tail_count, NULL, 0);
    return SC_CU_SUCCESS;
}

sc_cu_result cuStreamBeginCapture_v2(sc_cu_stream stream, sc_cu_capture_mode mode)
{
    CALL(IN_CONTEXT, begin_capture(stream, mode));
}

static void mark_before(const nodes *n, const uint32_t *list, uint32_t count, bool *marks)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!marks[list[i]]) {
            marks[list[i]] = true;
            mark_before(n, n->list[list[i]].after, n->list[list[i]].after_count, marks);
        }
    }
}

/* All that was captured must be behind the origin's end. */
static bool is_joined(const capture *c)
{
    bool *marks = must_have(calloc(c->nodes->count + 1, sizeof *marks)), joined = true;
    mark_before(c->nodes, c->origin->tail, c->origin->tail_count, marks);
    for (uint32_t i = 0; i < c->nodes->count; i++)
        joined = joined && marks[i];
    free(marks);
    return joined;
}

static sc_cu_result end_capture(sc_cu_stream stream, sc_cu_graph *out)
{
    *out = NULL;
    if (!is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    capture *c = stream->capture;
    if (c == NULL)
        return RESULT_ILLEGAL_STATE;
    if (c->origin != stream)
        return RESULT_CAPTURE_UNMATCHED;
    if (c->mode != SC_CU_CAPTURE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return RESULT_CAPTURE_WRONG_THREAD;
    sc_cu_result result = c->is_invalid  ? RESULT_CAPTURE_INVALIDATED
                          : is_joined(c) ? SC_CU_SUCCESS
                                         : RESULT_CAPTURE_UNJOINED;
    for (sc_cu_stream s = the.streams; s != NULL; s = s->next) {
        if (s->capture == c) {
            s->capture = NULL;
            set_tail(&s->tail, &s->tail_count, NULL, 0);
        }
    }
    capture **at = &the.captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (result == SC_CU_SUCCESS) {
        sc_cu_graph graph = new_object(GRAPH, sizeof *graph);
        graph->nodes = c->nodes;
        *out = graph;
    } else
        nodes_drop(c->nodes);
    free(c);
    return result;
}

/* One that is told to fail has ended the capture, too. */
sc_cu_result cuStreamEndCapture(sc_cu_stream stream, sc_cu_graph *out)
{
    sc_cu_result entered = enter(__func__, IN_CONTEXT), result = end_capture(stream, out);
    if (entered != SC_CU_SUCCESS && *out != NULL) {
        nodes_drop((*out)->nodes);
        free_object(*out);
        *out = NULL;
    }
    return leave(entered != SC_CU_SUCCESS ? entered : result);
}

/* ---- graphs ---- */

static sc_cu_result instantiate(sc_cu_graph_exec *out, sc_cu_graph graph)
{
    if (!is_live(graph, GRAPH))
        return RESULT_INVALID_HANDLE;
    sc_cu_graph_exec exec = new_object(GRAPH_EXEC, sizeof *exec);
    exec->nodes = graph->nodes;
    exec->nodes->refs++;
    *out = exec;
    return SC_CU_SUCCESS;
}

sc_cu_result cuGraphInstantiateWithFlags(sc_cu_graph_exec *out, sc_cu_graph graph,
                                         unsigned long long flags)
{
    CALL(IN_CONTEXT, flags != 0 ? (sc_cu_result)RESULT_INVALID_VALUE : instantiate(out, graph));
}

static bool may_run(const node *n, const bool *done)
{
    for (uint32_t i = 0; i < n->after_count; i++) {
        if (!done[n->after[i]])
            return false;
    }
    return true;
}

/* A launch under way: work in it may wait for other ranks, whose work waits for what this launch
 * has done already. */
typedef struct launch {
    nodes *nodes;
    bool *done;
    uint32_t left;
} launch;

/* One of the nodes that can go on, by lot; the number of nodes: none can. */
static uint32_t any_node(const launch *l)
{
    uint32_t chosen = l->nodes->count;
    uint64_t choices = 0;
    for (uint32_t i = 0; i < l->nodes->count; i++) {
        const op *o = l->nodes->list[i].work;
        bool can = !l->done[i] && may_run(&l->nodes->list[i], l->done) &&
                   (o->work.is_ready == NULL || o->work.is_ready(o->data));
        if (can && (chosen == l->nodes->count || draw(++choices) == 0))
            chosen = i;
    }
    return chosen;
}

static bool is_graph_ready(void *data)
{
    const launch *l = data;
    return l->left == 0 || any_node(l) < l->nodes->count;
}

static bool run_graph(void *data, char *why, size_t room)
{
    launch *l = data;
    bool ok = true;
    uint32_t chosen;
    while (ok && l->left > 0 && (chosen = any_node(l)) < l->nodes->count) {
        op *o = l->nodes->list[chosen].work;
        ok = o->work.run(o->data, why, room);
        l->done[chosen] = true;
        l->left--;
    }
    the.replays += l->left == 0;
    return ok;
}

static bool is_graph_left(void *data)
{
    return ((const launch *)data)->left > 0;
}

static void drop_graph(void *data)
{
    launch *l = data;
    nodes_drop(l->nodes);
    free(l->done);
}

static sc_cu_result launch_graph(sc_cu_graph_exec exec, sc_cu_stream stream)
{
    static const sc_stub_work work = {"cuGraphLaunch", is_graph_ready, run_graph, is_graph_left,
                                      drop_graph};
    if (!is_live(exec, GRAPH_EXEC) || !is_live(stream, STREAM) || stream->base.context != current)
        return RESULT_INVALID_HANDLE;
    if (stream->capture != NULL) {
        stream->capture->is_invalid = true;
        return RESULT_CAPTURE_UNSUPPORTED;
    }
    launch l = {exec->nodes, must_have(calloc(exec->nodes->count + 1, sizeof(bool))),
                exec->nodes->count};
    exec->nodes->refs++;
    return put(stream, &work, &l, sizeof l);
}

sc_cu_result cuGraphLaunch(sc_cu_graph_exec exec, sc_cu_stream stream)
{
    CALL(IN_CONTEXT, launch_graph(exec, stream));
}

static sc_cu_result destroy_exec(sc_cu_graph_exec exec)
{
    if (!is_live(exec, GRAPH_EXEC))
        return RESULT_INVALID_HANDLE;
    nodes_drop(exec->nodes);
    free_object(exec);
    return SC_CU_SUCCESS;
}

/* Those that are told to fail have done it all the same: who holds on to what graphs have would
 * wait for ever. */
sc_cu_result cuGraphExecDestroy(sc_cu_graph_exec exec)
{
    sc_cu_result entered = enter(__func__, IN_CONTEXT), result = destroy_exec(exec);
    return leave(entered != SC_CU_SUCCESS ? entered : result);
}

static sc_cu_result destroy_graph(sc_cu_graph graph)
{
    if (!is_live(graph, GRAPH))
        return RESULT_INVALID_HANDLE;
    nodes_drop(graph->nodes);
    free_object(graph);
    return SC_CU_SUCCESS;
}

sc_cu_result cuGraphDestroy(sc_cu_graph graph)
{
    sc_cu_result entered = enter(__func__, IN_CONTEXT), result = destroy_graph(graph);
    return leave(entered != SC_CU_SUCCESS ? entered : result);
}
