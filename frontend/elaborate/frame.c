/* Frames: the names visible in a running body, paths and dtypes of the values it creates, and
 * limits. */
#include "frontend/elaborate/internal.h"

sc_sym sc_build_path(sc_builder *b, sc_sym prefix, sc_sym name)
{
    if (prefix == 0)
        return name;
    return sc_intern_printf(&b->context->names, "%s.%s", sc_name_text(b, prefix),
                            sc_name_text(b, name));
}

sc_dtype sc_build_dtype_of(sc_builder *b, sc_tensor_kind kind, sc_sym path)
{
    return b->request.dtype_of == NULL ? SC_DTYPE_f32
                                       : b->request.dtype_of(b->request.user, kind, path);
}

sc_frame *sc_build_frame(sc_builder *b, const sc_frame *caller, const sc_callable *callable,
                         const sc_instance *instance, sc_sym path, sc_sym scope)
{
    sc_arena *arena = &b->context->scratch;
    sc_frame *f = sc_arena_alloc(arena, sizeof *f);
    f->b = b;
    f->caller = caller;
    f->callable = callable;
    f->instance = instance;
    f->path = path;
    f->scope = scope;
    f->act = sc_build_dtype_of(b, SC_KIND_ACT, path);
    f->level = caller == NULL ? 0 : caller->level + 1;
    f->local_map.arena = arena;
    return f;
}

const sc_local *sc_build_find_local(const sc_frame *f, sc_sym name)
{
    const uint32_t *index = sc_map_find(&f->local_map, name);
    return index == NULL || *index == SC_NONE ? NULL : &f->locals.data[*index];
}

void sc_build_set_local(sc_frame *f, sc_name name, sc_bval value)
{
    uint32_t *index = sc_map_insert(&f->local_map, name.text, SC_NONE, NULL);
    if (*index != SC_NONE) {
        f->locals.data[*index].value = value;
        return;
    }
    *index = f->locals.count;
    *sc_vec_push(f->local_map.arena, &f->locals) =
        (sc_local){.name = name.text, .value = value, .loc = name.loc, .depth = f->repeats.count};
}

const sc_bval *sc_build_find_static(const sc_frame *f, sc_sym name)
{
    for (uint32_t i = f->instance->statics.count; i-- > 0;) {
        if (f->instance->statics.data[i].name == name)
            return &f->instance->statics.data[i].value;
    }
    return NULL;
}

bool sc_build_condition(sc_frame *f, const sc_condition *condition)
{
    bool holds = true;
    for (const sc_condition *c = condition; c != NULL && holds; c = c->outer) {
        const sc_bval *value = sc_build_find_static(f, c->name.text);
        if (value == NULL) { /* reported where statements are checked */
            f->b->failed = true;
            return false;
        }
        bool is_word = value->kind == SC_BVAL_WORD;
        holds =
            value->unknown || sc_is_taken(is_word, is_word ? sc_name_text(f->b, value->word) : "",
                                          is_word ? 0.0 : value->number) != c->is_else;
    }
    return holds;
}

bool sc_build_is_present(sc_frame *f, const sc_member *member, sc_loc loc)
{
    sc_frame home = sc_build_home(f);
    if (sc_build_condition(&home, member->when))
        return true;
    sc_build_error(f->b, SC_D_unknown_name, loc, sc_name_text(f->b, member->name.text), "");
    sc_build_note(f->b, member->name.loc, "it is declared in an 'if' on '%s', %s",
                  sc_name_text(f->b, member->when->name.text),
                  "whose body is not there in this instance");
    return false;
}

sc_frame sc_build_home(const sc_frame *f)
{
    const sc_instance *home = f->instance->home != NULL ? f->instance->home : f->instance;
    sc_frame frame = {.b = f->b,
                      .caller = f,
                      .callable = f->callable,
                      .instance = home,
                      .path = home->path,
                      .scope = f->scope,
                      .act = f->act};
    frame.local_map.arena = &f->b->context->arena;
    return frame;
}

/* ---- limits ---- */
bool sc_build_enter(sc_builder *b, sc_loc loc)
{
    if (b->limits.stopped)
        return false;
    if (++b->limits.steps > b->limits.step_limit) {
        if (!b->limits.may_stop)
            sc_build_error(
                b, SC_D_too_large, loc,
                sc_build_text(b, "the program is too large: more than %u steps of elaboration",
                              b->limits.step_limit));
        b->failed = b->limits.stopped = true;
        return false;
    }
    if (b->limits.depth >= SC_MAX_EVAL_DEPTH) {
        sc_build_error(b, SC_D_too_deep, loc, sc_build_text(b, "%d", SC_MAX_EVAL_DEPTH));
        return false;
    }
    b->limits.depth++;
    return true;
}
