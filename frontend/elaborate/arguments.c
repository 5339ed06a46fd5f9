/* Dim and static arguments of instances and calls. */
#include "frontend/elaborate/internal.h"

static int param_index(const sc_callable *callable, sc_sym name)
{
    for (uint32_t i = 0; i < callable->dim_params.count; i++) {
        if (callable->dim_params.data[i].text == name)
            return (int)i;
    }
    return -1;
}

static void set_binding(sc_builder *b, sc_dim_binding_list *list, sc_sym name, sc_dim dim)
{
    *sc_vec_push(&b->context->arena, list) = (sc_dim_binding){name, dim};
}

/* Copies a list before adding to it: an instance shares its lists with the one it was copied
 * from. */
static void copy_bindings(sc_builder *b, sc_dim_binding_list *list)
{
    sc_dim_binding_list copy = {0};
    for (uint32_t i = 0; i < list->count; i++)
        *sc_vec_push(&b->context->arena, &copy) = list->data[i];
    *list = copy;
}

/* Handles `X = Y`: sets a dim parameter, or substitutes a file-level dim throughout the
 * instance. */
static bool named_argument(sc_frame *f, const sc_callable *callable, const sc_dim_arg *arg,
                           sc_dim dim, sc_instance *instance)
{
    sc_builder *b = f->b;
    int index = param_index(callable, arg->name.text);
    if (index >= 0) {
        set_binding(b, &instance->params, arg->name.text, dim);
        return true;
    }
    if (sc_declarations_dim(b->program, arg->name.text) == SC_NONE) {
        b->failed = true;
        sc_report_unknown_dim(b->program, arg->name);
        return false;
    }
    set_binding(b, &instance->substitutions, arg->name.text, dim);
    return true;
}

static bool check_all_given(sc_frame *f, const sc_callable *callable, const sc_instance *instance,
                            uint32_t inherited, uint32_t given, sc_loc loc)
{
    sc_builder *b = f->b;
    uint32_t wanted = callable->dim_params.count;
    bool ok = given <= wanted;
    for (uint32_t p = 0; p < wanted; p++) {
        uint32_t times = 0;
        for (uint32_t i = inherited; i < instance->params.count; i++)
            times += instance->params.data[i].name == callable->dim_params.data[p].text;
        ok = ok && times == 1;
    }
    if (ok)
        return true;
    sc_build_error(b, SC_D_wrong_count, loc,
                   sc_build_text(b, "'%s'", sc_name_text(b, callable->name.text)),
                   sc_build_text(b, "%s in brackets, each once", sc_build_count(b, wanted, "dim")),
                   sc_build_given(b, given));
    sc_build_note(b, callable->name.loc, "'%s' is declared here",
                  sc_name_text(b, callable->name.text));
    return false;
}

bool sc_build_dim_args(sc_frame *f, const sc_callable *callable, const sc_dim_arg *args,
                       uint32_t count, sc_loc loc, sc_instance *instance)
{
    sc_builder *b = f->b;
    uint32_t positional = 0, params = 0, inherited = instance->params.count;
    if (count == 0 && callable->dim_params.count == 0)
        return true;
    copy_bindings(b, &instance->params);
    copy_bindings(b, &instance->substitutions);
    for (uint32_t i = 0; i < count; i++) {
        sc_dim dim = sc_build_dim(f, args[i].value);
        if (dim == SC_NONE)
            return false;
        if (args[i].name.text != 0) {
            params += param_index(callable, args[i].name.text) >= 0;
            if (!named_argument(f, callable, &args[i], dim, instance))
                return false;
            continue;
        }
        if (positional < callable->dim_params.count)
            set_binding(b, &instance->params, callable->dim_params.data[positional].text, dim);
        positional++;
    }
    return check_all_given(f, callable, instance, inherited, positional + params, loc);
}

/* ---- statics ---- */
static const sc_formal *static_formal(const sc_callable *callable, sc_sym name, uint32_t position)
{
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        const sc_formal *formal = &callable->formals.data[i];
        if (formal->kind != SC_FORMAL_STATIC)
            continue;
        if (name != 0 ? formal->name.text == name : position-- == 0)
            return formal;
    }
    return NULL;
}

