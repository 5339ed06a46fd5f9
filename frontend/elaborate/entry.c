/* Elaborates an entry from its inputs to its return; also without sizes, to check what no plan
 * reaches and to find the dims an entry needs. */
#include "frontend/elaborate/internal.h"

#include <string.h>

/* ---- builders ---- */
static sc_builder *new_builder(sc_declarations *program, const sc_build_request *request,
                               sc_module *m, sc_build_result *result)
{
    sc_context *context = program->context;
    sc_builder *b = sc_arena_alloc(&context->arena, sizeof *b);
    b->context = context;
    b->program = program;
    b->request = *request;
    b->result = result;
    b->m = m;
    b->entry.func = SC_NONE;
    b->limits.step_limit = SC_MAX_STEPS;
    b->entry.along = SC_NONE;
    b->entry.pos = b->entry.len = SC_NONE;
    b->limits.checked_types = m->types.count;
    b->entry.casts.arena = b->entry.params.arena = b->entry.caches.arena = b->entry.pins.arena =
        b->entry.dropouts.arena = &context->arena;
    for (int i = 0; i < SC_DTYPE_COUNT; i++)
        b->entry.constants[i].arena = &context->arena;
    b->dims.program_sizes =
        sc_arena_array(&context->arena, program->dims.count, sizeof *b->dims.program_sizes);
    b->dims.module_dims =
        sc_arena_array(&context->arena, program->dims.count, sizeof *b->dims.module_dims);
    for (uint32_t i = 0; i < program->dims.count; i++)
        b->dims.module_dims[i] = SC_NONE;
    return b;
}

/* ---- inputs ---- */
static sc_value add_input(sc_frame *f, sc_name name, const sc_type_info *info, sc_sym path)
{
    sc_attr attr = sc_attr_text(SC_ATTR_name, name.text);
    sc_type type = sc_type_intern(f->b->m, info);
    sc_value value = sc_emit_typed(f, name.loc, SC_OP_input, NULL, 0, &attr, 1, &type);
    if (value != SC_NONE)
        f->b->m->values.data[value].path = path;
    sc_build_set_local(f, name, sc_bval_tensor(value));
    return value;
}

/* Adds a formal as an input. With `open`, `..` in its shape stands for no dims (for a block or fn
 * checked by itself); otherwise `..` is an error. */
static void add_formal(sc_frame *f, const sc_formal *formal, bool open)
{
    sc_builder *b = f->b;
    sc_type_info info;
    bool rest;
    sc_sym path = sc_build_path(b, f->path, formal->name.text);
    if (!sc_build_declared(f, &formal->type, sc_build_dtype_of(b, SC_KIND_ACT, path), &info,
                           open ? &rest : NULL)) {
        sc_build_set_local(f, formal->name, (sc_bval){.kind = SC_BVAL_NONE});
        return;
    }
    sc_build_pins(f, formal->type.shape, path);
    add_input(f, formal->name, &info, path);
}

static void add_formals(sc_frame *f, bool open)
{
    for (uint32_t i = 0; i < f->callable->formals.count; i++) {
        if (f->callable->formals.data[i].kind != SC_FORMAL_STATIC)
            add_formal(f, &f->callable->formals.data[i], open);
    }
}

/* Adds pos and pos_len, after the entry's own inputs. */
static void add_positions(sc_frame *f)
{
    sc_builder *b = f->b;
    const sc_callable *callable = f->callable;
    sc_type_info info = {.dtype = SC_DTYPE_i32};
    if (!sc_build_shape(f, callable->at_shape, &info, NULL))
        return;
    sc_sym name = callable->at_name.text;
    sc_name length = {sc_intern_printf(&b->context->names, "%s_len", sc_name_text(b, name)),
                      callable->at_name.loc};
    sc_sym pos_path = sc_build_path(b, f->path, name),
           len_path = sc_build_path(b, f->path, length.text);
    sc_build_pins(f, callable->at_shape, pos_path);
    sc_build_pins(f, callable->at_shape, len_path);
    b->entry.pos = add_input(f, callable->at_name, &info, pos_path);
    b->entry.len = add_input(f, length, &info, len_path);
}

/* ---- entries ---- */
static const sc_member *find_entry(sc_declarations *program, const sc_build_request *request,
                                   const sc_unit **unit)
{
    sc_context *context = program->context;
    sc_text_list list = {0};
    *unit = sc_declarations_model(program, request->model);
    const sc_member *member = *unit == NULL ? NULL : sc_unit_member(*unit, request->entry);
    if (member != NULL && member->kind == SC_MEMBER_ENTRY)
        return member;
    if (*unit != NULL)
        sc_unit_suggest_entries(*unit, context, &list);
    sc_report(&context->diag, SC_D_unknown_entry, (sc_loc){0}, sc_text(context, request->entry),
              sc_suggest(context, request->entry, &list), (char *)NULL);
    return NULL;
}

