/* Rows that are sent to the ranks of their experts have a fixed number of slots. Where they do not
 * suffice, all ranks fail before anything is updated. Then the state moves to a program with more.
 * Gradients do not move: a step begins with none. */
#include "tools/run/growing.h"

#include <stdlib.h>
#include <string.h>

#include "ir/ops/capacity.h"
#include "support/number.h"
#include "support/state.h"

typedef struct growing {
    sc_local_run *run;
    sc_executor *inner;
    sc_open_compiled *open;
    const char *last; /* pass to compile to */
    double capacity;  /* of `inner`; 0: that of the plan */
    struct {
        uint64_t seed, step;
        uint32_t micro_batch;
        bool is_set;
    } random;
    /* of programs that lacked room: descriptions of the first one are still read */
    SC_VEC(sc_executor *) executors;
    SC_VEC(shardc_executable *) programs;
} growing;

/* ---- the state ---- */
static bool moves(const shardc_tensor_info *state)
{
    static const sc_state_kind kinds[] = {SC_STATE_PARAM, SC_STATE_CACHE, SC_STATE_OPT,
                                          SC_STATE_SCALAR};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(state->kind, sc_state_kind_names[kinds[k]]) == 0)
            return true;
    }
    return false;
}

static void free_states(sc_array *states, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++)
        sc_array_free(&states[s]);
    free(states);
}

/* malloc'd arrays by state; NULL after an error */
static sc_array *read_states(growing *g, shardc_error *error)
{
    const sc_executor *from = g->inner;
    sc_array *states = calloc(from->state_count + 1u, sizeof *states);
    bool ok = states != NULL;
    for (uint32_t s = 0; s < from->state_count; s++) {
        if (!ok)
            break;
        if (!moves(&from->states[s]))
            continue;
        states[s] = from->verbs->get_state(from->self, s, error);
        ok = states[s].data != NULL;
    }
    if (ok || states == NULL)
        return states;
    free_states(states, from->state_count);
    return NULL;
}

static bool write_states(growing *g, const sc_array *states, shardc_error *error)
{
    const sc_executor *to = g->inner;
    bool ok = true;
    for (uint32_t s = 0; s < to->state_count; s++) {
        if (!ok)
            break;
        ok = states[s].data == NULL || to->verbs->set_state(to->self, s, states[s].data, error);
    }
    if (g->random.is_set)
        to->verbs->set_random(to->self, g->random.seed, g->random.step, g->random.micro_batch);
    return ok;
}

/* ---- the program ---- */
static bool compile(growing *g, double capacity)
{
    sc_local_run *run = g->run;
    sc_context *context = run->context;
    sc_options *options = sc_arena_alloc(&context->arena, sizeof *options);
    sc_compiled *c = sc_arena_alloc(&context->arena, 2 * sizeof *c), *second = c + 1;
    const char *last = g->last;
    *options = *run->c->options;
    options->plan_options.capacity = capacity;
    if (!sc_driver_compile(context, run->c->program, run->c->plan, options, NULL, NULL, last, c))
        return false;
    if (run->second != NULL) {
        sc_options *others = sc_arena_alloc(&context->arena, sizeof *others);
        *others = *run->second->options;
        others->plan_options.capacity = capacity;
        if (!sc_driver_compile(context, run->c->program, run->c->plan, others, NULL, NULL, last,
                               second))
            return false;
        run->second = second;
    }
    run->c = c;
    return true;
}

static bool fail(shardc_error *error, const char *text)
{
    *error = (shardc_error){.status = SHARDC_ERROR_DATA};
    sc_snprintf(error->text, sizeof error->text, "%s", text);
    return false;
}

/* Replaces the program by one with room. `error` has why it is needed. */
static bool grow(growing *g, double capacity, shardc_error *error)
{
    sc_local_run *run = g->run;
    sc_context *context = run->context;
    const char *why = sc_arena_printf(&context->arena, "%s", error->text);
    sc_array *states = read_states(g, error);
    if (states == NULL)
        return false;
    bool ok = compile(g, capacity) || fail(error, "there is no program with more room");
    if (ok) {
        *sc_vec_push(&context->arena, &g->executors) = g->inner;
        *sc_vec_push(&context->arena, &g->programs) = run->program;
        sc_session_say_graphs(run->session, stderr);
        shardc_session_free(run->session);
        run->session = NULL;
        run->program = NULL;
        sc_executor *inner = g->open(run);
        ok = inner != NULL || fail(error, "the program with more room cannot be opened");
        g->inner = inner;
    }
    ok = ok && write_states(g, states, error);
    free_states(states, g->executors.count > 0 ? g->executors.data[0]->state_count : 0);
    if (ok)
        sc_report(&context->diag, SC_D_more_capacity, (sc_loc){0}, why,
                  sc_arena_printf(&context->arena, SC_CAPACITY_FORMAT, capacity), NULL);
    g->capacity = capacity;
    return ok;
}

/* True if a call failed for want of room and can be repeated. */
static bool has_grown(growing *g, shardc_error *error)
{
    double wanted;
    return sc_capacity_wanted(error->text, &wanted) && wanted > g->capacity &&
           grow(g, sc_capacity_next(wanted, g->capacity), error);
}

/* ---- verbs ---- */
/* Of a call that failed. */
static void free_outputs(sc_array *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sc_array_free(&outputs[i]);
        outputs[i] = (sc_array){0};
    }
}

