#include "passes/comm_report.h"

#include <string.h>

#include "passes/reason.h"
#include "passes/reshard_path.h"
#include "program/collective.h"

/* layers[3].attn -> layers.attn, with 3 in `layers`. */
static const char *without_indices(sc_arena *arena, const char *path, sc_comm_row *row)
{
    char *text = sc_arena_copy_text(arena, path, strlen(path)), *out = text;
    for (const char *p = path; *p != 0; p++) {
        if (*p != '[') {
            *out++ = *p;
            continue;
        }
        int64_t index = 0;
        for (p++; *p != 0 && *p != ']'; p++)
            index = index * 10 + (*p - '0');
        *sc_vec_push(arena, &row->layers) = index;
        if (*p == 0)
            break;
    }
    *out = 0;
    return text;
}

/* A send or receive is between two ranks that differ on the stage axis. */
static void set_pair(const sc_module *m, sc_comm_row *row)
{
    int axis = sc_mesh_stage_axis(&m->mesh);
    row->axes = axis < 0 ? 0 : 1u << axis;
    row->whole_axes = true;
    row->ranks = 2;
}

static void set_group(const sc_module *m, sc_comm_row *row)
{
    sc_sub_axis_set set = 0;
    row->ranks = 1;
    for (uint32_t i = 0; i < row->group.count; i++) {
        const sc_sub_axis *sub_axis = &m->mesh.sub_axes[row->group.sub_axes[i]];
        row->axes |= 1u << sub_axis->axis;
        row->ranks *= sub_axis->size;
        set |= (sc_sub_axis_set)1 << row->group.sub_axes[i];
    }
    row->whole_axes = true;
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if ((row->axes >> m->mesh.sub_axes[a].axis & 1) != 0 && (set >> a & 1) == 0)
            row->whole_axes = false;
    }
}

/* Size of the full buffer of one group: the result of an all_gather, the operand of a
 * reduce_scatter, as many pieces as ranks; for exchanges the local buffer, also in as many pieces.
 * Pieces of a dim that does not divide are padded; padding is sent too. */
static double buffer_bytes(const sc_module *m, const sc_op *op, uint32_t i, uint64_t ranks)
{
    const sc_type_info *from = sc_type_of(m, op->operands[i]),
                       *to = sc_type_of(m, op->first_result + i);
    const sc_attr *scatter = sc_op_attr(op, SC_ATTR_scatter);
    if (op->kind == SC_OP_all_gather)
        return (double)sc_type_local_bytes(m, from) * (double)ranks;
    if (op->kind == SC_OP_reduce_scatter)
        return (double)sc_type_local_bytes(m, to) * (double)ranks;
    if (scatter == NULL)
        return (double)sc_type_local_bytes(m, from);
    sc_dim dim = scatter->dims[i];
    uint32_t whole = (uint32_t)sc_type_find_dim(from, dim),
             piece = (uint32_t)sc_type_find_dim(to, dim);
    return (double)sc_type_local_bytes(m, from) / (double)sc_type_local_size(m, from, whole) *
           (double)sc_type_local_size(m, to, piece) * (double)ranks;
}

/* Looks through the casts, reshards and collectives of an unnamed value, up to one with a name. */
static sc_value bare_value(const sc_module *m, sc_value value)
{
    for (;;) {
        const sc_op *op = sc_op_at(m, sc_def(m, value));
        uint32_t result = value - op->first_result;
        if ((sc_op_traits(op) & SC_NAMESAKE) == 0 || result >= op->operand_count ||
            sc_value_path(m, value) != 0)
            return value;
        value = op->operands[result];
    }
}

/* Name of value i relative to its scope. A received value without one is called what its sender
 * calls it; `sends`: the op that sends under each name. */