static void finish(sc_frame *f, const sc_bval_list *results)
{
    sc_builder *b = f->b;
    sc_value *values = sc_arena_array(&b->context->arena, results->count, sizeof *values);
    for (uint32_t i = 0; i < results->count; i++) {
        if (results->data[i].kind != SC_BVAL_TENSOR) {
            b->failed = true;
            return;
        }
        values[i] = results->data[i].value;
    }
    sc_op_new(b->m, b->entry.func, SC_NONE, SC_OP_return, values, results->count, NULL, 0, NULL, 0,
              SC_NONE);
    sc_op *op = sc_op_at(b->m, b->m->funcs.data[b->entry.func].last);
    op->loc = f->callable->loc;
    op->scope = f->scope;
    if (!b->request.symbolic)
        sc_build_finish_fans(b);
}

/* Runs a callable as the outermost frame: its formals are inputs. `open` allows `..` in them. */
static void run_outermost(sc_builder *b, const sc_callable *callable, const sc_instance *instance,
                          bool open)
{
    sc_sym path = instance->path;
    if (instance->unit == NULL || instance->unit->callable != callable)
        path = sc_build_path(b, path, callable->name.text);
    sc_frame *f = sc_build_frame(b, NULL, callable, instance, path, path);
    b->entry.func = sc_module_add_func(b->m, callable->name.text);
    add_formals(f, open);
    if (b->entry.cached)
        add_positions(f);
    sc_bval_list results = sc_build_run(f);
    finish(f, &results);
}

/* The static arguments of a model: what another file gives, or their defaults. */
static bool model_statics(sc_builder *b, const sc_unit *unit, sc_instance *instance)
{
    if (unit->head == NULL)
        return true;
    const sc_instance nowhere = {0};
    sc_frame outside = {.b = b, .instance = &nowhere};
    outside.local_map.arena = &b->context->arena;
    return sc_build_statics(&outside, unit->head,
                            unit->given == NULL ? NULL : &unit->given->statics, NULL, instance);
}

static bool elaborate(sc_builder *b)
{
    const sc_unit *unit;
    const sc_member *entry = find_entry(b->program, &b->request, &unit);
    if (entry == NULL)
        return false;
    const sc_callable *callable = entry->callable;
    uint32_t along =
        callable->along.text == 0 ? SC_NONE : sc_declarations_dim(b->program, callable->along.text);
    if (!b->request.symbolic &&
        !sc_dims_sizes(b->program, b->request.bindings, along, b->dims.program_sizes))
        return false;
    sc_instance *instance = sc_arena_alloc(&b->context->arena, sizeof *instance);
    *instance = (sc_instance){.unit = unit};
    if (!model_statics(b, unit, instance))
        return false;
    b->entry.cached = callable->at_name.text != 0;
    if (b->entry.cached) {
        if (along == SC_NONE) {
            sc_report_unknown_dim(b->program, callable->along);
            return false;
        }
        b->entry.along = sc_build_program_dim(b, along, callable->along.loc);
    }
    run_outermost(b, callable, instance, false);
    return !b->failed;
}

bool sc_build_entry(sc_declarations *program, const sc_build_request *request, sc_module *m,
                    sc_build_result *result)
{
    memset(result, 0, sizeof *result);
    result->entry = request->entry;
    result->func = SC_NONE;
    result->cache_dim = SC_NONE;
    sc_builder *b = new_builder(program, request, m, result);
    bool ok = elaborate(b);
    result->func = b->entry.func;
    if (ok)
        sc_route_dots(m, result->func, &result->unmade);
    if (ok && !request->symbolic)
        m->states |= SC_SHAPES;
    return ok;
}

/* ---- dims that an entry needs ---- */
static bool has_own_size(const sc_declarations *program, uint32_t index, uint32_t along)
{
    const sc_dim_decl *decl = &program->dims.data[index];
    bool own = decl->form == SC_DIM_FREE;
    while (decl->form == SC_DIM_ALIAS && decl->original != SC_NONE && !own) {
        own = decl->original == along;
        decl = &program->dims.data[decl->original];
    }
    return own;
}

