/* Memory of a program by liveness: a buffer is live from the op that defines it to its last reader.
 *
 *   %1 = dot[D] %0, %w               a buffer, act
 *   %2 "q" = rename[S -> T] %1       a view: shares %1's buffer
 *   %3 = all_gather %2               a buffer, comm
 *   cache_write %5 {name = "ck"}     %5's root was written in place: storage, no buffer
 *
 * One walk in program order finds the peak; a second one up to that op lists what is live there. An
 * op's operands and results are live together while it runs. Savings by fusion or a memory planner
 * are not considered. */
#include "passes/memory_report.h"

#include <stdlib.h>
#include <string.h>

#include "passes/reason.h"
#include "passes/slot_lives.h"

const char *const sc_memory_kind_names[SC_MEMORY_KINDS] = {"param", "grad",      "opt",  "act",
                                                           "cache", "workspace", "comm", "host"};

typedef struct buffers {
    const sc_module *m;
    sc_func_id func;
    sc_value *root;     /* by value: the value that owns its buffer */
    bool *stored;       /* by root: is itself a parameter or cache, or is counted with them */
    sc_op_id *last_use; /* by root; its own op if it is never read */
} buffers;

static void find_buffers(buffers *b)
{
    const sc_module *m = b->m;
    sc_for_each_op (m, b->func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count; i++)
            b->last_use[b->root[op->operands[i]]] = id;
        bool is_view = (sc_op_traits(op) & SC_VIEW) != 0;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            b->root[value] = is_view ? b->root[op->operands[0]] : value;
            if (is_view)
                continue;
            b->last_use[value] = id;
            b->stored[value] = (sc_op_traits(op) & SC_STATE_READ) != 0 ||
                               sc_op_attr(op, SC_ATTR_staging) != NULL ||
                               sc_value_is_in_host(m, value);
        }
        if ((sc_op_traits(op) & SC_STATE_WRITE) != 0)
            b->stored[b->root[op->operands[0]]] = true;
    }
}

static int64_t bytes_of(const buffers *b, sc_value root)
{
    return b->stored[root] ? 0 : sc_type_local_bytes(b->m, sc_type_of(b->m, root));
}

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t made_by(const buffers *b, const sc_op *op)
{
    int64_t bytes = 0;
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        if (b->root[value] == value)
            bytes = plus(bytes, bytes_of(b, value));
    }
    return bytes;
}

/* Bytes freed after the op: buffers with their last use here, and unused results; each buffer
 * once. */
static int64_t freed_after(const buffers *b, sc_op_id id)
{
    const sc_op *op = sc_op_at(b->m, id);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_value root = b->root[op->operands[i]];
        bool again = false;
        for (uint32_t k = 0; k < i && !again; k++)
            again = b->root[op->operands[k]] == root;
        if (!again && b->last_use[root] == id)
            bytes = plus(bytes, bytes_of(b, root));
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        if (b->root[value] == value && b->last_use[value] == id)
            bytes = plus(bytes, bytes_of(b, value));
    }
    return bytes;
}

static int larger_first(const void *a, const void *b)
{
    const sc_memory_live *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static const char *name_of(const sc_module *m, const sc_memory_live *live)
{
    const sc_op *op = sc_op_at(m, sc_def(m, live->value));
    sc_sym path = sc_value_path(m, live->value);
    if (path == 0 && live->kind == SC_MEMORY_COMM) /* one of several in a bucket */
        path = sc_value_path(m, op->operands[m->values.data[live->value].index]);
    const char *name = path != 0 ? sc_text(m->context, path) : sc_ops[op->kind].name,
               *scope = sc_text(m->context, op->scope);
    if (live->kind == SC_MEMORY_COMM && path != 0 && m->values.data[live->value].path == 0)
        return sc_arena_printf(&m->context->arena, "%s of %s", sc_ops[op->kind].name, name);
    return path != 0 || *scope == 0
               ? name
               : sc_arena_printf(&m->context->arena, "a %s in %s", name, scope);
}

/* Lists buffers defined up to the peak op and read there or later. */
static void list_live(const buffers *b, sc_op_id at, sc_memory_report *out)
{
    const sc_module *m = b->m;
    uint32_t number = 0, peak = 0;
    uint32_t *numbers = sc_arena_array(&m->context->arena, m->ops.count, sizeof *numbers);
    sc_for_each_op (m, b->func, id) {
        numbers[id] = number++;
        peak = id == at ? numbers[id] : peak;
    }
    sc_for_each_op (m, b->func, id) {
        const sc_op *op = sc_op_at(m, id);
        if (numbers[id] > peak)
            break;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            int64_t bytes = bytes_of(b, value);
            if (b->root[value] != value || bytes == 0 || numbers[b->last_use[value]] < peak)
                continue;
            sc_memory_kind kind =
                (sc_op_traits(op) & SC_COLLECTIVE) != 0 ? SC_MEMORY_COMM : SC_MEMORY_ACT;
            sc_memory_live live = {.kind = kind, .bytes = bytes, .loc = op->loc, .value = value};
            live.name = name_of(m, &live);
            *sc_vec_push(&m->context->arena, &out->live) = live;
            out->bytes[kind] = plus(out->bytes[kind], bytes);
        }
    }
    if (out->live.count > 0)
        qsort(out->live.data, out->live.count, sizeof *out->live.data, larger_first);
}

