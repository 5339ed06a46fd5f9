/* The text form of modules: what is printed reads back to an equal module and prints to equal
 * bytes; what is wrong is refused with a reason and a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/text/text.h"

/* ---- helpers ---- */

typedef void test_body(sc_context *context);

static void run_body(sc_context *context, void *user)
{
    test_body *const *body = user;
    (*body)(context);
}

static void run(test_body *body)
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, run_body, &body));
    sc_context_free(&context);
}

static sc_sym name(sc_module *m, const char *text)
{
    return sc_intern_text(&m->context->names, text);
}

static const char *printed(const sc_module *m, bool fold)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &m->context->arena);
    sc_print_module(m, &(sc_print_options){.fold = fold}, &out);
    return out.data;
}

static const char *messages(sc_context *context)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    return out.data;
}

static sc_module *parsed(sc_context *context, const char *text)
{
    sc_module *m = sc_parse_module(context, "in", text, strlen(text));
    if (m == NULL)
        fail_msg("%s%s", messages(context), text);
    return m;
}

/* ---- equality of modules of one context ---- */

static void assert_same_type(const sc_module *a, sc_type x, const sc_module *b, sc_type y)
{
    const sc_type_info *p = &a->types.data[x], *q = &b->types.data[y];
    assert_int_equal(p->dtype, q->dtype);
    assert_int_equal(p->rank, q->rank);
    for (uint32_t i = 0; i < p->rank; i++) {
        assert_int_equal(p->dims[i].dim, q->dims[i].dim);
        assert_int_equal(p->dims[i].group, q->dims[i].group);
        assert_true(p->dims[i].size == q->dims[i].size);
    }
    assert_true(sc_placement_equal(&p->placement, &q->placement));
}

static void assert_same_bytes(const void *a, const void *b, size_t size)
{
    if (size > 0)
        assert_memory_equal(a, b, size);
}

static void assert_same_attr(const sc_attr *a, const sc_attr *b)
{
    static const size_t item_sizes[] = {
        [SC_ATTR_KIND_DIMS] = sizeof(sc_dim),
        [SC_ATTR_KIND_INTS] = sizeof(int64_t),
        [SC_ATTR_KIND_FLOATS] = sizeof(double),
        [SC_ATTR_KIND_WORDS] = sizeof(sc_sym),
        [SC_ATTR_KIND_SUB_AXES] = 1,
        [SC_ATTR_KIND_SPLITS] = 0,
    };
    sc_attr_kind kind = sc_attr_kinds[a->key];
    assert_int_equal(a->key, b->key);
    assert_int_equal(a->count, b->count);
    if (kind == SC_ATTR_KIND_INT || kind == SC_ATTR_KIND_FLOAT)
        assert_true(a->integer == b->integer);
    else if (kind == SC_ATTR_KIND_WORD || kind == SC_ATTR_KIND_TEXT)
        assert_int_equal(a->text, b->text);
    else
        assert_same_bytes(a->dims, b->dims, a->count * item_sizes[kind]);
    for (uint32_t i = 0; kind == SC_ATTR_KIND_SPLITS && i < a->count; i++) {
        assert_int_equal(a->splits[i].dim, b->splits[i].dim);
        assert_true(sc_sub_axis_list_equal(&a->splits[i].sub_axes, &b->splits[i].sub_axes));
    }
}

static void assert_same_op(const sc_module *a, const sc_op *x, const sc_module *b, const sc_op *y,
                           const sc_value *map)
{
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->scope, y->scope);
    assert_int_equal(x->chunk, y->chunk);
    assert_int_equal(x->operand_count, y->operand_count);
    assert_int_equal(x->attr_count, y->attr_count);
    assert_int_equal(x->result_count, y->result_count);
    for (uint32_t i = 0; i < x->operand_count; i++)
        assert_int_equal(map[x->operands[i]], y->operands[i]);
    for (uint32_t i = 0; i < x->attr_count; i++)
        assert_same_attr(&x->attrs[i], &y->attrs[i]);
    for (uint32_t r = 0; r < x->result_count; r++) {
        const sc_value_info *p = &a->values.data[x->first_result + r],
                            *q = &b->values.data[y->first_result + r];
        assert_same_type(a, p->type, b, q->type);
        assert_int_equal(p->path, q->path);
        assert_int_equal(p->index, q->index);
    }
}

static void assert_same_functions(const sc_module *a, const sc_module *b)
{
    sc_value *map = sc_arena_array(&a->context->arena, a->values.count, sizeof *map);
    assert_int_equal(a->funcs.count, b->funcs.count);
    for (sc_func_id f = 0; f < a->funcs.count; f++) {
        sc_op_id other = b->funcs.data[f].first;
        assert_int_equal(a->funcs.data[f].name, b->funcs.data[f].name);
        assert_int_equal(a->funcs.data[f].stage, b->funcs.data[f].stage);
        sc_for_each_op (a, f, op) {
            assert_int_not_equal(other, SC_NONE);
            assert_same_op(a, sc_op_at(a, op), b, sc_op_at(b, other), map);
            for (uint32_t r = 0; r < sc_op_at(a, op)->result_count; r++)
                map[sc_result(a, op, r)] = sc_result(b, other, r);
            other = sc_op_at(b, other)->next;
        }
        assert_int_equal(other, SC_NONE);
    }
}