/* Lists the needed dims that must be bound for the others to have sizes, in declaration order. */
static void list_unbound(const sc_declarations *program, bool *needed, uint32_t along,
                         const int64_t *sizes, sc_sym_list *out)
{
    for (uint32_t i = program->dim_order.count; i-- > 0;) {
        uint32_t index = program->dim_order.data[i];
        const sc_dim_decl *decl = &program->dims.data[index];
        needed[index] = needed[index] && sizes[index] == 0 && !decl->broken;
        if (!needed[index] || has_own_size(program, index, along))
            continue;
        needed[index] = false;
        for (uint32_t d = 0; d < decl->dependency_count; d++)
            needed[decl->dependencies[d]] = true;
    }
    for (uint32_t i = 0; i < program->dims.count; i++) {
        if (needed[i])
            *sc_vec_push(&program->context->arena, out) = program->dims.data[i].name.text;
    }
}

void sc_declarations_unbound_dims(sc_declarations *program, sc_sym model, sc_sym entry,
                                  const sc_binding_list *bindings, sc_sym_list *out)
{
    sc_context *context = program->context;
    sc_build_request request = {
        .model = model, .entry = entry, .bindings = bindings, .symbolic = true};
    sc_build_result result = {0};
    sc_builder *b = new_builder(program, &request, sc_module_new(context), &result);
    b->dims.needed = sc_arena_array(&context->arena, program->dims.count, sizeof *b->dims.needed);
    elaborate(b);
    const sc_unit *unit = sc_declarations_model(program, model);
    const sc_member *member = unit == NULL ? NULL : sc_unit_member(unit, entry);
    if (member == NULL || member->kind != SC_MEMBER_ENTRY)
        return;
    sc_sym along_name = member->callable->along.text;
    uint32_t along = along_name == 0 ? SC_NONE : sc_declarations_dim(program, along_name);
    int64_t *sizes = sc_arena_array(&context->arena, program->dims.count, sizeof *sizes);
    sc_dims_sizes(program, bindings, along, sizes);
    list_unbound(program, b->dims.needed, along, sizes, out);
}

/* ---- numbers outside bodies ---- */
bool sc_declarations_eval_number(sc_declarations *program, const sc_expr *expr, sc_sym entry,
                                 const sc_binding_list *bindings, double *out, bool *unknown)
{
    sc_context *context = program->context;
    sc_build_request request = {.entry = entry, .bindings = bindings, .symbolic = bindings == NULL};
    sc_build_result result = {0};
    sc_builder *b = new_builder(program, &request, sc_module_new(context), &result);
    if (bindings != NULL && !sc_dims_sizes(program, bindings, SC_NONE, b->dims.program_sizes))
        return false;
    b->entry.func = sc_module_add_func(b->m, entry);
    const sc_instance nowhere = {0};
    sc_frame f = {.b = b, .instance = &nowhere};
    f.local_map.arena = &context->arena;
    sc_bval value;
    if (!sc_build_constant(&f, expr, "this argument", &value) || b->failed)
        return false;
    *out = value.number;
    *unknown = value.unknown;
    return true;
}

/* ---- checking without sizes ---- */
static bool has_open_formal(const sc_callable *callable)
{
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        const sc_formal *formal = &callable->formals.data[i];
        if (formal->kind == SC_FORMAL_STATIC)
            continue;
        for (uint32_t d = 0; d < formal->type.shape->dims.count; d++) {
            if (formal->type.shape->dims.data[d].rest)
                return true;
        }
    }
    return false;
}

static bool is_elaborated(const sc_declarations *program, const void *node)
{
    return sc_map_find(&program->elaborated, (uint64_t)(uintptr_t)node) != NULL;
}

/* Returns a builder to check code in `unit` or at file level with the remaining `steps`; NULL if
 * none remain. */
static sc_builder *new_checker(sc_declarations *program, sc_sym name, uint32_t *steps)
{
    uint32_t cost = program->dims.count / 4; /* a builder has tables indexed by dim */
    if (*steps <= cost)
        return NULL;
    *steps -= cost;
    sc_build_request request = {.model = 0, .entry = name, .symbolic = true};
    sc_build_result *result = sc_arena_alloc(&program->context->arena, sizeof *result);
    sc_builder *b = new_builder(program, &request, sc_module_new(program->context), result);
    b->limits.step_limit = *steps;
    b->limits.may_stop = true;
    return b;
}

/* Returns a frame of an instance of a unit by itself: dim parameters become dims of the same names,
 * statics have their defaults. `callable` is a fn of the unit or the file, with dim parameters and
 * statics of its own, or NULL. */