static int64_t find_peak(const buffers *b, sc_op_id *at)
{
    int64_t live = 0, peak = -1;
    sc_for_each_op (b->m, b->func, id) {
        live = plus(live, made_by(b, sc_op_at(b->m, id)));
        if (live > peak) {
            peak = live;
            *at = id;
        }
        live -= freed_after(b, id);
    }
    return peak;
}

/* Returns the bytes of padding in all shards of one copy. */
static int64_t padding_of(const sc_module *m, const sc_type_info *type)
{
    int64_t padded = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t size = sc_type_local_size(m, type, i),
                shards = (int64_t)sc_type_shards(&m->mesh, type, i);
        if (size > 0 && padded > INT64_MAX / size / shards)
            return 0;
        padded *= size * shards;
    }
    int64_t extra = padded - sc_type_elements(type), bytes = sc_dtypes[type->dtype].bytes;
    return extra > INT64_MAX / bytes ? INT64_MAX : extra * bytes;
}

/* By state: bytes that a partial gradient needs once `update` has reduced it; for other state its
 * own bytes. */
static int64_t *reduced_bytes(const sc_module *m)
{
    int64_t *bytes = sc_arena_array(&m->context->arena, m->state.count, sizeof *bytes);
    for (uint32_t s = 0; s < m->state.count; s++)
        bytes[s] = sc_type_local_bytes(m, sc_state_type(m, s));
    uint32_t *state_of = sc_arena_array(&m->context->arena, m->values.count, sizeof *state_of);
    memset(state_of, 0xff, m->values.count * sizeof *state_of);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            if ((sc_op_traits(op) & SC_STATE_READ) != 0)
                state_of[op->first_result] = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
            if ((sc_op_traits(op) & SC_RESHARD) == 0)
                continue;
            for (uint32_t r = 0; r < op->result_count; r++) {
                uint32_t state = state_of[op->operands[r]];
                if (state == SC_NONE ||
                    sc_placement_partial(&sc_type_of(m, op->operands[r])->placement, 0) == 0)
                    continue;
                state_of[op->first_result + r] = state;
                bytes[state] = sc_type_local_bytes(m, sc_type_of(m, op->first_result + r));
            }
        }
    }
    return bytes;
}

static const sc_memory_kind kind_of_state[] = {
    [SC_STATE_PARAM] = SC_MEMORY_PARAM,      [SC_STATE_CACHE] = SC_MEMORY_CACHE,
    [SC_STATE_GRAD] = SC_MEMORY_GRAD,        [SC_STATE_OPT] = SC_MEMORY_OPT,
    [SC_STATE_SCALAR] = SC_MEMORY_WORKSPACE, [SC_STATE_GATHERED] = SC_MEMORY_COMM,
    [SC_STATE_SUM] = SC_MEMORY_WORKSPACE,    [SC_STATE_SLOT] = SC_MEMORY_ACT};

/* ---- staging areas of state in host memory ---- */
enum { STAGING_AREAS = 2, ALIGNMENT = 64 /* of what a program places in memory */ };

/* Adds each kind's areas, which are as large as the largest copy into them. */
static void add_staging(const sc_module *m, uint32_t stage, sc_memory_report *out)
{
    int64_t areas[SC_STATE_KINDS][STAGING_AREAS] = {{0}};
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        int64_t area = sc_op_int(op, SC_ATTR_staging, -1), bytes = 0;
        if (area < 0 || area >= STAGING_AREAS || m->funcs.data[op->func].stage != stage)
            continue;
        for (uint32_t i = 0; i < op->operand_count; i++) {
            int64_t one = sc_type_local_bytes(m, sc_type_of(m, op->operands[i]));
            bytes = plus(bytes, plus(one, (ALIGNMENT - one % ALIGNMENT) % ALIGNMENT));
        }
        const sc_op *read = sc_op_at(m, sc_def(m, op->operands[0]));
        uint32_t state = sc_module_find_state(m, sc_op_word(read, SC_ATTR_name));
        int64_t *most = &areas[m->state.data[state].kind][area];
        *most = bytes > *most ? bytes : *most;
    }
    for (uint32_t k = 0; k < SC_STATE_KINDS; k++) {
        for (uint32_t a = 0; a < STAGING_AREAS; a++)
            out->bytes[kind_of_state[k]] = plus(out->bytes[kind_of_state[k]], areas[k][a]);
    }
}