static void assert_same_header(const sc_module *a, const sc_module *b)
{
    assert_int_equal(a->states, b->states);
    assert_memory_equal(&a->mesh, &b->mesh, sizeof a->mesh);
    assert_int_equal(a->dims.count, b->dims.count);
    for (sc_dim d = 0; d < a->dims.count; d++) {
        const sc_dim_info *x = &a->dims.data[d], *y = &b->dims.data[d];
        assert_true(x->name == y->name && x->alias_of == y->alias_of && x->part_of == y->part_of &&
                    x->part_count == y->part_count);
        assert_same_bytes(x->parts, y->parts, x->part_count * sizeof *x->parts);
        assert_int_equal(sc_module_find_dim(b, x->name), d);
    }
    assert_int_equal(a->rules.count, b->rules.count);
    for (uint32_t i = 0; i < a->rules.count; i++) {
        const sc_rule_ref *x = &a->rules.data[i], *y = &b->rules.data[i];
        assert_true(x->text == y->text && x->file == y->file && x->line == y->line);
    }
}

static void assert_same_module(const sc_module *a, const sc_module *b)
{
    assert_same_header(a, b);
    assert_int_equal(a->state.count, b->state.count);
    for (uint32_t i = 0; i < a->state.count; i++) {
        const sc_state *x = &a->state.data[i], *y = &b->state.data[i];
        assert_true(x->path == y->path && x->kind == y->kind && x->init == y->init);
        assert_memory_equal(x->init_args, y->init_args, sizeof x->init_args);
        assert_same_type(a, x->type, b, y->type);
        assert_int_equal(sc_module_find_state(b, x->path), i);
    }
    assert_same_functions(a, b);
    assert_int_equal(a->schedule.count, b->schedule.count);
    for (uint32_t i = 0; i < a->schedule.count; i++) {
        assert_int_equal(a->schedule.data[i].func, b->schedule.data[i].func);
        assert_int_equal(a->schedule.data[i].microbatch, b->schedule.data[i].microbatch);
    }
}

static void assert_round_trip(const sc_module *m)
{
    const char *text = printed(m, false);
    sc_module *again = parsed(m->context, text);
    assert_same_module(m, again);
    assert_string_equal(printed(again, false), text);
}

/* ---- a module to play with ---- */

enum { FSDP, TP0, TP1, CP, SUB_AXES };

typedef struct world {
    sc_module *m;
    sc_dim b, s, t, k, g, h, d, e; /* t is s's alias, h = (k, g) */
    sc_func_id f;
} world;

static void add_axis(sc_module *m, const char *axis_name, bool inter, const uint32_t *sizes,
                     uint8_t count)
{
    sc_mesh *mesh = &m->mesh;
    sc_axis *axis = &mesh->axes[mesh->axis_count];
    *axis = (sc_axis){.name = name(m, axis_name),
                      .size = 1,
                      .inter = inter,
                      .first_sub_axis = mesh->sub_axis_count,
                      .sub_axis_count = count};
    for (uint8_t i = 0; i < count; i++) {
        mesh->sub_axes[mesh->sub_axis_count++] = (sc_sub_axis){mesh->axis_count, i, sizes[i]};
        axis->size *= sizes[i];
    }
    mesh->axis_count++;
}

static world make_world(sc_context *context)
{
    sc_module *m = sc_module_new(context);
    world w = {.m = m};
    add_axis(m, "fsdp", true, (const uint32_t[]){4}, 1);
    add_axis(m, "tp", false, (const uint32_t[]){2, 4}, 2);
    add_axis(m, "cp", false, (const uint32_t[]){2}, 1);
    sc_dim *const dims[] = {&w.b, &w.s, &w.t, &w.k, &w.g, &w.h, &w.d, &w.e};
    static const char *const names[] = {"B", "S", "T", "K", "G", "H", "D", "E"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        *dims[i] = sc_module_add_dim(m, name(m, names[i]));
    m->dims.data[w.t].alias_of = w.s;
    sc_dim_info *h = &m->dims.data[w.h];
    h->part_count = 2;
    h->parts = sc_arena_array(&context->arena, 2, sizeof *h->parts);
    h->parts[0] = w.k;
    h->parts[1] = w.g;
    w.f = sc_module_add_func(m, name(m, "f"));
    return w;
}

/* [B, H = (K, G), E] */
static sc_type_info heads(const world *w, int64_t k, int64_t g)
{
    sc_type_info type = {.dtype = SC_DTYPE_bf16, .rank = 4, .placement = sc_placement_replicated()};
    type.dims[0] = (sc_type_dim){w->b, SC_NONE, 16};
    type.dims[1] = (sc_type_dim){w->k, w->h, k};
    type.dims[2] = (sc_type_dim){w->g, w->h, g};
    type.dims[3] = (sc_type_dim){w->e, SC_NONE, 128};
    return type;
}

static sc_type scalar(const world *w)
{
    return sc_type_intern(
        w->m, &(sc_type_info){.dtype = SC_DTYPE_f32, .placement = sc_placement_replicated()});
}

static const char *text_of(const world *w, const sc_type_info *type)
{
    return sc_type_text(w->m, sc_type_intern(w->m, type));
}

static sc_value add_constant(const world *w, sc_type type)
{
    sc_attr value = sc_attr_number(SC_ATTR_value, 1);
    return sc_result(
        w->m, sc_op_new(w->m, w->f, SC_NONE, SC_OP_constant, NULL, 0, &value, 1, &type, 1, SC_NONE),
        0);
}

/* ---- types ---- */

static void types_print_as_the_language_says(sc_context *context)
{
    world w = make_world(context);
    sc_type_info type = heads(&w, 2, 4);
    sc_placement_append(&type.placement, 0, FSDP);
    sc_placement_append(&type.placement, 1, TP0);
    sc_placement_append(&type.placement, 2, TP1);
    assert_string_equal(text_of(&w, &type), "bf16[B=16@fsdp, H=8@tp, E=128]");
    w.m->states |= SC_LOCAL;
    assert_string_equal(text_of(&w, &type), "bf16[B=4/16@fsdp, H=1/8@tp, E=128]");
    type.placement.on[FSDP] = SC_PARTIAL_SUM;
    type.placement.on[CP] = SC_PARTIAL_MAX;
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=1/8@tp, E=128]{sum:fsdp, max:cp}");
    type.placement.on[CP] = SC_PARTIAL_SUM;
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=1/8@tp, E=128]{sum:(fsdp, cp)}");
    type.rank = 1;
    type.dims[0].size = 0;
    type.placement = sc_placement_replicated();
    assert_string_equal(text_of(&w, &type), "bf16[B]");
    assert_string_equal(sc_type_text(w.m, scalar(&w)), "f32[]");
}

