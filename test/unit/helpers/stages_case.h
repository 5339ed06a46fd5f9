/* Programs of several stages, made by hand: what one forward, one backward schedules run, with
 * integers.
 *
 * Of stage k: state wK i64[] (1 to begin with), accK i64[B@other], tied i64[B@other] at the first
 * and the last stage. A micro-batch goes forward as v = v wK + K, from the input x i64[B@other] of
 * the first stage; the last one's v is the gradient g that goes back: accK += g, g = g wK. Then
 * update() adds 1 to every wK, gives the accK and sets them to 0; at the last stage it also gives
 * `last`, v of the last micro-batch. check(): gives `tied`. turn(seed i64[B@other]): seed goes from
 * stage to stage and each adds its number; the last stage gives `turned`. turns(seeds) does that
 * with all micro-batches, as a list of calls of turns.F: it gives `rows`, `sum`, `mean` and, of the
 * first, `one`.
 *
 * Receives are posted a micro-batch ahead and sends are waited for two micro-batches later, in
 * other calls than those that start them. */
#ifndef SHARDC_TEST_STAGES_CASE_H
#define SHARDC_TEST_STAGES_CASE_H

#include "program/stages.h"
#include "test/unit/helpers/session_case.h"

enum { STAGES_MOST = 4, STAGES_LENGTH = 3, STAGES_SLOTS = 2 };

static const char stages_kernels[] =
    "#include <stdint.h>\n"
    "int64_t k_f(void *const *args, const int64_t *params) {\n"
    "  const int64_t *in = args[0], *w = args[1]; int64_t *out = args[2];\n"
    "  for (int i = 0; i < 3; i++) {\n"
    "    if (in[i] < 0) return (int64_t)1 << 48 | (in[i] & 0xffffffffffff);\n"
    "    out[i] = in[i] * *w + params[0];\n"
    "  }\n"
    "  return 0;\n"
    "}\n"
    "int64_t k_b(void *const *args, const int64_t *params) {\n"
    "  const int64_t *in = args[0], *w = args[1]; int64_t *acc = args[2], *out = args[3];\n"
    "  for (int i = 0; i < 3; i++) { acc[i] += in[i]; out[i] = in[i] * *w; }\n"
    "  return 0;\n"
    "}\n"
    "int64_t k_update(void *const *args, const int64_t *params) {\n"
    "  int64_t *w = args[0], *acc = args[1], *out = args[2]; ++*w;\n"
    "  for (int i = 0; i < 3; i++) { out[i] = acc[i]; acc[i] = 0; }\n"
    "  return 0;\n"
    "}\n"
    "int64_t k_add(void *const *args, const int64_t *params) {\n"
    "  for (int i = 0; i < 3; i++) ((int64_t *)args[1])[i] = ((const int64_t *)args[0])[i] + "
    "params[0];\n"
    "  return 0;\n"
    "}\n";

typedef struct stages_case {
    uint32_t count, axis, batches; /* stages, index of their axis, micro-batches */
    uint64_t others;               /* size of the other axis */
    image_case stages[STAGES_MOST];
} stages_case;

/* One end of both directions between this stage and a neighbour. */
typedef struct stages_link {
    uint32_t boundary, message, waited, buffers[STAGES_SLOTS];
} stages_link;

typedef struct stages_links {
    stages_link from_left, to_right, from_right, to_left; /* forward the first two */
    uint32_t w, acc, x;
} stages_links;

static inline void stages_wait(image_case *c, stages_link *link)
{
    image_instr(c, SC_INSTR_WAIT, link->boundary, 0, NULL);
    link->waited++;
}

static inline void stages_start(image_case *c, const stages_link *link, uint32_t batch)
{
    uint32_t at = image_instr(c, SC_INSTR_MESSAGE, link->message, 1,
                              (uint32_t[]){link->buffers[batch % STAGES_SLOTS]});
    c->instrs.data[at].stream = 1;
}

/* Posts the receive of this micro-batch, if it is the first, and of the next; waits for this. */
static inline uint32_t stages_receive(image_case *c, stages_link *link, uint32_t batch,
                                      uint32_t batches)
{
    if (batch == 0)
        stages_start(c, link, 0);
    if (batch + 1 < batches)
        stages_start(c, link, batch + 1);
    stages_wait(c, link);
    return link->buffers[batch % STAGES_SLOTS];
}

/* A free slot to send from. */
static inline uint32_t stages_slot(image_case *c, stages_link *link, uint32_t batch)
{
    if (batch >= STAGES_SLOTS)
        stages_wait(c, link);
    return link->buffers[batch % STAGES_SLOTS];
}

