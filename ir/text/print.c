/* The printer of `shardc.ir 1`. Its output depends only on the order of things in the module:
 * values are numbered from 0 in each function in order of definition, so equal modules print equal
 * bytes whatever their handles. */
#include <string.h>

#include "ir/text/text_internal.h"

/* ---- attributes ---- */

/* An empty list in brackets is `()`, so that [], [-> R] and [() -> R] differ. */
static void print_bracket_dims(sc_printer *p, const sc_attr *attr)
{
    if (attr->count == 0)
        sc_strbuf_add(p->out, "()");
    sc_print_dim_list(p, attr->dims, attr->count);
}

/* [D], [A + R -> E] for concat, [S -> T]. */
static void print_brackets(sc_printer *p, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims), *from = sc_op_attr(op, SC_ATTR_from_dims),
                  *to = sc_op_attr(op, SC_ATTR_to);
    if (dims == NULL && from == NULL && to == NULL)
        return;
    sc_strbuf_add_char(p->out, '[');
    if (dims != NULL && (dims->count > 0 || from != NULL || to != NULL))
        print_bracket_dims(p, dims);
    if (from != NULL) {
        sc_strbuf_add(p->out, dims != NULL ? " + " : "+ ");
        print_bracket_dims(p, from);
    }
    if (to != NULL) {
        sc_strbuf_add(p->out, dims != NULL || from != NULL ? " -> " : "-> ");
        print_bracket_dims(p, to);
    }
    sc_strbuf_add_char(p->out, ']');
}

static void print_list_item(sc_printer *p, const sc_attr *attr, uint32_t i)
{
    switch (sc_attr_kinds[attr->key]) {
    case SC_ATTR_KIND_DIMS: /* leaf by leaf: lists parallel to operands have one dim per operand */
        sc_print_dim_name(p, attr->dims[i]);
        break;
    case SC_ATTR_KIND_INTS:
        sc_strbuf_add_integer(p->out, attr->ints[i]);
        break;
    case SC_ATTR_KIND_FLOATS:
        sc_strbuf_add_double(p->out, attr->numbers[i]);
        break;
    case SC_ATTR_KIND_WORDS:
        sc_print_name(p, attr->words[i]);
        break;
    case SC_ATTR_KIND_SPLITS:
        sc_print_dim_name(p, attr->splits[i].dim);
        sc_strbuf_add_char(p->out, '@');
        sc_print_sub_axis_list(p, &attr->splits[i].sub_axes);
        break;
    default:
        break;
    }
}

static void print_list(sc_printer *p, const sc_attr *attr)
{
    sc_strbuf_add_char(p->out, '[');
    if (sc_attr_kinds[attr->key] == SC_ATTR_KIND_SUB_AXES) {
        sc_print_sub_axis_items(p, attr->sub_axes, attr->count);
    } else {
        for (uint32_t i = 0; i < attr->count; i++) {
            if (i > 0)
                sc_strbuf_add(p->out, ", ");
            print_list_item(p, attr, i);
        }
    }
    sc_strbuf_add_char(p->out, ']');
}

static void print_attr(sc_printer *p, const sc_attr *attr)
{
    sc_strbuf_add(p->out, sc_attr_names[attr->key]);
    sc_strbuf_add(p->out, " = ");
    switch (sc_attr_kinds[attr->key]) {
    case SC_ATTR_KIND_INT:
        sc_strbuf_add_integer(p->out, attr->integer);
        break;
    case SC_ATTR_KIND_FLOAT:
        sc_strbuf_add_double(p->out, attr->number);
        break;
    case SC_ATTR_KIND_WORD:
        sc_print_name(p, attr->text);
        break;
    case SC_ATTR_KIND_TEXT:
        sc_print_quoted(p, attr->text);
        break;
    default:
        print_list(p, attr);
    }
}

static void print_attrs(sc_printer *p, const sc_op *op)
{
    bool any = false;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        uint16_t key = op->attrs[i].key;
        if (key == SC_ATTR_dims || key == SC_ATTR_from_dims || key == SC_ATTR_to)
            continue;
        sc_strbuf_add(p->out, any ? ", " : " {");
        print_attr(p, &op->attrs[i]);
        any = true;
    }
    if (any)
        sc_strbuf_add_char(p->out, '}');
}