/* H=8@tp.1 would mean contiguous parts of H, so a split of G alone is written out. */
static void composite_is_written_out_where_the_short_form_lies(sc_context *context)
{
    world w = make_world(context);
    sc_type_info type = heads(&w, 2, 4);
    sc_placement_append(&type.placement, 2, TP1);
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=(K=2, G=4@tp.1), E=128]");
    sc_placement_append(&type.placement, 1, TP0);
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=8@tp, E=128]");
    type = heads(&w, 1, 8);
    sc_placement_append(&type.placement, 2, TP1);
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=8@tp.1, E=128]");
    type = heads(&w, 0, 4);
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H=(K, G=4), E=128]");
    type = heads(&w, 0, 0);
    assert_string_equal(text_of(&w, &type), "bf16[B=16, H, E=128]");
}

static void sub_axes_and_dims_print_under_their_largest_names(sc_context *context)
{
    world w = make_world(context);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_print_sub_axes(w.m, &(sc_sub_axis_list){2, {TP0, TP1}}, &out);
    sc_strbuf_add_char(&out, ' ');
    sc_print_sub_axes(w.m, &(sc_sub_axis_list){1, {TP1}}, &out);
    sc_strbuf_add_char(&out, ' ');
    sc_print_sub_axes(w.m, &(sc_sub_axis_list){4, {CP, TP1, TP0, FSDP}}, &out);
    sc_strbuf_add_char(&out, ' ');
    sc_print_dims(w.m, (const sc_dim[]){w.d, w.k, w.g, w.g, w.k}, 5, &out);
    assert_string_equal(out.data, "tp tp.1 (cp, tp.1, tp.0, fsdp) [D, H, G, K]");
}

/* The two meanings of `H=8` in one module: the first wins the short form. */
static void composite_sizes_may_differ_between_functions(sc_context *context)
{
    world w = make_world(context);
    sc_type_info first = heads(&w, 2, 4), second = heads(&w, 4, 2), third = heads(&w, 0, 0);
    add_constant(&w, sc_type_intern(w.m, &third));
    add_constant(&w, sc_type_intern(w.m, &first));
    add_constant(&w, sc_type_intern(w.m, &second));
    assert_round_trip(w.m);
    const char *text = printed(w.m, false);
    assert_non_null(strstr(text, "dim H = (K = 2, G = 4)\n"));
    assert_non_null(strstr(text, "H=8, "));
    assert_non_null(strstr(text, "H=(K=4, G=2), "));
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t count)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % count;
}

static void place_at_random(sc_type_info *type)
{
    for (uint32_t a = 0; a < SUB_AXES; a++) {
        uint32_t choice = random_below(type->rank + 4);
        if (choice < type->rank)
            sc_placement_append(&type->placement, choice, a);
        else if (choice < type->rank + 3)
            type->placement.on[a] = (uint8_t)(SC_PARTIAL_SUM + choice - type->rank);
    }
}

static void any_placement_round_trips(sc_context *context)
{
    for (uint32_t states = 0; states < 2; states++) {
        world w = make_world(context);
        w.m->states = states == 0 ? SC_PLACED : SC_PLACED | SC_LOCAL;
        for (uint32_t i = 0; i < 2000; i++) {
            sc_type_info type = heads(&w, random_below(9), random_below(9));
            place_at_random(&type);
            type.dtype = (sc_dtype)random_below(SC_DTYPE_COUNT);
            add_constant(&w, sc_type_intern(w.m, &type));
        }
        assert_round_trip(w.m);
    }
}

/* ---- ops ---- */

static sc_attr example_attr(const world *w, sc_attr_key key)
{
    static const int64_t ints[] = {0, INT64_MIN, INT64_MAX};
    const double numbers[] = {0.1, -0.0, 1e308, 5e-324, -INFINITY, NAN};
    const sc_sym words[] = {name(w->m, "pos"), name(w->m, "two words"), name(w->m, "")};
    const sc_split splits[] = {{w->d, {1, {CP}}}, {w->k, {3, {FSDP, TP0, TP1}}}, {w->g, {0, {0}}}};
    switch (sc_attr_kinds[key]) {
    case SC_ATTR_KIND_INT:
        return sc_attr_int(key, key == SC_ATTR_rule ? 1 : -5);
    case SC_ATTR_KIND_FLOAT:
        return sc_attr_number(key, 1.0 / 3.0);
    case SC_ATTR_KIND_WORD:
        return sc_attr_text(key, name(w->m, "causal"));
    case SC_ATTR_KIND_TEXT:
        return sc_attr_text(key,
                            name(w->m, "a \"quoted\" \\ text\nof\t\x01 \xc3\xa4 \x7f// two lines"));
    case SC_ATTR_KIND_DIMS:
        return sc_attr_dims(w->m, key, (const sc_dim[]){w->d, w->k, w->g, w->e}, 4);
    case SC_ATTR_KIND_INTS:
        return (sc_attr){.key = (uint16_t)key, .count = 3, .ints = ints};
    case SC_ATTR_KIND_FLOATS:
        return sc_attr_numbers(w->m, key, numbers, 6);
    case SC_ATTR_KIND_WORDS:
        return sc_attr_words(w->m, key, words, 3);
    case SC_ATTR_KIND_SUB_AXES:
        return sc_attr_sub_axes(w->m, key, (const uint8_t[]){TP1, FSDP, TP0}, 3);
    default:
        return sc_attr_splits(w->m, key, splits, 3);
    }
}