static sc_frame stand_in(sc_builder *b, const sc_unit *unit, const sc_callable *callable,
                         sc_instance *instance)
{
    sc_context *context = b->context;
    *instance = (sc_instance){.unit = unit,
                              .path = unit != NULL && unit->callable != NULL ? unit->name.text : 0};
    const sc_callable *owners[2] = {unit == NULL ? NULL : unit->callable, callable};
    sc_frame f = {.b = b, .instance = instance, .path = instance->path, .scope = instance->path};
    f.local_map.arena = &context->arena;
    if (unit != NULL)
        model_statics(b, unit, instance);
    for (uint32_t o = 0; o < 2; o++) {
        if (owners[o] == NULL)
            continue;
        for (uint32_t i = 0; i < owners[o]->dim_params.count; i++) {
            sc_sym name = owners[o]->dim_params.data[i].text;
            *sc_vec_push(&context->arena, &instance->params) =
                (sc_dim_binding){name, sc_build_new_dim(b, name)};
        }
        sc_build_statics(&f, owners[o], NULL, &(sc_stack_place){0}, instance);
    }
    return f;
}

/* Checks a block or fn that no entry reaches. All these checks share `steps`, a limit that no
 * realistic program reaches. */
static void check_alone(sc_declarations *program, const sc_callable *callable, const sc_unit *unit,
                        uint32_t *steps)
{
    bool is_block = unit != NULL && unit->callable == callable;
    if (is_elaborated(program, callable) || (unit != NULL && unit->broken) ||
        has_open_formal(callable))
        return;
    sc_builder *b = new_checker(program, callable->name.text, steps);
    if (b == NULL)
        return;
    sc_instance *instance = sc_arena_alloc(&program->context->arena, sizeof *instance);
    stand_in(b, unit, is_block ? NULL : callable, instance);
    run_outermost(b, callable, instance, true);
    *steps -= b->limits.steps < *steps ? b->limits.steps : *steps;
}

/* Checks params, caches and subs that nothing reads. */
static void check_declarations(sc_declarations *program, const sc_unit *unit, uint32_t *steps)
{
    sc_builder *b = NULL;
    sc_frame f;
    if (unit->broken)
        return;
    for (uint32_t i = 0; i < unit->members.count; i++) {
        const sc_member *member = &unit->members.data[i];
        if (member->kind == SC_MEMBER_FN || member->kind == SC_MEMBER_ENTRY ||
            is_elaborated(program, member->decl))
            continue;
        if (b == NULL && (b = new_checker(program, unit->name.text, steps)) == NULL)
            return;
        if (b->entry.func == SC_NONE) {
            b->entry.func = sc_module_add_func(b->m, unit->name.text);
            f = stand_in(b, unit, NULL,
                         sc_arena_alloc(&program->context->arena, sizeof *f.instance));
        }
        sc_build_declaration(&f, member);
    }
    if (b != NULL)
        *steps -= b->limits.steps < *steps ? b->limits.steps : *steps;
}

static void check_members(sc_declarations *program, const sc_unit *unit, uint32_t *steps)
{
    for (uint32_t i = 0; i < unit->members.count; i++) {
        if (unit->members.data[i].kind == SC_MEMBER_FN)
            check_alone(program, unit->members.data[i].callable, unit, steps);
    }
}

void sc_declarations_check(sc_declarations *program)
{
    uint32_t steps = SC_MAX_STEPS;
    sc_entry_list entries = {0};
    sc_declarations_entries(program, 0, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        sc_build_request request = {
            .model = entries.data[i].model, .entry = entries.data[i].entry, .symbolic = true};
        sc_build_result result;
        sc_build_entry(program, &request, sc_module_new(program->context), &result);
    }
    for (uint32_t i = 0; i < program->blocks.count; i++)
        check_alone(program, program->blocks.data[i]->callable, program->blocks.data[i], &steps);
    for (uint32_t i = 0; i < program->blocks.count; i++)
        check_members(program, program->blocks.data[i], &steps);
    for (uint32_t i = 0; i < program->models.count; i++)
        check_members(program, program->models.data[i], &steps);
    for (uint32_t i = 0; i < program->fns.count; i++)
        check_alone(program, program->fns.data[i], NULL, &steps);
    for (uint32_t i = 0; i < program->blocks.count; i++)
        check_declarations(program, program->blocks.data[i], &steps);
    for (uint32_t i = 0; i < program->models.count; i++)
        check_declarations(program, program->models.data[i], &steps);
}