/* The rank's number in its stage, times. */
static inline sc_image_param stages_number(image_case *c)
{
    const sc_image_pipeline *pipeline = &c->image.pipeline;
    return (sc_image_param){.kind = SC_PARAM_RANK,
                            .terms = image_terms(c, c->axes[pipeline->axis].name, 1)};
}

static inline const char *stages_name(image_case *c, const char *what, uint32_t number)
{
    return sc_arena_printf(&c->arena, "%s%u", what, number);
}

static inline uint32_t stages_forward(image_case *c, const stages_case *s, stages_links *l,
                                      uint32_t batch)
{
    uint32_t stage = c->image.pipeline.stage, in, out;
    int64_t bytes = STAGES_LENGTH * 8;
    char tensor[64];
    snprintf(tensor, sizeof tensor, "i64[B=%d@%s]", (int)(STAGES_LENGTH * s->others),
             c->axes[1 - s->axis].name);
    in = stage == 0 ? image_input(c, "x", tensor, 0)
                    : stages_receive(c, &l->from_left, batch, s->batches);
    out = stage + 1 < s->count ? stages_slot(c, &l->to_right, batch)
                               : l->to_right.buffers[batch % STAGES_SLOTS];
    uint32_t kernel =
        image_kernel(c, "k_f", "iio", (int64_t[]){bytes, 8, bytes}, 1, "value {value} is negative");
    image_instr(c, SC_INSTR_KERNEL, kernel, 3, (uint32_t[]){in, l->w, out});
    image_param(c, stages_number(c));
    if (stage + 1 < s->count)
        stages_start(c, &l->to_right, batch);
    return image_func(c, stages_name(c, "F", batch));
}

static inline uint32_t stages_backward(image_case *c, const stages_case *s, stages_links *l,
                                       uint32_t batch)
{
    uint32_t stage = c->image.pipeline.stage, in, out;
    int64_t bytes = STAGES_LENGTH * 8;
    in = stage + 1 == s->count ? l->to_right.buffers[batch % STAGES_SLOTS]
                               : stages_receive(c, &l->from_right, batch, s->batches);
    out = stage > 0 ? stages_slot(c, &l->to_left, batch) : l->to_left.buffers[0];
    uint32_t kernel = image_kernel(c, "k_b", "iibo", (int64_t[]){bytes, 8, bytes, bytes}, 0, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 4, (uint32_t[]){in, l->w, l->acc, out});
    if (stage > 0)
        stages_start(c, &l->to_left, batch);
    return image_func(c, stages_name(c, "B", batch));
}

static inline void stages_drain(image_case *c, stages_link *link, uint32_t batches)
{
    while (link->waited < batches)
        stages_wait(c, link);
}

static inline void stages_update(image_case *c, const stages_case *s, stages_links *l,
                                 const char *tensor)
{
    uint32_t stage = c->image.pipeline.stage;
    int64_t bytes = STAGES_LENGTH * 8;
    uint32_t out = image_buffer(c, SC_BUFFER_ACT, bytes, "out");
    if (stage + 1 < s->count)
        stages_drain(c, &l->to_right, s->batches);
    if (stage > 0)
        stages_drain(c, &l->to_left, s->batches);
    uint32_t kernel = image_kernel(c, "k_update", "bbo", (int64_t[]){8, bytes, bytes}, 0, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 3, (uint32_t[]){l->w, l->acc, out});
    image_output(c, stages_name(c, "acc", stage), tensor, out);
    if (stage + 1 == s->count)
        image_output(c, "last", tensor, l->to_right.buffers[(s->batches - 1) % STAGES_SLOTS]);
    image_func(c, "update");
}

/* Functions that are not part of a step. */
static inline void stages_others(image_case *c, const stages_case *s, stages_links *l,
                                 const char *tensor, uint32_t tied)
{
    uint32_t stage = c->image.pipeline.stage;
    int64_t bytes = STAGES_LENGTH * 8;
    if (tied != SC_NONE) {
        image_output(c, "tied", tensor, tied);
        image_func(c, "check");
    }
    uint32_t value = stage == 0 ? image_input(c, "seed", tensor, -1) : l->from_left.buffers[0];
    if (stage > 0) {
        stages_start(c, &l->from_left, 0);
        image_instr(c, SC_INSTR_WAIT, l->from_left.boundary, 0, NULL);
    }
    uint32_t kernel = image_kernel(c, "k_add", "io", (int64_t[]){bytes, bytes}, 1, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){value, l->to_right.buffers[0]});
    image_param(c, stages_number(c));
    if (stage + 1 < s->count) {
        stages_start(c, &l->to_right, 0);
        image_instr(c, SC_INSTR_WAIT, l->to_right.boundary, 0, NULL);
    } else
        image_output(c, "turned", tensor, l->to_right.buffers[0]);
    image_func(c, "turn");
}