static bool run(void *self, uint32_t func, const sc_named_arrays *inputs, sc_array *outputs,
                uint32_t output_count, shardc_error *error)
{
    growing *g = self;
    bool ok = false, again = true;
    while (again) {
        ok = g->inner->verbs->run(g->inner->self, func, inputs, outputs, output_count, error);
        if (!ok)
            free_outputs(outputs, output_count);
        again = !ok && has_grown(g, error);
    }
    return ok;
}

static bool step(void *self, const sc_named_arrays *inputs, sc_array *outputs,
                 uint32_t output_count, shardc_error *error)
{
    growing *g = self;
    bool ok = false, again = true;
    while (again) {
        ok = g->inner->verbs->step(g->inner->self, inputs, outputs, output_count, error);
        if (!ok)
            free_outputs(outputs, output_count);
        again = !ok && has_grown(g, error);
    }
    return ok;
}

static void set_random(void *self, uint64_t seed, uint64_t step_number, uint32_t micro_batch)
{
    growing *g = self;
    g->random.seed = seed;
    g->random.step = step_number;
    g->random.micro_batch = micro_batch;
    g->random.is_set = true;
    g->inner->verbs->set_random(g->inner->self, seed, step_number, micro_batch);
}

static bool set_state(void *self, uint32_t state, const double *values, shardc_error *error)
{
    growing *g = self;
    return g->inner->verbs->set_state(g->inner->self, state, values, error);
}

static sc_array get_state(void *self, uint32_t state, shardc_error *error)
{
    growing *g = self;
    return g->inner->verbs->get_state(g->inner->self, state, error);
}

static bool initialise(void *self, uint64_t seed, shardc_error *error)
{
    growing *g = self;
    return g->inner->verbs->initialise(g->inner->self, seed, error);
}

static void place(void *self, uint32_t state, uint64_t rank, sc_shard_place *out)
{
    growing *g = self;
    g->inner->verbs->place(g->inner->self, state, rank, out);
}

static bool read_shard(void *self, uint32_t state, uint64_t rank, void *room, const void **out,
                       shardc_error *error)
{
    growing *g = self;
    return g->inner->verbs->read_shard(g->inner->self, state, rank, room, out, error);
}

static void *shard_room(void *self, uint32_t state, uint64_t rank, void *room)
{
    growing *g = self;
    return g->inner->verbs->shard_room(g->inner->self, state, rank, room);
}

static bool write_shard(void *self, uint32_t state, uint64_t rank, const void *filled,
                        shardc_error *error)
{
    growing *g = self;
    return g->inner->verbs->write_shard(g->inner->self, state, rank, filled, error);
}

static void free_growing(void *self)
{
    growing *g = self;
    sc_executor_free(g->inner);
    for (uint32_t i = 0; i < g->executors.count; i++)
        sc_executor_free(g->executors.data[i]);
    for (uint32_t i = 0; i < g->programs.count; i++)
        shardc_executable_free(g->programs.data[i]);
    free(g);
}

/* Local runs have one process: `most` and `sum` are not needed. */
static const sc_executor_verbs verbs = {.set_state = set_state,
                                        .get_state = get_state,
                                        .initialise = initialise,
                                        .set_random = set_random,
                                        .run = run,
                                        .step = step,
                                        .place = place,
                                        .read_shard = read_shard,
                                        .shard_room = shard_room,
                                        .write_shard = write_shard,
                                        .free = free_growing};

/* ---- opening ---- */
static bool copy_func(const sc_executor_func *from, sc_executor_func *to)
{
    *to = *from;
    if (!sc_executor_reserve_func(to, from->input_count, from->output_count))
        return false;
    if (from->input_count > 0)
        memcpy(to->inputs, from->inputs, from->input_count * sizeof *to->inputs);
    if (from->output_count > 0)
        memcpy(to->outputs, from->outputs, from->output_count * sizeof *to->outputs);
    return true;
}

/* The same description as that of another executor, whose names it reads. */
static sc_executor *describe(const sc_executor *from)
{
    sc_executor *executor = calloc(1, sizeof *executor);
    if (executor == NULL)
        return NULL;
    bool ok = sc_executor_reserve(executor, from->state_count, from->func_count);
    const sc_executor reserved = *executor;
    *executor = *from;
    executor->verbs = &verbs;
    executor->self = NULL;
    executor->states = reserved.states;
    executor->funcs = reserved.funcs;
    executor->func_count = reserved.func_count;
    executor->step = (sc_executor_func){0};
    if (ok && from->state_count > 0)
        memcpy(executor->states, from->states, from->state_count * sizeof *from->states);
    for (uint32_t f = 0; f < executor->func_count; f++) {
        if (!ok)
            break;
        ok = copy_func(&from->funcs[f], &executor->funcs[f]);
    }
    if (ok && copy_func(&from->step, &executor->step))
        return executor;
    sc_executor_free(executor);
    return NULL;
}

sc_executor *sc_growing_executor(sc_local_run *run, sc_executor *executor, sc_open_compiled *open,
                                 const char *last)
{
    bool may_lack =
        sc_has_slots(run->c->local) || (run->second != NULL && sc_has_slots(run->second->local));
    if (executor == NULL || !may_lack)
        return executor;
    growing *g = calloc(1, sizeof *g);
    sc_executor *outer = g == NULL ? NULL : describe(executor);
    if (outer == NULL) {
        free(g);
        sc_executor_free(executor);
        return NULL;
    }
    *g = (growing){.run = run, .inner = executor, .open = open, .last = last};
    outer->self = g;
    return outer;
}
