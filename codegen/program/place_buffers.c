/* Overlap and memory. Overlap limits live bytes (overlap.h), but the packing is heuristic, and
 * other live ranges may leave more gaps. So each function is tried with the whole peak, then with
 * smaller shares, until the arena is no larger than before; a function for which no share works
 * stays as it was. */
#include <string.h>

#include "codegen/program/internal.h"
#include "codegen/program/overlap.h"

/* Late waits cause more gaps than early starts. */
static const sc_overlap_room rooms[] = {{256, 256}, {240, 120}, {224, 112}, {192, 96}, {128, 64}};

_Static_assert(SC_OVERLAP_ALL == 256, "shares are written in 256ths");

/* Plans are recomputed repeatedly, so only the report of each is kept. */
static const char *plan(sc_generator *g, sc_image *image)
{
    sc_arena *scratch = &g->m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    sc_memory_plan *made = &g->out->memory;
    const char *error = sc_memory_plan_make(scratch, image, g->wishes.data, g->wishes.count, made);
    const uint32_t *live = made->live;
    made->live = sc_arena_array(g->arena, made->live_count, sizeof *made->live);
    if (made->live_count > 0)
        memcpy(made->live, live, made->live_count * sizeof *made->live);
    error = error == NULL ? NULL : sc_arena_copy_text(g->arena, error, strlen(error));
    sc_arena_release(scratch, mark);
    return error;
}

/* True if it starts collectives or transfers. */
static bool has_collectives(const sc_image_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        if (func->instrs[i].kind == SC_INSTR_FINISH)
            return true;
    }
    return false;
}

/* True if the function overlaps in an arena of at most `most` bytes. Otherwise it is restored and
 * the plan is stale. */
static bool overlap(sc_generator *g, sc_image *image, uint32_t func, int64_t most,
                    const char **out_error)
{
    sc_image_instr *instrs = image->funcs[func].instrs;
    size_t bytes = g->wishes.count * sizeof *g->wishes.data;
    sc_memory_wish *wishes = sc_arena_alloc(g->arena, bytes + 1);
    if (bytes > 0)
        memcpy(wishes, g->wishes.data, bytes);
    for (uint32_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        sc_overlap(g->arena, image, func, &rooms[r], g->wishes.data, g->wishes.count);
        *out_error = plan(g, image);
        if (image->arena_bytes <= most)
            return true;
        image->funcs[func].instrs = instrs;
        if (bytes > 0)
            memcpy(g->wishes.data, wishes, bytes);
        if (*out_error != NULL)
            break;
    }
    return false;
}

const char *sc_generator_plan(sc_generator *g, sc_image *image)
{
    const char *error = plan(g, image);
    int64_t most = image->arena_bytes;
    bool is_stale = false;
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (error != NULL)
            break;
        is_stale =
            has_collectives(&image->funcs[f]) ? !overlap(g, image, f, most, &error) : is_stale;
    }
    return error == NULL && is_stale ? plan(g, image) : error;
}