static inline uint32_t stages_slot_buffer(image_case *c, uint32_t copies, const char *name)
{
    uint32_t buffer = image_buffer(c, SC_BUFFER_SLOT, STAGES_LENGTH * 8, name);
    c->buffers.data[buffer].copies = copies;
    c->image.arena_bytes += (copies - 1) * sc_image_buffer_step(&c->buffers.data[buffer]);
    return buffer;
}

/* What turns() calls for each micro-batch. Sends are waited for when the boundary has no room, and
 * the last ones at the end. */
static inline uint32_t stages_turn_batch(image_case *c, const stages_case *s, stages_links *l,
                                         const char *tensor, uint32_t out)
{
    uint32_t stage = c->image.pipeline.stage, value;
    int64_t bytes = STAGES_LENGTH * 8;
    value = stage == 0 ? image_input(c, "seeds", tensor, 0) : stages_slot_buffer(c, 1, "turning");
    if (stage > 0) {
        stages_link in = l->from_left;
        in.buffers[0] = value;
        stages_start(c, &in, 0);
        image_instr(c, SC_INSTR_WAIT, in.boundary, 0, NULL);
    }
    uint32_t kernel = image_kernel(c, "k_add", "io", (int64_t[]){bytes, bytes}, 1, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){value, out});
    image_param(c, stages_number(c));
    if (stage + 1 < s->count) {
        stages_link to = l->to_right;
        to.buffers[0] = out;
        image_instr(c, SC_INSTR_ROOM, to.boundary, 0, NULL);
        stages_start(c, &to, 0);
    }
    return image_func(c, "turns.F");
}

static inline void stages_turns(image_case *c, const stages_case *s, stages_links *l,
                                const char *tensor)
{
    static const char *const names[] = {"rows", "sum", "mean", "one"};
    static const sc_join joins[] = {SC_JOIN_ROWS, SC_JOIN_SUM, SC_JOIN_MEAN, SC_JOIN_ONE};
    uint32_t out = stages_slot_buffer(c, s->batches, "turned"),
             called = stages_turn_batch(c, s, l, tensor, out);
    for (uint32_t i = 0; i < c->funcs.data[called].input_count; i++)
        *sc_vec_push(&c->arena, &c->inputs) = c->funcs.data[called].inputs[i];
    for (uint32_t i = 0; c->image.pipeline.stage + 1 == s->count && i < 4; i++) {
        image_output(c, names[i], tensor, out);
        c->outputs.data[i].join = (uint8_t)joins[i];
        c->outputs.data[i].batch_dim = joins[i] == SC_JOIN_ROWS ? 0 : -1;
    }
    uint32_t made = image_func(c, "turns");
    sc_image_func *turns = &c->funcs.data[made];
    turns->batches = turns->call_count = s->batches;
    turns->calls = sc_arena_array(&c->arena, s->batches, sizeof *turns->calls);
    for (uint32_t b = 0; b < s->batches; b++)
        turns->calls[b] = (sc_image_call){called, (int32_t)b};
}

static inline void stages_link_up(image_case *c, stages_link *link, bool is_receive, uint32_t peer)
{
    for (int i = 0; i < STAGES_SLOTS; i++)
        link->buffers[i] = image_buffer(c, SC_BUFFER_COMM, STAGES_LENGTH * 8, "slot");
    if (peer == SC_NONE)
        return;
    link->boundary = image_boundary(c, is_receive, peer, 0, STAGES_SLOTS);
    link->message = image_message(c, link->boundary, SC_DTYPE_i64, STAGES_LENGTH);
}

/* One forward, one backward. */
static inline void stages_schedule(image_case *c, const stages_case *s, const uint32_t *forward,
                                   const uint32_t *backward)
{
    uint32_t ahead = s->count - 1 - c->image.pipeline.stage, f = 0, b = 0;
    ahead = ahead < s->batches ? ahead : s->batches;
    for (; f < ahead; f++)
        image_call(c, forward[f], (int32_t)f);
    for (; b < s->batches; b++) {
        if (f < s->batches) {
            image_call(c, forward[f], (int32_t)f);
            f++;
        }
        image_call(c, backward[b], (int32_t)b);
    }
}