static void add_state(const sc_module *m, const bool *is_there, sc_memory_report *out)
{
    const int64_t *reduced = reduced_bytes(m);
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_state *state = &m->state.data[s];
        if (!is_there[s] || state->kind == SC_STATE_SLOT)
            continue;
        const sc_type_info *type = &m->types.data[state->type];
        int64_t bytes = sc_type_local_bytes(m, type);
        sc_memory_kind kind = state->host ? SC_MEMORY_HOST : kind_of_state[state->kind];
        /* the remainder is still to be reduced */
        int64_t stored = kind == SC_MEMORY_GRAD && reduced[s] < bytes ? reduced[s] : bytes;
        out->bytes[kind] = plus(out->bytes[kind], stored);
        out->bytes[SC_MEMORY_COMM] = plus(out->bytes[SC_MEMORY_COMM], bytes - stored);
        int64_t padding = padding_of(m, type);
        if (padding > 0)
            *sc_vec_push(&m->context->arena, &out->padding) = (sc_memory_padding){s, padding};
        sc_memory_whole whole = {.state = s, .bytes = bytes};
        if (kind == SC_MEMORY_PARAM) {
            for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
                if (m->mesh.sub_axes[a].size > 1 && type->placement.on[a] == SC_ON_NOTHING)
                    whole.on |= (sc_sub_axis_set)1 << a;
            }
        }
        if (whole.on != 0)
            *sc_vec_push(&m->context->arena, &out->whole) = whole;
    }
}

/* Adds what slots in host memory need there: as much as in the call that needs most. */
static void add_host_slots(const sc_module *m, const sc_slot_lives *slots, sc_memory_report *out)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++)
        most = slots->host_bytes[i] > most ? slots->host_bytes[i] : most;
    out->bytes[SC_MEMORY_HOST] = plus(out->bytes[SC_MEMORY_HOST], most);
}

/* A line for each slot on the device: its copies that are live during the call. */
static void list_slots(const sc_module *m, const sc_slot_lives *slots, uint32_t call,
                       sc_memory_report *out)
{
    uint32_t *copies = sc_arena_array(&m->context->arena, m->state.count + 1u, sizeof *copies);
    for (uint32_t i = 0; i < slots->list.count; i++) {
        const sc_slot_life *life = &slots->list.data[i];
        copies[life->state] +=
            !m->state.data[life->state].host && life->first <= call && call <= life->last;
    }
    for (uint32_t s = 0; s < m->state.count; s++) {
        int64_t bytes = sc_type_local_bytes(m, sc_state_type(m, s)) * copies[s];
        if (bytes == 0)
            continue;
        const char *path = sc_text(m->context, m->state.data[s].path);
        sc_memory_live live = {.name = sc_arena_printf(&m->context->arena, "%s of %u micro-batch%s",
                                                       path, copies[s], copies[s] > 1 ? "es" : ""),
                               .kind = SC_MEMORY_ACT,
                               .bytes = bytes,
                               .loc = m->state.data[s].loc,
                               .value = SC_NONE};
        *sc_vec_push(&m->context->arena, &out->live) = live;
        out->bytes[SC_MEMORY_ACT] = plus(out->bytes[SC_MEMORY_ACT], bytes);
    }
}

/* ---- the call that needs most ---- */

/* What a function needs besides state. */
typedef struct need {
    int64_t peak;
    sc_op_id at;
} need;

/* By function: its need; without `at` if it is not called or has no ops. */
static need *find_needs(buffers *b)
{
    const sc_module *m = b->m;
    need *needs = sc_arena_array(&m->context->arena, m->funcs.count + 1u, sizeof *needs);
    for (sc_func_id f = 0; f < m->funcs.count; f++)
        needs[f] = (need){-1, SC_NONE};
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        need *of = &needs[m->schedule.data[i].func];
        b->func = m->schedule.data[i].func;
        if (of->at != SC_NONE)
            continue;
        find_buffers(b);
        of->peak = find_peak(b, &of->at);
    }
    return needs;
}

