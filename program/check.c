/* Invariants of an image that must hold before it is run, whoever made it. This catches a compiler
 * that assigns overlapping memory to two live values as well as a modified file, and names the
 * faulty item. Kernels are trusted: the bytes that an argument may access are declared in the image
 * and compared with the buffers, but the code is not checked. */
#include "program/check.h"

#include <stdlib.h>
#include <string.h>

#include "program/bytes.h"
#include "program/lookup.h"
#include "support/hash.h"

static bool is_text(const char *text)
{
    return text != NULL && text[0] != 0;
}

/* ---- digits of the rank ---- */

/* The digits in use; digits of modulo 1 are not added. */
typedef struct digit_set {
    uint32_t count;
    uint64_t product;
    /* each at least doubles the product, so there can be no more below 2^32 ranks */
    sc_image_digit digits[64];
} digit_set;

/* Sorted by `divide`: a digit must end at or before the start of the next. */
static bool add_digit(digit_set *set, uint64_t divide, uint64_t modulo)
{
    uint32_t at = set->count;
    if (modulo == 1)
        return true;
    while (at > 0 && set->digits[at - 1].divide > divide)
        at--;
    const sc_image_digit *before = at > 0 ? &set->digits[at - 1] : NULL,
                         *after = at < set->count ? &set->digits[at] : NULL;
    if ((before != NULL && divide % (before->divide * before->modulo) != 0) ||
        (after != NULL && after->divide % (divide * modulo) != 0))
        return false;
    memmove(&set->digits[at + 1], &set->digits[at], (set->count - at) * sizeof set->digits[0]);
    set->digits[at] = (sc_image_digit){divide, modulo};
    set->count++;
    set->product *= modulo;
    return true;
}

static bool add_terms(digit_set *set, const sc_image_terms *terms)
{
    for (uint32_t i = 0; i < terms->count; i++) {
        if (!add_digit(set, terms->terms[i].divide, terms->terms[i].modulo))
            return false;
    }
    return true;
}

/* No tensor or group may use the digit of the stage axis: it counts as used from the start. */
static digit_set digits_of_stage(const sc_image *image)
{
    digit_set digits = {.product = 1};
    if (image->pipeline.count > 0) {
        sc_image_digit digit = sc_image_stage_digit(image);
        add_digit(&digits, digit.divide, digit.modulo);
    }
    return digits;
}

/* ---- tensors ---- */

/* Only parameters of kernels count from another member of a ring. */
static bool check_starts(sc_checker *c, const sc_image_terms *terms)
{
    for (uint32_t i = 0; i < terms->count; i++) {
        if (terms->terms[i].plus != 0)
            return sc_checker_fail(c, "a tensor's shards start at member %llu",
                                   (unsigned long long)terms->terms[i].plus);
    }
    return true;
}

/* Returns the term with stride `times`; terms of modulo 1 are ignored. */
static const sc_image_term *term_of(const sc_image_terms *terms, int64_t times)
{
    for (uint32_t i = 0; i < terms->count; i++) {
        if (terms->terms[i].times == times && terms->terms[i].modulo > 1)
            return &terms->terms[i];
    }
    return NULL;
}

/* Two chunks a member make up the dim, and the shards what members have. */
static bool check_order(sc_checker *c, const sc_image_dim *dim)
{
    const sc_shard_order *order = &dim->order;
    int64_t held, part, all;
    if (order->members <= 1)
        return order->members >= 0 || sc_checker_fail(c, "dim %s is split over %lld members",
                                                      dim->name, (long long)order->members);
    if (order->outer < 1 || order->inner < 1 ||
        __builtin_mul_overflow(dim->local, order->inner, &held) || held % 2 != 0 ||
        __builtin_mul_overflow(held, order->members, &part) ||
        __builtin_mul_overflow(part, order->outer, &all) || all != dim->size)
        return sc_checker_fail(c, "the chunks of dim %s, split zigzag, do not make it up",
                               dim->name);
    return true;
}