static sc_attr empty_attr(const world *w, sc_attr_key key)
{
    sc_attr attr = example_attr(w, key);
    if (sc_attr_kinds[key] >= SC_ATTR_KIND_DIMS)
        attr.count = 0;
    else if (sc_attr_kinds[key] == SC_ATTR_KIND_WORD || sc_attr_kinds[key] == SC_ATTR_KIND_TEXT)
        attr.text = 0;
    else
        attr.integer = 0;
    return attr;
}

static void add_rules(const world *w)
{
    for (uint32_t i = 0; i < 2; i++)
        *sc_vec_push(&w->m->context->arena, &w->m->rules) =
            (sc_rule_ref){.text = name(w->m, "act S over tp if free"),
                          .file = name(w->m, "a \"b\".shard"),
                          .line = 58 * i};
}

static void every_attribute_round_trips_alone_and_empty(sc_context *context)
{
    world w = make_world(context);
    sc_type type = scalar(&w);
    add_rules(&w);
    for (uint32_t key = 0; key < SC_ATTR_COUNT; key++) {
        sc_attr attrs[] = {example_attr(&w, (sc_attr_key)key), empty_attr(&w, (sc_attr_key)key)};
        sc_op_new(w.m, w.f, SC_NONE, SC_OP_all_gather, NULL, 0, &attrs[0], 1, &type, 1, SC_NONE);
        sc_op_new(w.m, w.f, SC_NONE, SC_OP_return, NULL, 0, &attrs[1], 1, NULL, 0, SC_NONE);
    }
    assert_round_trip(w.m);
}

static void all_attributes_together_round_trip(sc_context *context)
{
    world w = make_world(context);
    sc_attr attrs[SC_ATTR_COUNT];
    add_rules(&w);
    for (uint32_t key = 0; key < SC_ATTR_COUNT; key++)
        attrs[SC_ATTR_COUNT - 1 - key] = example_attr(&w, (sc_attr_key)key);
    sc_op_new(w.m, w.f, SC_NONE, SC_OP_return, NULL, 0, attrs, SC_ATTR_COUNT, NULL, 0, SC_NONE);
    assert_round_trip(w.m);
}

static void brackets_tell_absent_from_empty(sc_context *context)
{
    world w = make_world(context);
    for (uint32_t subset = 0; subset < 27; subset++) {
        static const sc_attr_key keys[] = {SC_ATTR_dims, SC_ATTR_from_dims, SC_ATTR_to};
        sc_attr attrs[3];
        uint32_t count = 0, rest = subset;
        for (uint32_t k = 0; k < 3; k++, rest /= 3) { /* absent, empty, two dims */
            if (rest % 3 != 0)
                attrs[count++] =
                    sc_attr_dims(w.m, keys[k], (const sc_dim[]){w.d, w.e}, rest % 3 == 1 ? 0 : 2);
        }
        sc_op_new(w.m, w.f, SC_NONE, SC_OP_return, NULL, 0, attrs, count, NULL, 0, SC_NONE);
    }
    assert_round_trip(w.m);
}

/* Handles follow the order of creation, the text follows the order of ops. */
static void values_are_numbered_in_print_order(sc_context *context)
{
    world w = make_world(context);
    sc_type type = scalar(&w);
    sc_value late = add_constant(&w, type), dropped = add_constant(&w, type);
    sc_op_id early =
        sc_op_new(w.m, w.f, sc_def(w.m, late), SC_OP_constant, NULL, 0, NULL, 0, &type, 1, SC_NONE);
    const sc_value operands[] = {late, sc_result(w.m, early, 0)};
    sc_op_new(w.m, w.f, SC_NONE, SC_OP_return, operands, 2, NULL, 0, NULL, 0, SC_NONE);
    sc_op_unlink(w.m, sc_def(w.m, dropped));
    assert_round_trip(w.m);
    assert_non_null(strstr(
        printed(w.m, false),
        "  %0 = constant : f32[]\n  %1 = constant {value = 1.0} : f32[]\n  return %1, %0\n"));
}

static void paths_scopes_and_several_results_round_trip(sc_context *context)
{
    world w = make_world(context);
    sc_type types[] = {scalar(&w), sc_type_with_dtype(w.m, scalar(&w), SC_DTYPE_i32)};
    sc_value x = add_constant(&w, types[0]);
    sc_attr dims[] = {sc_attr_dims(w.m, SC_ATTR_dims, &w.d, 1),
                      sc_attr_dims(w.m, SC_ATTR_to, &w.e, 1)};
    sc_op_id topk = sc_op_new(w.m, w.f, SC_NONE, SC_OP_topk, &x, 1, dims, 2, types, 2, SC_NONE);
    sc_op_at(w.m, topk)->scope = name(w.m, "layers[3].attn");
    w.m->values.data[sc_result(w.m, topk, 1)].path = name(w.m, "layers[3].attn.ids");
    add_constant(&w, types[0]);
    assert_round_trip(w.m);
    assert_non_null(strstr(printed(w.m, false),
                           "  scope \"layers[3].attn\"\n  %1, %2 \"layers[3].attn.ids\" = topk[D "
                           "-> E] %0 : f32[], i32[]\n"
                           "  scope \"\"\n"));
}