/* Returns the first call of the stage that needs most, with the slots that are live then. */
static uint32_t fullest_call(const sc_module *m, uint32_t stage, const need *needs,
                             const sc_slot_lives *slots)
{
    uint32_t best = SC_NONE;
    int64_t most = -1;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_func_id func = m->schedule.data[i].func;
        int64_t needed = plus(needs[func].peak, slots->bytes[i]);
        if (m->funcs.data[func].stage != stage || needs[func].at == SC_NONE || needed <= most)
            continue;
        most = needed;
        best = i;
    }
    return best;
}

static void report_stage(buffers *b, uint32_t stage, const need *needs, sc_memory_report *out)
{
    const sc_module *m = b->m;
    sc_slot_lives slots;
    sc_slot_lives_find(m, stage, &slots);
    *out = (sc_memory_report){.stage = stage};
    add_state(m, sc_states_of_stage(m, stage), out);
    add_staging(m, stage, out);
    add_host_slots(m, &slots, out);
    out->stored_comm = out->bytes[SC_MEMORY_COMM];
    uint32_t call = fullest_call(m, stage, needs, &slots);
    if (call != SC_NONE) {
        b->func = m->schedule.data[call].func;
        const sc_op *op = sc_op_at(m, needs[b->func].at);
        out->at = sc_arena_printf(&m->context->arena, "%s in %s", sc_ops[op->kind].name,
                                  sc_text(m->context, op->scope));
        list_slots(m, &slots, call, out);
        list_live(b, needs[b->func].at, out);
    }
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++)
        out->peak = plus(out->peak, k == SC_MEMORY_HOST ? 0 : out->bytes[k]);
}

void sc_memory_report_make(const sc_module *m, sc_memory_report *out)
{
    sc_arena *arena = &m->context->arena;
    buffers b = {.m = m};
    b.root = sc_arena_array(arena, m->values.count, sizeof *b.root);
    b.stored = sc_arena_array(arena, m->values.count, sizeof *b.stored);
    b.last_use = sc_arena_array(arena, m->values.count, sizeof *b.last_use);
    const need *needs = find_needs(&b);
    report_stage(&b, SC_ALL_STAGES_RUN, needs, out);
    if (!sc_module_is_cut(m))
        return;
    sc_memory_report all = *out;
    for (uint32_t stage = 0; stage < sc_mesh_stages(&m->mesh); stage++) {
        sc_memory_report one;
        report_stage(&b, stage, needs, &one);
        sc_memory_stage *bytes = sc_vec_push(arena, &all.stages);
        memcpy(bytes->bytes, one.bytes, sizeof bytes->bytes);
        bytes->peak = one.peak;
        bytes->stored_comm = one.stored_comm;
        *out = stage == 0 || one.peak > out->peak ? one : *out;
    }
    out->padding = all.padding;
    out->whole = all.whole;
    out->stages = all.stages;
}

/* ---- in words ---- */
const char *sc_sub_axis_set_text(const sc_module *m, sc_sub_axis_set set)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    sc_strbuf_add(&text, "");
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        sc_sub_axis_set all = ((sc_sub_axis_set)1 << axis->sub_axis_count) - 1,
                        of_axis = set >> axis->first_sub_axis & all;
        if (of_axis != 0) {
            for (uint32_t a = 0; a < axis->sub_axis_count; a++) {
                if ((of_axis >> a & 1) == 0 || (of_axis == all && a > 0))
                    continue;
                sc_strbuf_printf(&text, "%s%s", text.length > 0 ? ", " : "",
                                 sc_text(m->context, axis->name));
                if (of_axis != all)
                    sc_strbuf_printf(&text, ".%u", a);
            }
        }
    }
    return text.data;
}

/* ---- parameters ---- */
static int64_t whole_bytes(const sc_type_info *type)
{
    int64_t elements = sc_type_elements(type), size = sc_dtypes[type->dtype].bytes;
    return elements > INT64_MAX / size ? INT64_MAX : elements * size;
}

int64_t sc_memory_parameter_bytes(const sc_module *m)
{
    int64_t bytes = 0;
    for (uint32_t s = 0; s < m->state.count; s++) {
        if (m->state.data[s].kind == SC_STATE_PARAM)
            bytes = plus(bytes, whole_bytes(sc_state_type(m, s)));
    }
    return bytes;
}

int64_t sc_memory_bytes_whole_on(const sc_module *m, uint32_t axis)
{
    int64_t bytes = 0;
    const sc_axis *of = &m->mesh.axes[axis];
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_type_info *type = sc_state_type(m, s);
        bool split = m->state.data[s].kind != SC_STATE_PARAM;
        for (uint32_t a = of->first_sub_axis; a < (uint32_t)of->first_sub_axis + of->sub_axis_count;
             a++)
            split = split || type->placement.on[a] != SC_ON_NOTHING;
        bytes = split ? bytes : plus(bytes, whole_bytes(type));
    }
    return bytes;
}