static inline void stages_image(stages_case *s, uint32_t stage)
{
    image_case *c = &s->stages[stage];
    stages_links l = {.w = 0};
    uint32_t last = s->count - 1, tied = SC_NONE, order[2][64];
    char tensor[64];
    image_begin(c, s->axis == 0 ? s->count : s->others, s->axis == 0 ? s->others : s->count);
    c->image.pipeline = (sc_image_pipeline){s->count, s->axis, stage};
    snprintf(tensor, sizeof tensor, "i64[B=%d@%s]", (int)(STAGES_LENGTH * s->others),
             c->axes[1 - s->axis].name);
    l.w = image_state(c, SC_STATE_PARAM, stages_name(c, "w", stage), "i64[]", SC_INIT_ONES, 0, 0);
    l.acc = image_state(c, SC_STATE_SUM, stages_name(c, "acc", stage), tensor, SC_INIT_ZEROS, 0, 0);
    if (stage == 0 || stage == last)
        tied = image_state(c, SC_STATE_PARAM, "tied", tensor, SC_INIT_ZEROS, 0, 0);
    /* sends come first, by peer */
    stages_link_up(c, &l.to_left, false, stage > 0 ? stage - 1 : SC_NONE);
    stages_link_up(c, &l.to_right, false, stage < last ? stage + 1 : SC_NONE);
    stages_link_up(c, &l.from_left, true, stage > 0 ? stage - 1 : SC_NONE);
    stages_link_up(c, &l.from_right, true, stage < last ? stage + 1 : SC_NONE);
    for (uint32_t b = 0; b < s->batches; b++) {
        order[0][b] = stages_forward(c, s, &l, b);
        order[1][b] = stages_backward(c, s, &l, b);
    }
    stages_update(c, s, &l, tensor);
    stages_schedule(c, s, order[0], order[1]);
    image_call(c, c->funcs.count - 1, -1);
    stages_others(c, s, &l, tensor, tied);
    stages_turns(c, s, &l, tensor);
}

/* The images, without an object. */
static inline void stages_images(stages_case *s, uint32_t count, uint64_t others, uint32_t axis,
                                 uint32_t batches)
{
    *s = (stages_case){.count = count, .axis = axis, .batches = batches, .others = others};
    for (uint32_t k = 0; k < count; k++)
        stages_image(s, k);
}

static inline void stages_begin(stages_case *s, uint32_t count, uint64_t others, uint32_t axis,
                                uint32_t batches)
{
    stages_images(s, count, others, axis, batches);
    image_compile(&s->stages[0], stages_kernels);
    for (uint32_t k = 1; k < count; k++) {
        s->stages[k].image.object = s->stages[0].image.object;
        s->stages[k].image.object_bytes = s->stages[0].image.object_bytes;
    }
}

static inline sc_strbuf stages_bytes(stages_case *s)
{
    const sc_image *images[STAGES_MOST];
    sc_strbuf bytes;
    sc_strbuf_init(&bytes, &s->stages[0].arena);
    for (uint32_t k = 0; k < s->count; k++)
        images[k] = image_end(&s->stages[k]);
    sc_program_write(images, s->count, &bytes);
    return bytes;
}

static inline void stages_end(stages_case *s)
{
    for (uint32_t k = s->count; k-- > 0;)
        sc_arena_free(&s->stages[k].arena);
}

static inline shardc_executable *stages_read(stages_case *s)
{
    shardc_error error = {0};
    shardc_executable *program;
    sc_strbuf bytes = stages_bytes(s);
    if (shardc_executable_read(bytes.data, bytes.length, &program, &error) != SHARDC_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return program;
}

static inline shardc_executable *stages_program(stages_case *s, uint32_t count, uint64_t others,
                                                uint32_t axis, uint32_t batches)
{
    stages_begin(s, count, others, axis, batches);
    return stages_read(s);
}

/* ---- what a step gives ---- */

enum { STAGES_MOST_VALUES = 64 };

/* What step number `step` (from 0) gives for x, of STAGES_LENGTH * others elements a micro-batch:
 * acc by stage, last. Overflow wraps. */
static inline void stages_expect(const stages_case *s, uint64_t step, const int64_t *x,
                                 int64_t (*acc)[STAGES_MOST_VALUES], int64_t *last)
{
    uint32_t length = (uint32_t)(STAGES_LENGTH * s->others);
    memset(acc, 0, s->count * sizeof *acc);
    for (uint32_t b = 0; b < s->batches; b++) {
        for (uint32_t i = 0; i < length; i++) {
            int64_t w = (int64_t)step + 1, v = x[b * length + i];
            for (uint32_t k = 0; k < s->count; k++)
                v = v * w + k;
            last[i] = v;
            for (uint32_t k = s->count; k-- > 0; v *= w)
                acc[k][i] += v;
        }
    }
}

#endif