/* ---- the rest of a module ---- */

static void state_and_schedule_round_trip(sc_context *context)
{
    world w = make_world(context);
    w.m->states = SC_ALL_STATES;
    for (int init = SC_INIT_ZEROS; init <= SC_INIT_XAVIER; init++) {
        static const int arguments[] = {0, 0, 1, 1, 2, 2};
        sc_state state = {.path = sc_intern_printf(&context->names, "layers[%d].w", init),
                          .kind =
                              (sc_state_kind)(init == SC_INIT_ZEROS ? SC_STATE_SLOT
                                                                    : init % (SC_STATE_SCALAR + 1)),
                          .type = scalar(&w),
                          .init = (sc_init_kind)init};
        for (int a = 0; a < arguments[init]; a++)
            state.init_args[a] = a - 0.02;
        sc_module_add_state(w.m, &state);
    }
    sc_module_add_func(w.m, name(w.m, "not a word"));
    for (int i = -1; i < 3; i++)
        *sc_vec_push(&context->arena, &w.m->schedule) = (sc_call){(uint32_t)(i & 1), i};
    assert_round_trip(w.m);
}

static void names_that_are_no_words_are_quoted(sc_context *context)
{
    world w = make_world(context);
    add_axis(w.m, "x.y", false, (const uint32_t[]){2, 2}, 2);
    add_axis(w.m, "1", false, (const uint32_t[]){2}, 1);
    sc_dim odd = sc_module_add_dim(w.m, name(w.m, "J K")),
           dotted = sc_module_add_dim(w.m, name(w.m, "J.K")),
           keyword = sc_module_add_dim(w.m, name(w.m, "alias")),
           pair = sc_module_add_dim(w.m, name(w.m, "J"));
    w.m->dims.data[dotted].alias_of = keyword;
    w.m->dims.data[dotted].part_of = w.m->dims.data[odd].part_of = pair;
    sc_dim_info *info = &w.m->dims.data[pair];
    info->alias_of = w.h;
    info->part_count = 2;
    info->parts = sc_arena_array(&context->arena, 2, sizeof *info->parts);
    info->parts[0] = dotted;
    info->parts[1] = odd;
    sc_type_info type = {.rank = 2, .placement = sc_placement_replicated()};
    type.dims[0] = (sc_type_dim){odd, SC_NONE, 4};
    type.dims[1] = (sc_type_dim){dotted, SC_NONE, 8};
    sc_placement_append(&type.placement, 0, SUB_AXES + 1);
    sc_placement_append(&type.placement, 1, SUB_AXES);
    sc_placement_append(&type.placement, 1, SUB_AXES + 2);
    assert_string_equal(text_of(&w, &type), "f32[\"J K\"=4@\"x.y\".1, J.K=8@(\"x.y\".0, \"1\")]");
    add_constant(&w, sc_type_intern(w.m, &type));
    assert_round_trip(w.m);
}

/* ---- folding ---- */

static sc_op_id add_op(const world *w, sc_op_kind kind, sc_value x, sc_value y, const char *scope)
{
    sc_type type = scalar(w);
    const sc_value operands[] = {x, y};
    sc_op_id op = sc_op_new(w->m, w->f, SC_NONE, kind, operands, 2, NULL, 0, &type, 1, SC_NONE);
    sc_op_at(w->m, op)->scope = name(w->m, scope);
    return op;
}

static sc_value add_layer(const world *w, uint32_t i, sc_value x, sc_value shared, sc_op_kind kind)
{
    char scope[32];
    snprintf(scope, sizeof scope, "layers[%u]", i);
    sc_value half = sc_result(w->m, add_op(w, SC_OP_mul, x, shared, scope), 0);
    snprintf(scope, sizeof scope, "layers[%u].mlp", i);
    sc_op_id op = add_op(w, kind, half, x, scope);
    sc_op_set_attr(w->m, op, sc_attr_int(SC_ATTR_unit, i));
    w->m->values.data[sc_result(w->m, op, 0)].path =
        sc_intern_printf(&w->m->context->names, "layers[%u].out", i);
    return sc_result(w->m, op, 0);
}

static void repeated_layers_fold_to_the_first(sc_context *context)
{
    world w = make_world(context);
    sc_value shared = add_constant(&w, scalar(&w)), x = shared;
    for (uint32_t i = 0; i < 12; i++)
        x = add_layer(&w, i, x, shared, i == 9 ? SC_OP_sub : SC_OP_add);
    sc_op_new(w.m, w.f, SC_NONE, SC_OP_return, &x, 1, NULL, 0, NULL, 0, SC_NONE);
    const char *text = strstr(printed(w.m, true), "func");
    assert_string_equal(text, "func @f {\n"
                              "  %0 = constant {value = 1.0} : f32[]\n"
                              "  scope \"layers[0]\"\n"
                              "  %1 = mul %0, %0 : f32[]\n"
                              "  scope \"layers[0].mlp\"\n"
                              "  %2 \"layers[0].out\" = add %1, %0 {unit = 0} : f32[]\n"
                              "  // x 9: layers[0..8]\n"
                              "  scope \"layers[9]\"\n"
                              "  %19 = mul %18, %0 : f32[]\n"
                              "  scope \"layers[9].mlp\"\n"
                              "  %20 \"layers[9].out\" = sub %19, %18 {unit = 9} : f32[]\n"
                              "  scope \"layers[10]\"\n"
                              "  %21 = mul %20, %0 : f32[]\n"
                              "  scope \"layers[10].mlp\"\n"
                              "  %22 \"layers[10].out\" = add %21, %20 {unit = 10} : f32[]\n"
                              "  // x 2: layers[10..11]\n"
                              "  scope \"\"\n"
                              "  return %24\n"
                              "}\n");
    assert_round_trip(w.m);
}