/* Checks that shards are `local` apart, as if one after the other, and cover the dim. */
static bool check_dim(sc_checker *c, const sc_image_dim *dim)
{
    int64_t least, most, reached = dim->local;
    uint32_t used = 0, moving = 0;
    if (dim->size < 1 || dim->local < 1)
        return sc_checker_fail(c, "dim %s has size %lld, %lld on a rank", dim->name,
                               (long long)dim->size, (long long)dim->local);
    if (!sc_check_terms(c, &dim->first, &least, &most) || !check_starts(c, &dim->first))
        return false;
    for (uint32_t i = 0; i < dim->first.count; i++)
        moving += dim->first.terms[i].modulo > 1;
    for (const sc_image_term *term; (term = term_of(&dim->first, reached)) != NULL; used++) {
        if (__builtin_mul_overflow(reached, (int64_t)term->modulo, &reached))
            return sc_checker_fail(c, "dim %s overflows", dim->name);
    }
    if (used != moving || reached < dim->size)
        return sc_checker_fail(c, "the shards of dim %s do not cover it side by side", dim->name);
    return check_order(c, dim);
}

/* Checks terms whose sum 0 selects the first rank. */
static bool check_selector(sc_checker *c, const sc_image_terms *terms)
{
    int64_t least, most;
    for (uint32_t i = 0; i < terms->count; i++) {
        if (terms->terms[i].times < 1)
            return sc_checker_fail(c, "a replica or part counts by %lld",
                                   (long long)terms->terms[i].times);
    }
    return sc_check_terms(c, terms, &least, &most) && check_starts(c, terms);
}

static bool check_tensor(sc_checker *c, const sc_image_tensor *tensor)
{
    digit_set digits = digits_of_stage(c->image);
    int64_t whole = sc_dtypes[tensor->dtype].bytes, local = whole;
    if (tensor->rank > SC_IMAGE_MAX_RANK)
        return sc_checker_fail(c, "it has %u dims", tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!check_dim(c, &tensor->dims[i]))
            return false;
        if (__builtin_mul_overflow(whole, tensor->dims[i].size, &whole) ||
            __builtin_mul_overflow(local, tensor->dims[i].local, &local))
            return sc_checker_fail(c, "its size overflows");
    }
    if (!check_selector(c, &tensor->replica) || !check_selector(c, &tensor->part))
        return false;
    bool apart = add_terms(&digits, &tensor->replica) && add_terms(&digits, &tensor->part);
    for (uint32_t i = 0; apart && i < tensor->rank; i++)
        apart = add_terms(&digits, &tensor->dims[i].first);
    if (!apart)
        return sc_checker_fail(c, "a digit of the rank has two meanings");
    if (digits.product != c->image->ranks)
        return sc_checker_fail(c, "digits of %llu of %llu ranks are given a meaning",
                               (unsigned long long)digits.product,
                               (unsigned long long)c->image->ranks);
    if (tensor->partial == SC_IMAGE_WHOLE && tensor->part.count > 0)
        return sc_checker_fail(c, "it has parts, but no reduction is partial");
    return true;
}

/* Checks a tensor that fills (the beginning of) a buffer. */
static bool check_placed(sc_checker *c, const sc_image_tensor *tensor, uint32_t buffer)
{
    if (!check_tensor(c, tensor))
        return false;
    if (buffer >= c->image->buffer_count)
        return sc_checker_fail(c, "buffer %u, of %u", buffer, c->image->buffer_count);
    if (sc_image_tensor_bytes(tensor) > c->image->buffers[buffer].bytes)
        return sc_checker_fail(c, "%lld bytes in buffer %u of %lld",
                               (long long)sc_image_tensor_bytes(tensor), buffer,
                               (long long)c->image->buffers[buffer].bytes);
    return true;
}