static const char *value_name(const sc_module *m, const sc_map *sends, const sc_op *op, uint32_t i)
{
    sc_sym path = op->operand_count == 1 ? sc_op_word(op, SC_ATTR_moves) : 0;
    path = path != 0 ? path : sc_value_path(m, op->operands[i]);
    if (path == 0 && i < op->result_count)
        path = m->values.data[op->first_result + i].path;
    sc_value bare = bare_value(m, op->operands[i]);
    path = path != 0 ? path : sc_value_path(m, bare);
    if (path == 0) {
        const sc_op *made = sc_op_at(m, sc_def(m, bare));
        const uint32_t *sender = sc_op_transfers((sc_op_kind)made->kind)
                                     ? sc_map_find(sends, sc_op_word(made, SC_ATTR_name))
                                     : NULL;
        return sender != NULL ? value_name(m, sends, sc_op_at(m, *sender), 0)
                              : sc_ops[made->kind].name;
    }
    const char *text = sc_text(m->context, path), *scope = sc_text(m->context, op->scope);
    size_t length = strlen(scope);
    if (op->operand_count == 1 && strncmp(text, scope, length) == 0 && text[length] == '.')
        return text + length + 1;
    /* a parameter of a unit: its path within the instance */
    const char *bracket = strchr(text, ']');
    bool in_unit = bracket != NULL && bracket[1] == '.' &&
                   strncmp(text, scope, (size_t)(bracket - text) + 1) == 0;
    return in_unit ? bracket + 2 : text;
}

static void set_scope(sc_module *m, const sc_op *op, sc_comm_row *row)
{
    const char *scope = sc_text(m->context, op->scope);
    /* a unit's gather is attributed to the whole instance */
    if (sc_op_attr(op, SC_ATTR_unit) != NULL) {
        const char *bracket = strchr(scope, ']');
        scope = bracket == NULL
                    ? scope
                    : sc_arena_copy_text(&m->context->arena, scope, (size_t)(bracket - scope) + 1);
    }
    row->scope = without_indices(&m->context->arena, scope, row);
}

/* How often a function is called. */
typedef struct func_calls {
    uint32_t count; /* 0: never, or its rows are there already */
    bool per_step;
} func_calls;

/* What is common to rows of collectives, of transfers and of copies. */
static sc_comm_row make_row(sc_module *m, sc_op_id id, const func_calls *calls)
{
    const sc_op *op = sc_op_at(m, id);
    sc_comm_row row = {.op = id,
                       .name = sc_op_copies_memory((sc_op_kind)op->kind)
                                   ? sc_ops[op->kind].name
                                   : sc_collectives[sc_op_collective(op->kind)].name,
                       .stage = m->funcs.data[op->func].stage,
                       .count = calls->count,
                       .per_step = calls->per_step,
                       .control = true};
    set_scope(m, op, &row);
    sc_sym phase = sc_op_word(op, SC_ATTR_phase);
    row.phase = phase == 0 ? "forward" : sc_text(m->context, phase);
    row.rule = (uint32_t)sc_op_int(op, SC_ATTR_rule, SC_NONE);
    row.why = sc_text(m->context, sc_op_word(op, SC_ATTR_why));
    return row;
}

/* Returns the op that sends under each name. */
static sc_map find_sends(const sc_module *m)
{
    sc_map sends = {.arena = &m->context->arena};
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_transfers((sc_op_kind)op->kind) && op->operand_count > 0)
            sc_map_insert(&sends, sc_op_word(op, SC_ATTR_name), id, NULL);
    }
    return sends;
}

/* A received value is called what its sender calls it. */
static const char *transferred_name(const sc_module *m, const sc_op *op, const sc_map *sends)
{
    sc_sym name = sc_op_word(op, SC_ATTR_name);
    const uint32_t *sender = sc_map_find(sends, name);
    return sender == NULL ? sc_text(m->context, name)
                          : value_name(m, sends, sc_op_at(m, *sender), 0);
}

static void add_transfer(sc_module *m, sc_op_id id, const func_calls *calls, const sc_map *sends,
                         sc_comm_rows *out)
{
    const sc_op *op = sc_op_at(m, id);
    sc_comm_row row = make_row(m, id, calls);
    bool is_send = op->operand_count > 0;
    const sc_type_info *type = sc_type_of(m, is_send ? op->operands[0] : op->first_result);
    set_pair(m, &row);
    row.bytes = (double)sc_type_local_bytes(m, type);
    row.sent = row.most = sc_sent_bytes((sc_op_kind)op->kind, row.bytes, (double)row.ranks);
    row.control = type->rank == 0;
    row.dtype = sc_dtypes[type->dtype].name;
    *sc_vec_push(&m->context->arena, &row.values) = transferred_name(m, op, sends);
    if (row.why[0] == 0)
        row.why = sc_arena_printf(&m->context->arena,
                                  is_send ? "stage %lld reads it" : "stage %lld computes it",
                                  (long long)sc_op_int(op, SC_ATTR_stage, 0));
    row.cost = row.sent * sc_axes_weight(&m->mesh, row.axes);
    *sc_vec_push(&m->context->arena, out) = row;
}