/* layers[1] adds what layers[0] does not: another value of its own, or one of its own instead of
 * the one outside. */
static void layers_wired_differently_do_not_fold(sc_context *context)
{
    for (int variant = 0; variant < 3; variant++) {
        world w = make_world(context);
        sc_value x = add_constant(&w, scalar(&w));
        for (int i = 0; i < 2; i++) {
            const char *scope = i == 0 ? "layers[0]" : "layers[1]";
            sc_value a = sc_result(w.m, add_op(&w, SC_OP_mul, x, x, scope), 0),
                     b = sc_result(w.m, add_op(&w, SC_OP_mul, x, x, scope), 0);
            const sc_value choices[] = {a, b, x};
            add_op(&w, SC_OP_add, b, i == 0 ? a : choices[variant], scope);
        }
        bool folded = strstr(printed(w.m, true), "// x 2: layers[0..1]") != NULL;
        assert_int_equal(folded, variant == 0);
    }
}

/* ---- every op has a test of its text ---- */

static void every_op_stands_in_its_test(sc_context *context)
{
    static char text[1 << 16];
    FILE *file = fopen(SHARDC_SOURCE_DIR "/test/ir/every_op_reads_back.shir", "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const sc_module *m = sc_parse_module(context, "in", text, length);
    assert_non_null(m);
    bool seen[SC_OP_COUNT] = {false};
    for (sc_op_id op = 0; op < m->ops.count; op++)
        seen[m->ops.data[op].kind] = true;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        if (!seen[kind] && sc_ops[kind].language == SC_LANGUAGE_no)
            fail_msg("'%s' is not in test/ir/every_op_reads_back.shir", sc_ops[kind].name);
    }
}

/* The functions of numbers and bools, which have no attributes and one form. */
static void every_function_reads_back(sc_context *context)
{
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        const sc_op_row *row = &sc_ops[kind];
        if (row->language == SC_LANGUAGE_no)
            continue;
        bool of_bools = row->language == SC_LANGUAGE_bools;
        const char *from = of_bools ? "bool" : "f32",
                   *to = of_bools || (row->traits & SC_COMPARES) != 0 ? "bool" : "f32",
                   *text = sc_arena_printf(
                       &context->arena,
                       "shardc.ir 1\nstates shapes\ndim B\n\nfunc @f {\n  %%x = input {name = "
                       "\"x\"} : %s[B=4]\n  %%0 = %s %%x%s : %s[B=4]\n  return %%0\n}\n",
                       from, row->name, row->operands == 2 ? ", %x" : "", to);
        const sc_module *m = parsed(context, text);
        assert_int_equal(sc_op_at(m, sc_op_at(m, m->funcs.data[0].first)->next)->kind, kind);
        assert_non_null(
            strstr(printed(m, false), sc_arena_printf(&context->arena, "= %s %%", row->name)));
    }
}

/* ---- size ---- */

static void many_ops_round_trip(sc_context *context)
{
    world w = make_world(context);
    sc_type_info info = heads(&w, 8, 4);
    sc_type type = sc_type_intern(w.m, &info);
    sc_value x = add_constant(&w, type);
    for (uint32_t i = 0; i < 15000; i++) {
        const sc_value operands[] = {x, x};
        x = sc_result(
            w.m, sc_op_new(w.m, w.f, SC_NONE, SC_OP_add, operands, 2, NULL, 0, &type, 1, SC_NONE),
            0);
    }
    assert_round_trip(w.m);
}

/* ---- what is refused ---- */

#define HEAD                                                                                       \
    "shardc.ir 1\nmesh a = 2, b = 4 split (2, 2)\ndim B\ndim K\ndim G\ndim H = (K = 2, G = 4)\n"
#define BODY "func @f {\n  %0 = constant : f32[]\n"