/* ---- functions ---- */

/* The ops of one function in order. The tables are allocated once per module; entries of other
 * functions are stale. */
typedef struct op_list {
    sc_func_id func;
    uint32_t count;
    sc_op_id *ops;
    uint32_t *numbers; /* per value; SC_NONE if not printed */
    uint32_t *places;  /* per op: its index in ops */
} op_list;

static void print_value(sc_printer *p, const op_list *list, sc_value value)
{
    const sc_module *m = p->m;
    sc_strbuf_add_char(p->out, '%');
    if (value < m->values.count && list->numbers[value] != SC_NONE &&
        sc_op_at(m, sc_def(m, value))->func == list->func)
        sc_strbuf_add_integer(p->out, list->numbers[value]);
    else /* invalid IR still prints, for debugging */
        sc_strbuf_printf(p->out, "?%u", value);
}

static void print_op(sc_printer *p, const op_list *list, const sc_op *op)
{
    sc_strbuf_add(p->out, "  ");
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (r > 0)
            sc_strbuf_add(p->out, ", ");
        print_value(p, list, op->first_result + r);
        sc_sym path = p->m->values.data[op->first_result + r].path;
        if (path != 0) {
            sc_strbuf_add_char(p->out, ' ');
            sc_print_quoted(p, path);
        }
    }
    if (op->result_count > 0)
        sc_strbuf_add(p->out, " = ");
    sc_strbuf_add(p->out, sc_ops[op->kind].name);
    print_brackets(p, op);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_strbuf_add(p->out, i > 0 ? ", " : " ");
        print_value(p, list, op->operands[i]);
    }
    print_attrs(p, op);
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_strbuf_add(p->out, r > 0 ? ", " : " : ");
        sc_print_type_handle(p, p->m->values.data[op->first_result + r].type);
    }
    sc_strbuf_add_char(p->out, '\n');
}

/* "  // x 126: layers[0..125]": the preceding items occur this many times. */
static void print_fold(sc_printer *p, const sc_fold *fold)
{
    if (fold->count > 1)
        sc_strbuf_printf(p->out, "  // x %u: %.*s[%lld..%lld]\n", fold->count,
                         (int)fold->stack_length, fold->stack, (long long)fold->from,
                         (long long)fold->to);
}

static op_list make_tables(const sc_module *m)
{
    sc_arena *arena = &m->context->arena;
    op_list list = {.ops = sc_arena_array(arena, m->ops.count, sizeof *list.ops),
                    .numbers = sc_arena_array(arena, m->values.count, sizeof *list.numbers),
                    .places = sc_arena_array(arena, m->ops.count, sizeof *list.places)};
    memset(list.numbers, 0xff, m->values.count * sizeof *list.numbers);
    return list;
}

static void number_function(const sc_module *m, sc_func_id func, op_list *list)
{
    uint32_t next = 0;
    list->func = func;
    list->count = 0;
    sc_for_each_op (m, func, op) {
        list->places[op] = list->count;
        list->ops[list->count++] = op;
        for (uint32_t r = 0; r < m->ops.data[op].result_count; r++)
            list->numbers[m->ops.data[op].first_result + r] = next++;
    }
}

typedef struct func_printing {
    const op_list *list;
    sc_sym scope; /* those of the op printed last */
    uint16_t chunk;
} func_printing;

static void print_op_item(sc_printer *p, void *user, uint32_t i)
{
    func_printing *f = user;
    const sc_op *op = &p->m->ops.data[f->list->ops[i]];
    if (op->scope != f->scope) {
        sc_strbuf_add(p->out, "  scope ");
        sc_print_quoted(p, op->scope);
        sc_strbuf_add_char(p->out, '\n');
        f->scope = op->scope;
    }
    if (op->chunk != f->chunk) {
        if (op->chunk == SC_NO_CHUNK)
            sc_strbuf_add(p->out, "  chunk any\n");
        else
            sc_strbuf_printf(p->out, "  chunk %u\n", op->chunk);
        f->chunk = op->chunk;
    }
    print_op(p, f->list, op);
}

/* Prints items from..end, repeats once. A printed repeat may contain repeats itself. */
typedef void print_item(sc_printer *p, void *user, uint32_t i);

