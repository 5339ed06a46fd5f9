/* Lowers ops to kernels: the op table, and the kernel around its phases. */
#include "codegen/lower/lower.h"

#include <string.h>

#include "codegen/lower/rows.h"

const sc_lower_row sc_lower_rows[SC_OP_COUNT] = {
#define NODE(...)
#define FUNCTION(name, ...) [SC_OP_##name] = {lower_node, NULL, SC_NODE_##name},
#include "codegen/kernel/nodes.def"
#define LOWER(op, function, node) [SC_OP_##op] = {function, NULL, SC_NODE_##node},
#define ROOT(op, function)        [SC_OP_##op] = {NULL, function, SC_NODE_constant},
#include "codegen/lower/lowering.def"
};

/* ---- text for users ---- */
static const char *title_of(const sc_lowering *l)
{
    sc_strbuf text;
    sc_strbuf_init(&text, l->k->arena);
    const sc_op *last = sc_op_at(l->m, l->ops[l->op_count - 1]);
    sc_lower_add_scope(&text, sc_text(l->m->context, last->scope));
    sc_strbuf_add(&text, ":");
    uint32_t shown = 0;
    for (uint32_t i = 0; i < l->op_count; i++) {
        uint32_t fuse = sc_lower_fuse(l, i);
        if ((fuse & (SC_FUSE_FREE | SC_FUSE_VIEW)) != 0 && l->op_count > 1)
            continue;
        if (shown++ < 8)
            sc_strbuf_printf(&text, " %s", sc_ops[sc_op_at(l->m, l->ops[i])->kind].name);
    }
    if (shown > 8)
        sc_strbuf_printf(&text, " and %u more", shown - 8);
    return text.data;
}

/* Adds the model's source lines, each once. */
static void add_comments(sc_lowering *l)
{
    sc_context *context = l->m->context;
    sc_map seen = {.arena = l->k->arena};
    for (uint32_t i = 0; i < l->op_count; i++) {
        sc_line line = sc_sources_line(&context->sources, sc_op_at(l->m, l->ops[i])->loc.begin);
        bool is_new;
        if (line.source == NULL)
            continue;
        sc_map_insert(&seen, (uint64_t)line.source->base << 32 | line.line, 0, &is_new);
        while (line.text_length > 0 && line.text[0] == ' ')
            line.text++, line.text_length--;
        if (is_new)
            *sc_vec_push(l->k->arena, &l->k->comments) =
                sc_arena_printf(l->k->arena, "%s:%u: %.*s", line.source->name, line.line,
                                (int)line.text_length, line.text);
    }
}

bool *sc_find_escaping(const sc_module *m, sc_func_id func)
{
    bool *escapes = sc_arena_array(&m->context->arena, m->values.count, sizeof *escapes);
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        int64_t number = sc_op_int(o, SC_ATTR_kernel, -1);
        for (uint32_t i = 0; i < o->operand_count; i++) {
            int64_t made = sc_op_int(sc_op_at(m, sc_def(m, o->operands[i])), SC_ATTR_kernel, -1);
            escapes[o->operands[i]] = escapes[o->operands[i]] || number < 0 || made != number;
        }
    }
    return escapes;
}

bool sc_lower_kernel(const sc_module *m, const sc_op_id *ops, uint32_t count, const bool *escapes,
                     sc_lowered *out)
{
    sc_arena *arena = &m->context->scratch;
    const sc_op *last = sc_op_at(m, ops[count - 1]);
    *out = (sc_lowered){.kernel = sc_kernel_new_in(m->context, arena,
                                                   sc_intern_text(&m->context->names, "kernel"))};
    sc_lowering l = {.m = m,
                     .k = out->kernel,
                     .out = out,
                     .rows = sc_lower_rows,
                     .escapes = escapes,
                     .ops = ops,
                     .op_count = count,
                     .guard = SC_NONE};
    l.number = sc_op_int(last, SC_ATTR_kernel, -1);
    l.depth = sc_arena_array(arena, count, sizeof *l.depth);
    l.item = sc_arena_array(arena, count, sizeof *l.item);
    l.saved = sc_arena_array(arena, count, sizeof *l.saved);
    memset(l.item, 0xff, count * sizeof *l.item);
    l.memo_map.arena = l.checked.arena = arena;
    if (l.rows[last->kind].root != NULL)
        l.rows[last->kind].root(&l, last);
    else
        sc_lower_phases(&l);
    l.k->title = title_of(&l);
    add_comments(&l);
    const char *error = l.error != NULL ? l.error : sc_kernel_verify(l.k);
    if (error != NULL) {
        sc_strbuf text;
        sc_strbuf_init(&text, arena);
        sc_kernel_print(l.k, &text);
        sc_report(&m->context->diag, SC_D_ir_invalid, last->loc, "kernel",
                  sc_arena_printf(arena, "%s:\n%s", error, text.data), NULL);
    }
    return error == NULL;
}