static void add_row(sc_module *m, sc_op_id id, const func_calls *calls, const sc_map *sends,
                    sc_comm_rows *out)
{
    const sc_op *op = sc_op_at(m, id);
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over), *gather = sc_op_attr(op, SC_ATTR_gather),
                  *scatter = sc_op_attr(op, SC_ATTR_scatter);
    sc_comm_row row = make_row(m, id, calls);
    row.reduce = sc_op_attr(op, SC_ATTR_reduce) == NULL
                     ? NULL
                     : sc_text(m->context, sc_op_word(op, SC_ATTR_reduce));
    row.group.count = (uint8_t)over->count;
    memcpy(row.group.sub_axes, over->sub_axes, over->count);
    set_group(m, &row);
    for (uint32_t i = 0; i < op->result_count; i++) {
        row.bytes += buffer_bytes(m, op, i, row.ranks);
        row.control = row.control && sc_type_of(m, op->operands[i])->rank == 0;
        *sc_vec_push(&m->context->arena, &row.values) = value_name(m, sends, op, i);
    }
    row.control = row.control || sc_op_int(op, SC_ATTR_control, 0) != 0;
    row.sent = row.most = sc_sent_bytes((sc_op_kind)op->kind, row.bytes, (double)row.ranks);
    row.sent *= sc_op_number(op, SC_ATTR_even, 1);
    const sc_attr *named = scatter != NULL ? scatter : gather;
    row.dim = named == NULL ? NULL : sc_text(m->context, m->dims.data[named->dims[0]].name);
    row.dtype = sc_dtypes[sc_type_of(m, op->operands[0])->dtype].name;
    row.cost = row.sent * sc_axes_weight(&m->mesh, row.axes);
    *sc_vec_push(&m->context->arena, out) = row;
}

/* ---- copies ---- */
typedef struct writes {
    uint32_t *state; /* by value: 1 + the state that it becomes; 0: none */
    sc_value *value; /* by state: what is written to it */
    sc_map sends;
} writes;

static writes find_writes(const sc_module *m)
{
    sc_arena *arena = &m->context->arena;
    writes w = {.state = sc_arena_array(arena, m->values.count, sizeof *w.state),
                .value = sc_arena_array(arena, m->state.count + 1u, sizeof *w.value),
                .sends = find_sends(m)};
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & SC_STATE_WRITE) == 0)
            continue;
        uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
        w.state[op->operands[0]] = 1 + state;
        w.value[state] = op->operands[0];
    }
    return w;
}

/* Length of the stacked instance that a path begins with; 0: none. */
static size_t instance_length(const char *path)
{
    const char *bracket = strchr(path, ']');
    return bracket == NULL ? 0 : (size_t)(bracket - path) + 1;
}

/* Name of value i of a copy: of the state that it is read from or becomes. A slot, of which the
 * value is an activation, has the name of what is copied there. */
static const char *copied_name(const sc_module *m, const sc_op *op, uint32_t i, const writes *w)
{
    const sc_op *read = sc_op_at(m, sc_def(m, op->operands[i]));
    bool is_read = (sc_op_traits(read) & SC_STATE_READ) != 0;
    uint32_t state = is_read ? sc_module_find_state(m, sc_op_word(read, SC_ATTR_name))
                             : w->state[op->first_result + i] - 1;
    if (state == SC_NONE)
        return value_name(m, &w->sends, op, i);
    if (m->state.data[state].kind != SC_STATE_SLOT)
        return sc_text(m->context, m->state.data[state].path);
    const sc_op *to_host = sc_op_at(m, sc_def(m, w->value[state]));
    return value_name(m, &w->sends, to_host, w->value[state] - to_host->first_result);
}

