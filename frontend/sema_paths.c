/* The parameters of a model by their paths, each stack once. */
#include "frontend/program.h"

enum { MAX_PATHS = 1 << 17 };

typedef struct path_walk {
    const sc_program *program;
    sc_param_path_list *out;
    sc_sym names[SC_MAX_INLINE_DEPTH + 2], stacks[SC_MAX_INLINE_DEPTH + 2];
    uint32_t visits;
} path_walk;

static void add_path(path_walk *walk, const sc_unit *unit, const sc_member *member, uint32_t depth)
{
    sc_context *context = walk->program->context;
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    walk->names[depth] = member->name.text;
    walk->stacks[depth] = 0;
    uint32_t count = depth + 1;
    sc_sym *names = sc_arena_array(&context->arena, count, sizeof *names), *stacks = sc_arena_array(&context->arena, count, sizeof *stacks);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = walk->names[i];
        stacks[i] = walk->stacks[i];
        sc_strbuf_add(&text, i > 0 ? "." : "");
        sc_strbuf_add(&text, sc_text(context, names[i]));
    }
    *sc_vec_push(&context->arena, walk->out) = (sc_param_path){.count = count,
                                                               .names = names,
                                                               .stacks = stacks,
                                                               .decl = member->decl,
                                                               .kind = member->kind,
                                                               .unit = unit,
                                                               .text = sc_intern_text(&context->names, text.data)};
}

static void walk_unit(path_walk *walk, const sc_unit *unit, uint32_t depth)
{
    if (depth > SC_MAX_INLINE_DEPTH || unit->broken)
        return;
    for (uint32_t i = 0; i < unit->members.count && walk->visits < MAX_PATHS; i++) {
        const sc_member *member = &unit->members.data[i];
        walk->visits++;
        if (member->kind == SC_MEMBER_PARAM || member->kind == SC_MEMBER_CACHE) {
            add_path(walk, unit, member, depth);
        } else if (member->kind == SC_MEMBER_SUB && member->block != NULL) {
            walk->names[depth] = member->name.text;
            walk->stacks[depth] = member->sub->stack.text;
            walk_unit(walk, member->block, depth + 1);
        }
    }
}

void sc_param_paths(const sc_program *program, const sc_unit *model, sc_param_path_list *out)
{
    path_walk walk = {.program = program, .out = out};
    walk_unit(&walk, model, 0);
}

bool sc_path_covers(const sc_path *path, const sc_param_path *param, bool whole)
{
    if (path->segs.count > param->count || (whole && path->segs.count != param->count))
        return false;
    for (uint32_t i = 0; i < path->segs.count; i++) {
        const sc_seg *seg = &path->segs.data[i];
        if (seg->kind != SC_SEG_ANY && seg->name.text != param->names[i])
            return false;
        if ((seg->kind == SC_SEG_RANGE || seg->kind == SC_SEG_INDEX) && param->stacks[i] == 0)
            return false;
    }
    return true;
}

const char *sc_path_text(sc_context *context, const sc_path *path)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_add(&out, "");
    for (uint32_t i = 0; i < path->segs.count; i++) {
        const sc_seg *seg = &path->segs.data[i];
        sc_strbuf_add(&out, i > 0 ? "." : "");
        sc_strbuf_add(&out, seg->kind == SC_SEG_ANY ? "*" : sc_text(context, seg->name.text));
        if (seg->kind == SC_SEG_RANGE)
            sc_strbuf_printf(&out, "[%lld..%lld]", (long long)seg->first, (long long)seg->last);
        else if (seg->kind == SC_SEG_INDEX)
            sc_strbuf_printf(&out, "[%lld]", (long long)seg->first);
    }
    return out.data;
}
