/* What the chunks of a pipeline hold, for reports. */
#include "frontend/plan/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Returns the member of the model that an op outside the stacks belongs to, a param or a sub; NULL:
 * it is the entry's own. */
static const char *member_of(const sc_stages *c, const sc_op *op)
{
    const sc_unit *model = sc_declarations_model(c->plan->program, c->plan->model);
    sc_sym path = sc_op_has(op, SC_STATE_READ) ? sc_op_word(op, SC_ATTR_name) : op->scope;
    const char *text = sc_text(c->context, path);
    sc_sym name = sc_intern(&c->context->names, text, strcspn(text, ".["));
    const sc_member *member = model == NULL ? NULL : sc_unit_member(model, name);
    bool is_own = member == NULL || member->kind == SC_MEMBER_FN || member->kind == SC_MEMBER_ENTRY;
    return is_own ? NULL : sc_text(c->context, name);
}

/* Returns the index of an instance among those that differ from it in the last index only, and sets
 * *length to that of the path before the index. False if the path goes on after the index. */
static bool last_index(const char *path, size_t *length, int64_t *index)
{
    const char *bracket = strrchr(path, '[');
    *length = (size_t)(bracket - path);
    *index = 0;
    for (const char *p = bracket + 1; *p >= '0' && *p <= '9'; p++)
        *index = *index * 10 + (*p - '0');
    return path[strlen(path) - 1] == ']';
}

/* Appends an instance, to the last path if it is the next one of its stack: layers[0..7]. */
static void add_instance(const sc_stages *c, sc_pipeline_chunk *chunk, const char *path)
{
    sc_arena *arena = &c->context->arena;
    const char **last = chunk->paths.count == 0 ? NULL : &chunk->paths.data[chunk->paths.count - 1];
    size_t length, before;
    int64_t index, from;
    if (last != NULL && strchr(*last, '[') != NULL && last_index(path, &length, &index) &&
        last_index(*last, &before, &from) && length == before &&
        strncmp(*last, path, length) == 0) {
        const char *range = strstr(*last + length, "..");
        int64_t to = range == NULL ? from : strtoll(range + 2, NULL, 10);
        if (index == to + 1) {
            *last = sc_arena_printf(arena, "%.*s[%" PRId64 "..%" PRId64 "]", (int)length, path,
                                    from, index);
            return;
        }
    }
    *sc_vec_push(arena, &chunk->paths) = path;
}

typedef struct listing {
    const sc_stages *c;
    sc_pipeline *out;
    sc_map listed; /* chunk and member */
} listing;

static void add_member(listing *l, uint32_t chunk, const sc_op *op)
{
    const char *member = member_of(l->c, op);
    bool is_new = false;
    if (member == NULL)
        return;
    sc_sym name = sc_intern_text(&l->c->context->names, member);
    sc_map_insert(&l->listed, (uint64_t)chunk << 32 | name, 0, &is_new);
    if (is_new)
        *sc_vec_push(&l->c->context->arena, &l->out->chunks[chunk].paths) = member;
}

/* Lists the op's member and the params that it reads: a tied one is in several chunks. */
static void add_members(listing *l, uint32_t chunk, const sc_op *op)
{
    const sc_module *m = l->c->m;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_op *read = sc_op_at(m, sc_def(m, op->operands[i]));
        if (sc_op_has(read, SC_CONVERTS))
            read = sc_op_at(m, sc_def(m, read->operands[0]));
        if (sc_op_has(read, SC_STATE_READ))
            add_member(l, chunk, read);
    }
    add_member(l, chunk, op);
}

void sc_stages_describe(const sc_stages *c, sc_pipeline *out)
{
    sc_arena *arena = &c->context->arena;
    listing l = {.c = c, .out = out, .listed = {.arena = arena}};
    bool *has_instance =
        sc_arena_array(arena, (size_t)c->instance_paths.count + 1, sizeof *has_instance);
    out->chunks = sc_arena_array(arena, c->chunks, sizeof *out->chunks);
    out->lengths = sc_arena_array(arena, c->chunks, sizeof *out->lengths);
    for (uint32_t i = 0; i < c->instance_paths.count; i++)
        out->lengths[c->chunk_of_instance[i]]++;
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        uint32_t instance = c->instance_of[id], chunk = c->chunk_of[id];
        out->chunks[chunk].flops += sc_stages_flops(c, op);
        if (instance == SC_NONE) {
            add_members(&l, chunk, op);
        } else if (!has_instance[instance]) {
            has_instance[instance] = true;
            add_instance(c, &out->chunks[chunk], c->instance_paths.data[instance]);
        }
    }
}