static void print_items(sc_printer *p, const sc_folder *folder, uint32_t from, uint32_t end,
                        print_item *print, void *user)
{
    for (uint32_t i = from; i < end;) {
        sc_fold fold = {.length = 1, .count = 1};
        if (p->fold)
            fold = sc_fold_at(folder, i, end);
        for (uint32_t k = 0; k < fold.skip; k++)
            print(p, user, i++);
        if (fold.count == 1)
            print(p, user, i);
        else
            print_items(p, folder, i, i + fold.length, print, user);
        print_fold(p, &fold);
        i += fold.length * fold.count;
    }
}

static void print_all(sc_printer *p, sc_folder *folder, print_item *print, void *user)
{
    if (p->fold)
        sc_folder_prepare(folder);
    print_items(p, folder, 0, folder->count, print, user);
}

static void print_func(sc_printer *p, op_list *list)
{
    const sc_func *func = &p->m->funcs.data[list->func];
    sc_folder folder = {.m = p->m,
                        .kind = SC_FOLD_OPS,
                        .count = list->count,
                        .ops = list->ops,
                        .place = list->places};
    func_printing f = {.list = list, .chunk = SC_NO_CHUNK};
    sc_strbuf_add(p->out, "\nfunc @");
    sc_print_name(p, func->name);
    if (func->stage != SC_ALL_STAGES_RUN)
        sc_strbuf_printf(p->out, " stage %u", func->stage);
    sc_strbuf_add(p->out, " {\n");
    print_all(p, &folder, print_op_item, &f);
    sc_strbuf_add(p->out, "}\n");
}

/* ---- the rest of the module ---- */

static void print_states(sc_printer *p)
{
    if (p->m->states == 0)
        return;
    sc_strbuf_add(p->out, "states");
    for (uint32_t bit = 0; bit < SC_TEXT_STATES; bit++) {
        if ((p->m->states >> bit & 1) != 0)
            sc_strbuf_printf(p->out, " %s", sc_text_state_names[bit]);
    }
    sc_strbuf_add_char(p->out, '\n');
}

static void print_axis_split(sc_printer *p, const sc_axis *axis)
{
    sc_strbuf_add(p->out, " split (");
    for (uint32_t i = 0; i < axis->sub_axis_count; i++)
        sc_strbuf_printf(p->out, "%s%u", i > 0 ? ", " : "",
                         p->m->mesh.sub_axes[axis->first_sub_axis + i].size);
    sc_strbuf_add_char(p->out, ')');
}

static void print_mesh(sc_printer *p)
{
    const sc_mesh *mesh = &p->m->mesh;
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        const sc_axis *axis = &mesh->axes[a];
        sc_strbuf_add(p->out, a > 0 ? ", " : "mesh ");
        sc_print_axis_name(p, a);
        sc_strbuf_printf(p->out, " = %u%s", axis->size, axis->inter ? " inter" : "");
        if (axis->is_stage)
            sc_strbuf_add(p->out, " stage");
        else if (axis->sub_axis_count > 1)
            print_axis_split(p, axis);
    }
    sc_strbuf_add(p->out, mesh->axis_count > 0 ? "\n" : "");
}

static void print_parts(sc_printer *p, sc_dim dim)
{
    const sc_dim_info *info = &p->m->dims.data[dim];
    sc_strbuf_add(p->out, info->alias_of != SC_NONE ? " (" : " = (");
    for (uint32_t i = 0; i < info->part_count; i++) {
        sc_strbuf_add(p->out, i > 0 ? ", " : "");
        sc_print_dim_name(p, info->parts[i]);
        if (p->leaf_sizes[dim] != NULL) {
            sc_strbuf_add(p->out, " = ");
            sc_strbuf_add_integer(p->out, p->leaf_sizes[dim][i]);
        }
    }
    sc_strbuf_add_char(p->out, ')');
}