/* ---- tables ---- */

static bool check_mesh(sc_checker *c)
{
    const sc_image *image = c->image;
    uint64_t ranks = 1;
    for (uint32_t i = 0; i < image->axis_count; i++) {
        sc_checker_at(c, "axis", i, image->axes[i].name);
        if (image->axes[i].size < 1 || __builtin_mul_overflow(ranks, image->axes[i].size, &ranks))
            return sc_checker_fail(c, "size %llu", (unsigned long long)image->axes[i].size);
    }
    c->what = NULL;
    if (ranks != image->ranks || ranks > SC_IMAGE_MAX_RANKS)
        return sc_checker_fail(c, "%llu ranks, but axes of %llu (at most %d)",
                               (unsigned long long)image->ranks, (unsigned long long)ranks,
                               SC_IMAGE_MAX_RANKS);
    if (image->arena_bytes < 0 || image->host_bytes < 0)
        return sc_checker_fail(
            c, "an arena of %lld bytes",
            (long long)(image->arena_bytes < 0 ? image->arena_bytes : image->host_bytes));
    return true;
}

static bool check_buffers(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->buffer_count; i++) {
        const sc_image_buffer *buffer = &c->image->buffers[i];
        sc_checker_at(c, "buffer", i, buffer->name);
        int64_t arena = buffer->host ? c->image->host_bytes : c->image->arena_bytes;
        if (buffer->copies < 1 || buffer->copies > SC_IMAGE_MAX_SLOTS ||
            (buffer->copies > 1 &&
             (buffer->kind != SC_BUFFER_SLOT || c->image->pipeline.count == 0)))
            return sc_checker_fail(c, "%u copies of a buffer of kind %s, in a program of %u stages",
                                   buffer->copies, sc_image_buffer_kind_names[buffer->kind],
                                   c->image->pipeline.count);
        if (buffer->bytes < 0 || buffer->bytes > (int64_t)1 << 62 || buffer->offset < 0 ||
            buffer->offset % SC_IMAGE_ALIGN != 0 ||
            sc_image_buffer_step(buffer) > arena / buffer->copies + SC_IMAGE_ALIGN ||
            sc_image_buffer_extent(buffer) > arena - buffer->offset)
            return sc_checker_fail(c, "%lld bytes at %lld, in an arena of %lld",
                                   (long long)buffer->bytes, (long long)buffer->offset,
                                   (long long)arena);
    }
    return true;
}

/* A master copy has the same shape as its parameter; the layout may differ. */
static bool check_master(sc_checker *c, const sc_image_state *state)
{
    if (state->master == SC_NONE)
        return true;
    if (state->master >= c->image->state_count || state->kind != SC_STATE_PARAM)
        return sc_checker_fail(c, "its master is state %u, of %u", state->master,
                               c->image->state_count);
    const sc_image_state *master = &c->image->states[state->master];
    bool same =
        master->master == SC_NONE && master != state && master->tensor.rank == state->tensor.rank;
    for (uint32_t i = 0; same && i < state->tensor.rank; i++)
        same = master->tensor.dims[i].size == state->tensor.dims[i].size;
    return same || sc_checker_fail(c, "its master, %s, is of another shape or has one itself",
                                   master->path);
}

typedef struct placed_state {
    bool host;
    int64_t offset, end;
    uint32_t state;
} placed_state;

static int compare_placed(const void *a, const void *b)
{
    const placed_state *x = a, *y = b;
    if (x->host != y->host)
        return x->host ? 1 : -1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* State lives as long as the session: no two states may overlap. */
static bool check_states_apart(sc_checker *c)
{
    const sc_image *image = c->image;
    placed_state *placed = sc_arena_array(c->arena, image->state_count, sizeof *placed);
    uint32_t count = 0;
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_buffer *buffer = &image->buffers[image->states[i].buffer];
        if (buffer->bytes > 0)
            placed[count++] =
                (placed_state){buffer->host, buffer->offset, buffer->offset + buffer->bytes, i};
    }
    qsort(placed, count, sizeof *placed, compare_placed);
    for (uint32_t i = 1; i < count; i++) {
        if (placed[i].host != placed[i - 1].host || placed[i].offset >= placed[i - 1].end)
            continue;
        sc_checker_at(c, "state", placed[i].state, image->states[placed[i].state].path);
        return sc_checker_fail(c, "it is in the same place as %s",
                               image->states[placed[i - 1].state].path);
    }
    return true;
}