static void report_static(sc_frame *f, const sc_callable *callable, const sc_arg *arg)
{
    sc_builder *b = f->b;
    sc_text_list names = {0};
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        if (callable->formals.data[i].kind == SC_FORMAL_STATIC)
            sc_suggest_add(b->context, &names, callable->formals.data[i].name.text);
    }
    const char *what = arg->name.text == 0 ? "such static argument: there are too many"
                                           : sc_build_text(b, "static argument '%s'",
                                                           sc_name_text(b, arg->name.text));
    sc_build_error(
        b, SC_D_bad_argument, arg->loc,
        sc_build_text(b, "'%s' has no %s%s", sc_name_text(b, callable->name.text), what,
                      arg->name.text == 0 ? "" : sc_suggest(b->context, arg->name.text, &names)));
    sc_build_note(b, callable->name.loc, "'%s' is declared here",
                  sc_name_text(b, callable->name.text));
}

static sc_static *find_static(sc_static_list *list, sc_sym name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->data[i].name == name)
            return &list->data[i];
    }
    return NULL;
}

/* Replaces a list by its value for the instance. A model (no place) keeps it for its stacks. */
static bool pick_of_list(sc_frame *f, const sc_arg *arg, const sc_stack_place *place,
                         sc_bval *value)
{
    sc_builder *b = f->b;
    if (value->kind != SC_BVAL_LIST || place == NULL)
        return true;
    if (!place->is_stack || (place->size != 0 && value->count != (uint64_t)place->size)) {
        sc_build_error(
            b, SC_D_bad_argument, arg->loc,
            place->is_stack
                ? sc_build_text(b,
                                "a list has a value for each of the %lld instances, but this "
                                "one has %u",
                                (long long)place->size, value->count)
                : "a list gives the instances of a stack their values, but this is no stack");
        return false;
    }
    /* a stack of unknown size is checked with its first instance */
    *value = value->items[place->index < (int64_t)value->count ? place->index : 0];
    return true;
}

/* Appends the static arguments of a call; false if one was reported. */
static bool read_statics(sc_frame *f, const sc_callable *callable, const sc_arg_list *args,
                         const sc_stack_place *place, sc_static_list *given)
{
    sc_builder *b = f->b;
    uint32_t position = 0;
    for (uint32_t i = 0; i < args->count; i++) {
        const sc_arg *arg = &args->data[i];
        const sc_formal *formal =
            static_formal(callable, arg->name.text, arg->name.text == 0 ? position++ : 0);
        if (formal == NULL || arg->values.count != 1) {
            report_static(f, callable, arg);
            return false;
        }
        if (find_static(given, formal->name.text) != NULL) {
            sc_build_error(b, SC_D_bad_argument, arg->loc,
                           sc_build_text(b, "argument '%s' is given twice",
                                         sc_name_text(b, formal->name.text)));
            return false;
        }
        sc_bval value = sc_build_static(f, arg->values.data[0]);
        if (value.kind == SC_BVAL_NONE || !pick_of_list(f, arg, place, &value))
            return false;
        *sc_vec_push(&b->context->arena, given) = (sc_static){formal->name.text, value};
    }
    return true;
}

bool sc_build_statics(sc_frame *f, const sc_callable *callable, const sc_arg_list *args,
                      const sc_stack_place *place, sc_instance *instance)
{
    sc_builder *b = f->b;
    sc_static_list given = {0}, all = {0};
    if (args != NULL && !read_statics(f, callable, args, place, &given))
        return false;
    for (uint32_t i = 0; i < instance->statics.count; i++)
        *sc_vec_push(&b->context->arena, &all) = instance->statics.data[i];
    sc_frame inside = {.b = b,
                       .callable = callable,
                       .instance = instance,
                       .path = instance->path,
                       .scope = f->scope};
    inside.local_map.arena = &b->context->arena;
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        const sc_formal *formal = &callable->formals.data[i];
        const sc_static *known = find_static(&given, formal->name.text);
        if (formal->kind == SC_FORMAL_STATIC)
            *sc_vec_push(&b->context->arena, &all) =
                (sc_static){formal->name.text,
                            known != NULL ? known->value : sc_build_static(&inside, formal->value)};
    }
    instance->statics = all;
    return true;
}