static void add_copy(sc_module *m, sc_op_id id, const func_calls *calls, const writes *w,
                     sc_comm_rows *out)
{
    sc_arena *arena = &m->context->arena;
    const sc_op *op = sc_op_at(m, id);
    /* activations are of the instance that computes them, not of their first reader's */
    const sc_op *def = sc_op_at(m, sc_def(m, op->operands[0]));
    const bool comes_back = sc_copy_brings_back(m, op);
    const char *scope = sc_text(m->context, comes_back ? def->scope : op->scope);
    const char *unit = instance_length(scope) > 0 ? scope : copied_name(m, op, 0, w);
    size_t length = instance_length(unit);
    sc_comm_row row = make_row(m, id, calls);
    row.whole_axes = true;
    row.ranks = 1;
    if (length > 0) {
        row.layers.count = 0;
        row.scope = without_indices(arena, sc_arena_copy_text(arena, unit, length), &row);
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_type_info *type = sc_type_of(m, op->operands[i]);
        const char *name = copied_name(m, op, i, w);
        bool is_within = length > 0 && strncmp(name, unit, length) == 0 && name[length] == '.';
        row.bytes += (double)sc_type_local_bytes(m, type);
        row.control = row.control && type->rank == 0;
        *sc_vec_push(arena, &row.values) = is_within ? name + length + 1 : name;
    }
    row.dtype = sc_dtypes[sc_type_of(m, op->operands[0])->dtype].name;
    *sc_vec_push(arena, out) = row;
}

/* ---- tables ---- */
/* By function: its calls in the schedule. */
static func_calls *count_calls(const sc_module *m)
{
    func_calls *calls = sc_arena_array(&m->context->arena, m->funcs.count, sizeof *calls);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        calls[call->func].count++;
        calls[call->func].per_step = call->microbatch < 0;
    }
    return calls;
}

void sc_copy_report(sc_module *m, sc_comm_rows *out)
{
    func_calls *calls = count_calls(m);
    const writes w = find_writes(m);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_func_id func = m->schedule.data[i].func;
        if (calls[func].count == 0)
            continue;
        sc_for_each_op (m, func, op) {
            if (sc_op_copies_memory((sc_op_kind)sc_op_at(m, op)->kind))
                add_copy(m, op, &calls[func], &w, out);
        }
        calls[func].count = 0; /* mark as visited */
    }
}

void sc_comm_report(sc_module *m, sc_comm_rows *out)
{
    func_calls *calls = count_calls(m);
    const sc_map sends = find_sends(m);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_func_id func = m->schedule.data[i].func;
        if (calls[func].count == 0)
            continue;
        sc_for_each_op (m, func, op) {
            if ((sc_op_traits(sc_op_at(m, op)) & SC_COLLECTIVE) != 0)
                add_row(m, op, &calls[func], &sends, out);
            else if (sc_op_transfers((sc_op_kind)sc_op_at(m, op)->kind))
                add_transfer(m, op, &calls[func], &sends, out);
        }
        calls[func].count = 0; /* mark as visited */
    }
}

const char *sc_comm_group_text(const sc_module *m, const sc_comm_row *row)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    uint32_t last_axis = SC_NONE;
    for (uint32_t a = 0; a < m->mesh.axis_count; a++) {
        if (row->group.count == 0 && (row->axes >> a & 1) != 0)
            sc_strbuf_add(&text, sc_text(m->context, m->mesh.axes[a].name));
    }
    for (uint32_t i = 0; i < row->group.count; i++) {
        const sc_sub_axis *sub_axis = &m->mesh.sub_axes[row->group.sub_axes[i]];
        if (row->whole_axes && sub_axis->axis == last_axis)
            continue;
        last_axis = sub_axis->axis;
        sc_strbuf_printf(&text, "%s%s", text.length > 0 ? "+" : "",
                         sc_text(m->context, m->mesh.axes[sub_axis->axis].name));
        if (!row->whole_axes && m->mesh.axes[sub_axis->axis].sub_axis_count > 1)
            sc_strbuf_printf(&text, ".%u", sub_axis->index);
    }
    return text.data;
}