static const struct refusal {
    const char *text, *message;
    uint32_t line;
} refusals[] = {
    {"", "expected 'shardc.ir 1', found the end of the text", 1},
    {"shardc.ir 2\n", "version 2", 1},
    {"shardc.ir 1\nstates placd\n", "did you mean 'placed'?", 2},
    {"shardc.ir 1\nmesh a = 0\n", "0 is not between 1", 2},
    {"shardc.ir 1\nmesh a = 2, a = 2\n", "axis 'a' is declared twice", 2},
    {"shardc.ir 1\nmesh a = 8 split (2, 2)\n", "do not make 8", 2},
    {"shardc.ir 1\nmesh a = 65536, b = 65536\n", "a mesh has at most", 2},
    {"shardc.ir 1\ndim B\nmesh a = 2\n", "'mesh' belongs above", 3},
    {"shardc.ir 1\ndim B\ndim B\n", "dim 'B' is declared twice", 3},
    {"shardc.ir 1\ndim T = alias S\n", "there is no dim 'S'", 2},
    {"shardc.ir 1\ndim S = alias T\ndim T = alias S\n", "an alias of itself", 2},
    {"shardc.ir 1\ndim K\ndim H = (K, K)\n", "'K' is listed twice", 3},
    {"shardc.ir 1\ndim K\ndim H = (K)\ndim J = (H)\n", "itself a composite", 4},
    {"shardc.ir 1\nrule 1 \"x\" at \"f\":1\n", "this is rule 0", 2},
    {"shardc.ir 1\nstate param \"w\": f32[] = zeros\nstate cache \"w\": f32[] = zeros\n",
     "state 'w' is declared twice", 3},
    {"shardc.ir 1\nstate param \"w\": f32[] = norml(0.1)\n", "did you mean 'normal'?", 2},
    {"shardc.ir 1\nmesh a = 2 stage, b = 2 stage\n", "a mesh has at most one axis of stages", 2},
    {"shardc.ir 1\nmesh a = 1 stage\n", "a pipeline has 2 to 64 stages", 2},
    {"shardc.ir 1\nmesh a = 2 stage\ndim B\nstate slot \"x\": f32[B=2@a]\n",
     "axis 'a' has the stages; no value is placed on it", 4},
    {"shardc.ir 1\nfunc @f stage 64 { }\n", "64 is not between 0", 2},
    {"shardc.ir 1\nfunc @f {\n  chunk 65535\n}\n", "65535 is not between 0", 3},
    {"shardc.ir 1\nslot \"w\": f32[]\n", "expected a statement", 2},
    {HEAD "state slot \"x\": f32[B=0]\n", "0 is not between 1", 7},
    {HEAD "state slot \"x\": f32[B=99999999999999999999]\n", "does not fit 64 bits", 7},
    {HEAD "state slot \"x\": f32[B=2, B=2]\n", "dim 'B' is listed twice", 7},
    {HEAD "state slot \"x\": f33[B=2]\n", "did you mean 'f32'?", 7},
    {HEAD "state slot \"x\": f32[Q=2]\n", "there is no dim 'Q'", 7},
    {HEAD "state slot \"x\": f32[B=2@c]\n", "there is no axis 'c'", 7},
    {HEAD "state slot \"x\": f32[B=2@b.2]\n", "axis 'b' is split in 2", 7},
    {HEAD "state slot \"x\": f32[B=2@a, K=2@a]\n", "axis 'a' is used twice", 7},
    {HEAD "state slot \"x\": f32[B=2@(b, b.0)]\n", "an axis is listed twice", 7},
    {HEAD "state slot \"x\": f32[B=2@a]{sum:a}\n", "axis 'a' is used twice", 7},
    {HEAD "state slot \"x\": f32[B=1/2@a]\n", "local sizes are allowed only in", 7},
    {HEAD "state slot \"x\": f32[H=16]\n", "make 8, not 16", 7},
    {HEAD "state slot \"x\": f32[H=8@(b, a.0, a.1)]\n", "axis 'a' is split in 1", 7},
    {HEAD "state slot \"x\": f32[H=(G=4, K=2)]\n", "leaf 1 of 'H' is 'K'", 7},
    {HEAD "state slot \"x\": f32[H=8@(a, b)]{mean:a}\n", "expected sum, max or min", 7},
    {"shardc.ir 1\nstates local\nmesh a = 3\ndim B\nstate slot \"x\": f32[B=2/4@a, B=1]\n",
     "dim 'B' is listed twice", 5},
    {"shardc.ir 1\nstates local\nmesh a = 3\ndim B\nstate slot \"x\": f32[B=1/4@a]\n",
     "expected '2/4'", 5},
    {"shardc.ir 1\nstates local\nmesh a = 3\ndim B\nstate slot \"x\": f32[B=4@a]\n",
     "expected '2/4'", 5},
    {"shardc.ir 1\nmesh a = 3\ndim K\ndim G\ndim H = (K = 2, G = 3)\nstate slot \"x\": "
     "f32[H=6@a]\n",
     "do not divide the leaves of 'H'", 6},
    {"shardc.ir 1\ndim K\ndim G\ndim H = (K, G)\nstate slot \"x\": f32[H=6]\n",
     "gives no sizes of its leaves", 5},
    {HEAD BODY "  %1 = ad %0, %0 : f32[]\n}\n", "did you mean 'add'?", 9},
    {HEAD BODY "  %1 = add %0, %2 : f32[]\n}\n", "%2 is not defined above", 9},
    {HEAD BODY "  %0 = neg %0 : f32[]\n}\n", "%0 is defined twice", 9},
    {HEAD BODY "  %1 = add %0 : f32[]\n}\n", "'add' has 2 operands", 9},
    {HEAD BODY "  %1 = neg %0 {phse = forward} : f32[]\n}\n", "did you mean 'phase'?", 9},
    {HEAD BODY "  %1 = neg %0 {unit = 1, unit = 2} : f32[]\n}\n", "'unit' is listed twice", 9},
    {HEAD BODY "  %1 = neg %0 {unit = 1.5} : f32[]\n}\n", "expected an integer", 9},
    {HEAD BODY "  %1 = neg %0 {name = x} : f32[]\n}\n", "expected a text in quotes", 9},
    {HEAD BODY "  %1 = neg %0 {dims = [B]} : f32[]\n}\n", "goes in brackets", 9},
    {HEAD BODY "  %1 = neg %0 {rule = 0} : f32[]\n}\n", "there is no rule 0", 9},
    {HEAD BODY "  %1 = neg %0\n}\n", "expected ':'", 10},
    {HEAD BODY "  %1 = neg %0 : f32[] f32\n}\n", "expected the end of the line", 9},
    {HEAD BODY "  %1 \"x = neg %0 : f32[]\n}\n", "does not end on its line", 9},
    {HEAD BODY "  %1 \"\\y\" = neg %0 : f32[]\n}\n", "escapes in strings", 9},
    {HEAD BODY "  %1 = pow %0 {exponent = 1e999} : f32[]\n}\n", "does not fit a double", 9},
    {HEAD BODY "  %1 = neg %0 : f32[]\n", "expected '}', found the end", 10},
    {HEAD BODY "}\nfunc @f {\n}\n", "function 'f' is declared twice", 10},
    {HEAD BODY "}\nschedule {\n  call @g\n}\n", "there is no function 'g'", 11},
    {HEAD "state slot \"x\": f32[B=2] \x01\n", "byte 0x01 has no meaning", 7},
};