/* True if the name is new in its table. */
static bool is_new_name(sc_map *names, const char *name)
{
    bool is_new;
    sc_map_insert(names, sc_fnv1a64(name, strlen(name)), 0, &is_new);
    return is_new;
}

static bool check_states(sc_checker *c)
{
    sc_map paths = {.arena = c->arena};
    for (uint32_t i = 0; i < c->image->state_count; i++) {
        const sc_image_state *state = &c->image->states[i];
        sc_checker_at(c, "state", i, state->path);
        if (!is_text(state->path) || !is_new_name(&paths, state->path))
            return sc_checker_fail(c, "it has no path, or that of another state");
        if (state->kind >= SC_STATE_KINDS || state->init >= SC_INIT_KINDS)
            return sc_checker_fail(c, "kind %u, initialiser %u", state->kind, state->init);
        if (!check_placed(c, &state->tensor, state->buffer) || !check_master(c, state))
            return false;
        if (sc_image_is_zigzag(&state->tensor))
            return sc_checker_fail(c, "it is split zigzag, as activations alone may be");
        if (c->image->buffers[state->buffer].kind >= SC_BUFFER_SLOT)
            return sc_checker_fail(
                c, "its buffer is of kind %s",
                sc_image_buffer_kind_names[c->image->buffers[state->buffer].kind]);
    }
    return check_states_apart(c);
}

static bool is_identifier(const char *text)
{
    if (!is_text(text) || (text[0] >= '0' && text[0] <= '9'))
        return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
           strlen(text);
}

/* CPUs run functions, GPUs launch stages. */
static bool check_stages(sc_checker *c, const sc_image_kernel *kernel)
{
    bool launches = strcmp(c->image->target, "cpu") != 0;
    if (launches != (kernel->stage_count > 0) || kernel->stage_count > SC_IMAGE_MAX_STAGES)
        return sc_checker_fail(c, "it has %u stages, for target %s", kernel->stage_count,
                               c->image->target);
    for (uint32_t i = 0; i < kernel->stage_count; i++) {
        const sc_image_stage *stage = &kernel->stages[i];
        if (stage->blocks < 1 || stage->blocks > SC_IMAGE_MAX_BLOCKS || stage->threads == 0 ||
            stage->threads % 32 != 0 || stage->threads > SC_IMAGE_MAX_THREADS)
            return sc_checker_fail(c, "stage %u: %lld blocks of %u threads", i,
                                   (long long)stage->blocks, stage->threads);
    }
    return true;
}

static bool check_kernels(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->kernel_count; i++) {
        const sc_image_kernel *kernel = &c->image->kernels[i];
        sc_checker_at(c, "kernel", i, kernel->symbol);
        if (kernel->check_count > SC_IMAGE_MAX_CHECKS)
            return sc_checker_fail(c, "it has %u checks, more than results tell apart",
                                   kernel->check_count);
        if (!is_identifier(kernel->symbol))
            return sc_checker_fail(c, "its symbol is not a name of a C function");
        for (uint32_t a = 0; a < kernel->arg_count; a++) {
            if (kernel->args[a].bytes < 0 || kernel->args[a].moved < 0 ||
                kernel->args[a].access >= SC_ACCESS_KINDS)
                return sc_checker_fail(c, "argument %u: %lld bytes, access %u", a,
                                       (long long)kernel->args[a].bytes, kernel->args[a].access);
        }
        if (!check_stages(c, kernel))
            return false;
    }
    return true;
}