static void print_dim_line(sc_printer *p, sc_dim dim)
{
    const sc_dim_info *info = &p->m->dims.data[dim];
    sc_strbuf_add(p->out, "dim ");
    sc_print_dim_name(p, dim);
    if (info->alias_of != SC_NONE) {
        sc_strbuf_add(p->out, " = alias ");
        sc_print_dim_name(p, info->alias_of);
    }
    if (info->part_count > 0)
        print_parts(p, dim);
    if (info->part_of != SC_NONE) {
        sc_strbuf_add(p->out, " of ");
        sc_print_dim_name(p, info->part_of);
    }
    if (info->multiple > 1)
        sc_strbuf_printf(p->out, " pad %lld", (long long)info->multiple);
    if (info->zigzag.count > 0) {
        sc_strbuf_add(p->out, " zigzag ");
        sc_print_sub_axis_list(p, &info->zigzag);
    }
    sc_strbuf_add_char(p->out, '\n');
}

static void print_rule(sc_printer *p, uint32_t index)
{
    const sc_rule_ref *rule = &p->m->rules.data[index];
    sc_strbuf_printf(p->out, "rule %u ", index);
    sc_print_quoted(p, rule->text);
    sc_strbuf_add(p->out, " at ");
    sc_print_quoted(p, rule->file);
    sc_strbuf_printf(p->out, ":%u\n", rule->line);
}

static void print_init(sc_printer *p, const sc_state *state)
{
    sc_strbuf_add(p->out, sc_init_kind_names[state->init]);
    for (uint32_t i = 0; i < sc_init_kind_args[state->init]; i++) {
        sc_strbuf_add(p->out, i > 0 ? ", " : "(");
        sc_strbuf_add_double(p->out, state->init_args[i]);
    }
    sc_strbuf_add(p->out, sc_init_kind_args[state->init] > 0 ? ")" : "");
}

static void print_state(sc_printer *p, void *user, uint32_t i)
{
    const sc_state *state = &p->m->state.data[i];
    (void)user;
    sc_strbuf_printf(p->out, "state %s ", sc_state_kind_names[state->kind]);
    sc_print_quoted(p, state->path);
    sc_strbuf_add(p->out, ": ");
    sc_print_type_handle(p, state->type);
    sc_strbuf_add(p->out, " = ");
    print_init(p, state);
    sc_strbuf_add(p->out, state->host ? " host" : "");
    if (state->host_rule != 0)
        sc_strbuf_printf(p->out, " rule %u", state->host_rule - 1);
    sc_strbuf_add_char(p->out, '\n');
}

static void print_schedule(sc_printer *p)
{
    if (p->m->schedule.count == 0)
        return;
    sc_strbuf_add(p->out, "\nschedule {\n");
    for (uint32_t i = 0; i < p->m->schedule.count; i++) {
        const sc_call *call = &p->m->schedule.data[i];
        sc_strbuf_add(p->out, "  call @");
        sc_print_name(p, p->m->funcs.data[call->func].name);
        if (call->microbatch != 0)
            sc_strbuf_printf(p->out, " microbatch %d", call->microbatch);
        sc_strbuf_add_char(p->out, '\n');
    }
    sc_strbuf_add(p->out, "}\n");
}

/* Visits the types in print order. */
static void find_leaf_sizes(sc_printer *p)
{
    const sc_module *m = p->m;
    bool *seen = sc_arena_array(&m->context->arena, m->types.count, sizeof *seen);
    p->leaf_sizes = sc_arena_array(&m->context->arena, m->dims.count, sizeof *p->leaf_sizes);
    for (uint32_t i = 0; i < m->state.count; i++)
        sc_print_note_type(p, m->state.data[i].type, seen);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            for (uint32_t r = 0; r < m->ops.data[op].result_count; r++)
                sc_print_note_type(p, m->values.data[sc_result(m, op, r)].type, seen);
        }
    }
}

void sc_print_module(const sc_module *m, const sc_print_options *options, sc_strbuf *out)
{
    sc_printer p = {.m = m, .out = out, .fold = options != NULL && options->fold};
    find_leaf_sizes(&p);
    sc_strbuf_add(out, "shardc.ir 1\n");
    print_states(&p);
    print_mesh(&p);
    for (sc_dim d = 0; d < m->dims.count; d++)
        print_dim_line(&p, d);
    for (uint32_t i = 0; i < m->rules.count; i++)
        print_rule(&p, i);
    print_all(&p, &(sc_folder){.m = m, .kind = SC_FOLD_STATES, .count = m->state.count},
              print_state, NULL);
    op_list list = make_tables(m);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        number_function(m, f, &list);
        print_func(&p, &list);
    }
    print_schedule(&p);
}