static void assert_refused(sc_context *context, const struct refusal *refusal)
{
    sc_diag_init(&context->diag, &context->arena);
    assert_null(sc_parse_module(context, "in", refusal->text, strlen(refusal->text)));
    const sc_diagnostic *first = &context->diag.list.data[0];
    if (strstr(first->text, refusal->message) == NULL ||
        sc_sources_line(&context->sources, first->loc.begin).line != refusal->line)
        fail_msg("wanted line %u: %s\n%s%s", refusal->line, refusal->message, refusal->text,
                 messages(context));
    if (context->diag.list.count != 1)
        fail_msg("one error became more:\n%s%s", refusal->text, messages(context));
}

static void errors_have_a_reason_and_a_place(sc_context *context)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(context, &refusals[i]);
}

static void several_errors_are_reported_at_once(sc_context *context)
{
    static const char text[] = HEAD BODY "  %1 = add %0, %9 : f32[]\n  %2 = neg %1 : f32[]\n  %3 = "
                                         "nag %0 : f32[]\n  return %3, %2\n}\n";
    assert_null(sc_parse_module(context, "in", text, sizeof text - 1));
    assert_int_equal(context->diag.list.count, 2);
}

static void too_many_dims_are_refused(sc_context *context)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add(&text, "shardc.ir 1\n");
    for (int i = 0; i <= SC_MAX_RANK; i++)
        sc_strbuf_printf(&text, "dim d%d\n", i);
    for (int i = 0; i <= SC_MAX_RANK; i++)
        sc_strbuf_printf(&text, "%s d%d=1", i == 0 ? "state slot \"x\": f32[" : ",", i);
    sc_strbuf_add(&text, "]\n");
    assert_null(sc_parse_module(context, "in", text.data, text.length));
    assert_non_null(strstr(messages(context), "a type has at most 15 dims"));
}

/* ---- running out of memory ---- */

static void parse_and_print(sc_context *context, void *user)
{
    const char *text = user;
    sc_module *m = sc_parse_module(context, "in", text, strlen(text));
    if (m != NULL)
        printed(m, true);
}

static void any_failed_allocation_unwinds(void **state)
{
    (void)state;
    static char text[] =
        HEAD BODY "  %1 \"a\\nb\" = neg %0 {over = [a]} : f32[]\n}\nschedule {\n  call @f\n}\n";
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        sc_context context;
        done = sc_context_run(&context, n, parse_and_print, text);
        sc_context_free(&context);
        assert_true(n < 10000);
    }
}

#define BODY_TEST(function)                                                                        \
    static void run_##function(void **state)                                                       \
    {                                                                                              \
        (void)state;                                                                               \
        run(function);                                                                             \
    }

BODY_TEST(types_print_as_the_language_says)
BODY_TEST(composite_is_written_out_where_the_short_form_lies)
BODY_TEST(sub_axes_and_dims_print_under_their_largest_names)
BODY_TEST(composite_sizes_may_differ_between_functions)
BODY_TEST(any_placement_round_trips)
BODY_TEST(every_attribute_round_trips_alone_and_empty)
BODY_TEST(all_attributes_together_round_trip)
BODY_TEST(brackets_tell_absent_from_empty)
BODY_TEST(values_are_numbered_in_print_order)
BODY_TEST(paths_scopes_and_several_results_round_trip)
BODY_TEST(state_and_schedule_round_trip)
BODY_TEST(names_that_are_no_words_are_quoted)
BODY_TEST(repeated_layers_fold_to_the_first)
BODY_TEST(layers_wired_differently_do_not_fold)
BODY_TEST(every_op_stands_in_its_test)
BODY_TEST(every_function_reads_back)
BODY_TEST(many_ops_round_trip)
BODY_TEST(errors_have_a_reason_and_a_place)
BODY_TEST(several_errors_are_reported_at_once)
BODY_TEST(too_many_dims_are_refused)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_types_print_as_the_language_says),
        cmocka_unit_test(run_composite_is_written_out_where_the_short_form_lies),
        cmocka_unit_test(run_sub_axes_and_dims_print_under_their_largest_names),
        cmocka_unit_test(run_composite_sizes_may_differ_between_functions),
        cmocka_unit_test(run_any_placement_round_trips),
        cmocka_unit_test(run_every_attribute_round_trips_alone_and_empty),
        cmocka_unit_test(run_all_attributes_together_round_trip),
        cmocka_unit_test(run_brackets_tell_absent_from_empty),
        cmocka_unit_test(run_values_are_numbered_in_print_order),
        cmocka_unit_test(run_paths_scopes_and_several_results_round_trip),
        cmocka_unit_test(run_state_and_schedule_round_trip),
        cmocka_unit_test(run_names_that_are_no_words_are_quoted),
        cmocka_unit_test(run_repeated_layers_fold_to_the_first),
        cmocka_unit_test(run_layers_wired_differently_do_not_fold),
        cmocka_unit_test(run_every_op_stands_in_its_test),
        cmocka_unit_test(run_every_function_reads_back),
        cmocka_unit_test(run_many_ops_round_trip),
        cmocka_unit_test(run_errors_have_a_reason_and_a_place),
        cmocka_unit_test(run_several_errors_are_reported_at_once),
        cmocka_unit_test(run_too_many_dims_are_refused),
        cmocka_unit_test(any_failed_allocation_unwinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