static bool check_gemms(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->gemm_count; i++) {
        const char *fault = sc_gemm_invalid(&c->image->gemms[i]);
        sc_checker_at(c, "gemm", i, NULL);
        if (fault != NULL)
            return sc_checker_fail(c, "%s", fault);
    }
    return true;
}

static bool check_groups(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->group_count; i++) {
        const sc_image_group *group = &c->image->groups[i];
        digit_set digits = digits_of_stage(c->image);
        sc_checker_at(c, "group", i, group->axes);
        for (uint32_t d = 0; d < group->digit_count; d++) {
            if (!sc_check_digit(c, group->digits[d].divide, group->digits[d].modulo))
                return false;
            if (!add_digit(&digits, group->digits[d].divide, group->digits[d].modulo))
                return sc_checker_fail(c, "its digits are not of different axes");
        }
    }
    return true;
}

/* ---- functions ---- */

static bool check_values(sc_checker *c, const char *what, const sc_image_func *func,
                         const sc_image_value *values, uint32_t count, bool is_input)
{
    sc_map names = {.arena = c->arena};
    for (uint32_t i = 0; i < count; i++) {
        const sc_image_value *value = &values[i];
        sc_checker_at(c, sc_arena_printf(c->arena, "function '%s', %s", func->name, what), i,
                      value->name);
        if (!check_placed(c, &value->tensor, value->buffer))
            return false;
        if (c->image->buffers[value->buffer].host)
            return sc_checker_fail(c, "it is in the host arena");
        if (is_input && (!is_text(value->name) || !is_new_name(&names, value->name)))
            return sc_checker_fail(c, "it has no name, or that of another");
        if (is_input && value->tensor.partial != SC_IMAGE_WHOLE)
            return sc_checker_fail(c, "a reduction is partial");
        bool is_split = is_input || value->join == SC_JOIN_ROWS;
        if (value->batch_dim < -1 ||
            value->batch_dim >= (is_split ? (int64_t)value->tensor.rank : 0))
            return sc_checker_fail(c, "batch dim %d, of %u", value->batch_dim, value->tensor.rank);
        if (value->below < 0 || ((value->below > 0 || value->may_ignore) &&
                                 (!is_input || sc_dtype_is_float(value->tensor.dtype))))
            return sc_checker_fail(c, "'%s' has ids below %lld", value->name,
                                   (long long)value->below);
    }
    return true;
}

static bool check_funcs(sc_checker *c)
{
    sc_map names = {.arena = c->arena};
    for (uint32_t i = 0; i < c->image->func_count; i++) {
        const sc_image_func *func = &c->image->funcs[i];
        sc_checker_at(c, "function", i, func->name);
        if (!is_text(func->name) || !is_new_name(&names, func->name))
            return sc_checker_fail(c, "it has no name, or that of another");
        if (!check_values(c, "input", func, func->inputs, func->input_count, true) ||
            !check_values(c, "output", func, func->outputs, func->output_count, false) ||
            !sc_check_instrs(c, func))
            return false;
    }
    return true;
}

const char *sc_image_check(const sc_image *image, sc_arena *arena)
{
    sc_checker c = {.image = image, .arena = arena, .name = ""};
    if (!is_text(image->target))
        return "it has no target";
    if (image->nvrtc != 0 && strcmp(image->target, "cpu") == 0)
        return "it is for the CPU, and NVRTC compiled it";
    if (check_mesh(&c) && sc_check_pipeline(&c) && check_buffers(&c) && check_states(&c) &&
        check_kernels(&c) && check_gemms(&c) && check_groups(&c) && sc_check_collectives(&c) &&
        check_funcs(&c) && sc_check_calls(&c) && sc_check_flight(&c))
        return NULL;
    return c.fault;
}
