/* Serialization of images. One traversal of the image serves for writing and reading, so that the
 * two cannot diverge: each code_* function gets the address of a field and reads the field when
 * writing, sets it when reading.
 *
 *   header   8 magic, 4 version, 8 length of the body, 8 its FNV-1a, 8 length of the code,
 *            8 its FNV-1a; little-endian
 *   body     the image's fields in the order of code_image
 *   code     the CPU features that it requires, as 0-terminated text, and the object; separate,
 *            so that ranks with different CPUs have equal bodies
 *
 * A program of several stages is the bytes of their images, in order.
 *
 * In the body, integers are LEB128 (7 bits per byte, least significant first; signed ones are
 * zigzag-encoded: 0, -1, 1, -2, ..), lists are a count and the items, doubles 8 bytes. A text is a
 * number: that of an earlier text, or the next free number, followed by length and bytes. The
 * encoding is canonical: the reader rejects overlong numbers and duplicate texts. So reading and
 * writing an image reproduces its bytes, and equal programs have equal hashes.
 *
 * The reader does not trust counts: a list must have at least one byte per item. After the first
 * error everything reads as 0. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/bytes.h"
#include "support/hash.h"
#include "support/number.h"
#include "support/vec.h"

static const char magic[8] = {'s', 'h', 'a', 'r', 'd', 'c', '\x1a', '\n'};

enum {
    AT_VERSION = 8,
    AT_BODY = 12,
    AT_BODY_HASH = 20,
    AT_CODE = 28,
    AT_CODE_HASH = 36,
    HEADER = 44
};

typedef struct codec {
    sc_arena *arena;
    sc_strbuf *out; /* NULL: reading */
    const uint8_t *bytes;
    size_t size, at;
    shardc_error *error;
    bool failed;
    SC_VEC(const char *) texts; /* in order of first use */
    SC_VEC(uint32_t) same_hash; /* by text: another one with the same hash, or SC_NONE */
    sc_map text_map;
} codec;

static void fail(codec *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(codec *c, const char *format, ...)
{
    va_list args;
    if (c->failed)
        return;
    c->failed = true;
    c->error->status = SHARDC_ERROR_DATA;
    int length = snprintf(c->error->text, sizeof c->error->text,
                          "not a valid program: byte %zu: ", HEADER + c->at);
    va_start(args, format);
    sc_vsnprintf(c->error->text + length, sizeof c->error->text - (size_t)length, format, args);
    va_end(args);
}

/* ---- numbers ---- */

static uint8_t next_byte(codec *c)
{
    if (c->at == c->size)
        fail(c, "the body ends too early");
    return c->failed ? 0 : c->bytes[c->at++];
}

static uint64_t read_number(codec *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = next_byte(c);
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0))
            fail(c, "a number is not in its shortest encoding");
        if (c->failed)
            return 0;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static void code_u64(codec *c, uint64_t *value)
{
    if (c->out == NULL) {
        *value = read_number(c);
        return;
    }
    uint64_t rest = *value;
    for (; rest >= 0x80; rest >>= 7)
        sc_strbuf_add_char(c->out, (char)(rest | 0x80));
    sc_strbuf_add_char(c->out, (char)rest);
}

static void code_i64(codec *c, int64_t *value)
{
    uint64_t bits = c->out == NULL ? 0 : (uint64_t)*value << 1 ^ (*value < 0 ? UINT64_MAX : 0);
    code_u64(c, &bits);
    if (c->out == NULL)
        *value = (int64_t)(bits >> 1 ^ ((bits & 1) != 0 ? UINT64_MAX : 0));
}

/* Codes a number that must be below `limit`. */
static void code_below(codec *c, uint64_t *value, uint64_t limit, const char *what)
{
    code_u64(c, value);
    if (c->out != NULL || *value < limit)
        return;
    fail(c, "%s %llu, of %llu", what, (unsigned long long)*value, (unsigned long long)limit);
    *value = 0;
}

static void code_u32(codec *c, uint32_t *value)
{
    uint64_t wide = c->out == NULL ? 0 : *value;
    code_below(c, &wide, (uint64_t)UINT32_MAX + 1, "a number is too large:");
    if (c->out == NULL)
        *value = (uint32_t)wide;
}

static void code_i32(codec *c, int32_t *value)
{
    int64_t wide = c->out == NULL ? 0 : *value;
    code_i64(c, &wide);
    if (wide < INT32_MIN || wide > INT32_MAX)
        fail(c, "a number is too large: %lld", (long long)wide);
    if (c->out == NULL)
        *value = (int32_t)wide;
}

#define CODE_CHOICE(c, type, field, limit, what)                                                   \
    do {                                                                                           \
        uint64_t choice = (c)->out == NULL ? 0 : (uint64_t)(field);                                \
        code_below(c, &choice, limit, what);                                                       \
        if ((c)->out == NULL)                                                                      \
            (field) = (type)choice;                                                                \
    } while (0)
#define CODE_DTYPE(c, field) CODE_CHOICE(c, sc_dtype, field, SC_DTYPE_COUNT, "dtype")
#define CODE_BOOL(c, field)  CODE_CHOICE(c, bool, field, 2, "truth value")

static void put_word(char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (char)(value >> 8 * i);
}

static uint64_t get_word(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static void code_double(codec *c, double *value)
{
    uint8_t bytes[8] = {0};
    uint64_t bits;
    if (c->out != NULL) {
        memcpy(&bits, value, sizeof bits);
        put_word((char *)bytes, bits, 8);
        sc_strbuf_add_bytes(c->out, (const char *)bytes, sizeof bytes);
        return;
    }
    for (int i = 0; i < 8; i++)
        bytes[i] = next_byte(c);
    bits = get_word(bytes, 8);
    memcpy(value, &bits, sizeof bits);
}

/* ---- lists ---- */

static void code_list_raw(codec *c, void **items, uint32_t *count, size_t item_size,
                          const char *what)
{
    code_u32(c, count);
    if (c->out != NULL)
        return;
    if (*count > c->size - c->at) {
        fail(c, "%u %s, but only %zu bytes follow", *count, what, c->size - c->at);
        *count = 0;
    }
    *items = sc_arena_array(c->arena, *count, item_size);
}

#define CODE_LIST(c, items, count, what)                                                           \
    code_list_raw(c, (void **)&(items), &(count), sizeof *(items), what)

/* ---- texts ---- */

static uint32_t find_text(const codec *c, const char *text, uint64_t hash)
{
    const uint32_t *first = sc_map_find(&c->text_map, hash);
    uint32_t found = first == NULL ? SC_NONE : *first;
    assert(found == SC_NONE || found < c->texts.count);
    while (found != SC_NONE && strcmp(c->texts.data[found], text) != 0)
        found = c->same_hash.data[found];
    return found;
}

static void add_text(codec *c, const char *text, uint64_t hash)
{
    bool is_new;
    uint32_t *newest = sc_map_insert(&c->text_map, hash, c->texts.count, &is_new);
    *sc_vec_push(c->arena, &c->same_hash) = is_new ? SC_NONE : *newest;
    *newest = c->texts.count;
    *sc_vec_push(c->arena, &c->texts) = text;
}

static void write_text(codec *c, const char *text)
{
    text = text == NULL ? "" : text;
    uint64_t length = strlen(text), hash = sc_hash_bytes(text, length, 0);
    uint32_t found = find_text(c, text, hash);
    uint64_t number = found == SC_NONE ? c->texts.count : found;
    code_u64(c, &number);
    if (found != SC_NONE)
        return;
    code_u64(c, &length);
    sc_strbuf_add_bytes(c->out, text, length);
    add_text(c, text, hash);
}

static const char *read_text(codec *c)
{
    uint64_t number = 0, length = 0;
    code_below(c, &number, (uint64_t)c->texts.count + 1, "text");
    if (c->failed || number < c->texts.count)
        return c->failed ? "" : c->texts.data[number];
    code_u64(c, &length);
    if (c->failed || length > c->size - c->at || memchr(c->bytes + c->at, 0, length) != NULL) {
        fail(c, "a text of %llu bytes does not fit, or has a 0 in it", (unsigned long long)length);
        return "";
    }
    const char *text = sc_arena_copy_text(c->arena, (const char *)c->bytes + c->at, length);
    uint64_t hash = sc_hash_bytes(text, length, 0);
    if (find_text(c, text, hash) != SC_NONE)
        fail(c, "a text occurs twice");
    c->at += length;
    add_text(c, text, hash);
    return text;
}

static void code_text(codec *c, const char **text)
{
    if (c->out != NULL)
        write_text(c, *text);
    else
        *text = read_text(c);
}

/* ---- parts of an image ---- */

static void code_terms(codec *c, sc_image_terms *terms)
{
    CODE_LIST(c, terms->terms, terms->count, "terms");
    for (uint32_t i = 0; i < terms->count; i++) {
        code_u64(c, &terms->terms[i].divide);
        code_u64(c, &terms->terms[i].modulo);
        code_i64(c, &terms->terms[i].times);
        code_u64(c, &terms->terms[i].plus);
    }
}

static void code_tensor(codec *c, sc_image_tensor *tensor)
{
    CODE_DTYPE(c, tensor->dtype);
    CODE_CHOICE(c, uint32_t, tensor->rank, SC_IMAGE_MAX_RANK + 1, "rank");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        code_text(c, &tensor->dims[i].name);
        code_i64(c, &tensor->dims[i].size);
        code_i64(c, &tensor->dims[i].local);
        code_terms(c, &tensor->dims[i].first);
        code_i64(c, &tensor->dims[i].order.outer);
        code_i64(c, &tensor->dims[i].order.members);
        code_i64(c, &tensor->dims[i].order.inner);
    }
    code_terms(c, &tensor->replica);
    CODE_CHOICE(c, sc_image_reduce, tensor->partial, SC_IMAGE_REDUCES, "reduction");
    code_terms(c, &tensor->part);
}

static void code_buffer(codec *c, sc_image_buffer *buffer)
{
    CODE_CHOICE(c, sc_image_buffer_kind, buffer->kind, SC_BUFFER_KINDS, "kind of a buffer");
    CODE_BOOL(c, buffer->host);
    code_i64(c, &buffer->bytes);
    code_i64(c, &buffer->offset);
    code_u32(c, &buffer->copies);
    code_text(c, &buffer->name);
}

static void code_state(codec *c, sc_image_state *state)
{
    code_text(c, &state->path);
    CODE_CHOICE(c, uint8_t, state->kind, SC_STATE_KINDS, "kind of state");
    CODE_CHOICE(c, uint8_t, state->init, SC_INIT_KINDS, "initialiser");
    code_double(c, &state->init_args[0]);
    code_double(c, &state->init_args[1]);
    code_tensor(c, &state->tensor);
    code_u32(c, &state->buffer);
    code_u32(c, &state->master);
}

static void code_kernel(codec *c, sc_image_kernel *kernel)
{
    code_text(c, &kernel->symbol);
    code_text(c, &kernel->title);
    CODE_LIST(c, kernel->args, kernel->arg_count, "arguments");
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        code_i64(c, &kernel->args[i].bytes);
        CODE_CHOICE(c, uint8_t, kernel->args[i].access, SC_ACCESS_KINDS, "access");
        code_i64(c, &kernel->args[i].moved);
    }
    code_u32(c, &kernel->param_count);
    CODE_LIST(c, kernel->checks, kernel->check_count, "checks");
    for (uint32_t i = 0; i < kernel->check_count; i++)
        code_text(c, &kernel->checks[i]);
    CODE_LIST(c, kernel->stages, kernel->stage_count, "stages");
    for (uint32_t i = 0; i < kernel->stage_count; i++) {
        code_i64(c, &kernel->stages[i].blocks);
        code_u32(c, &kernel->stages[i].threads);
        code_u32(c, &kernel->stages[i].shared_bytes);
    }
    CODE_BOOL(c, kernel->simple);
    CODE_BOOL(c, kernel->attention);
}

static void code_gemm_step(codec *c, sc_gemm_step *step, uint32_t dim_count)
{
    CODE_CHOICE(c, sc_gemm_step_kind, step->kind, SC_GEMM_STEP_KINDS, "kind of step");
    CODE_DTYPE(c, step->dtype);
    code_double(c, &step->scale);
    for (uint32_t d = 0; d < dim_count; d++)
        code_i64(c, &step->strides[d]);
}

static void code_gemm(codec *c, sc_gemm *gemm)
{
    CODE_CHOICE(c, uint32_t, gemm->dim_count, SC_GEMM_MAX_DIMS + 1, "count of dims");
    for (uint32_t d = 0; d < gemm->dim_count; d++) {
        code_i64(c, &gemm->dims[d].size);
        CODE_CHOICE(c, sc_gemm_role, gemm->dims[d].role, SC_GEMM_ROLES, "role");
        for (uint32_t o = 0; o < SC_GEMM_OPERANDS; o++)
            code_i64(c, &gemm->dims[d].strides[o]);
        code_i64(c, &gemm->dims[d].others);
    }
    for (uint32_t o = 0; o < SC_GEMM_OPERANDS; o++)
        CODE_DTYPE(c, gemm->dtypes[o]);
    CODE_DTYPE(c, gemm->sum);
    CODE_BOOL(c, gemm->accumulate);
    CODE_CHOICE(c, uint32_t, gemm->step_count, SC_GEMM_MAX_STEPS + 1, "count of steps");
    for (uint32_t s = 0; s < gemm->step_count; s++)
        code_gemm_step(c, &gemm->steps[s], gemm->dim_count);
}

static void code_collective(codec *c, sc_image_collective *collective)
{
    CODE_CHOICE(c, sc_image_collective_kind, collective->kind, SC_IMAGE_COLLECTIVES,
                "kind of collective");
    CODE_CHOICE(c, sc_image_reduce, collective->reduce, SC_IMAGE_REDUCES, "reduction");
    code_u32(c, &collective->group);
    CODE_LIST(c, collective->dtypes, collective->part_count, "parts");
    if (c->out == NULL)
        collective->counts =
            sc_arena_array(c->arena, collective->part_count, sizeof *collective->counts);
    for (uint32_t i = 0; i < collective->part_count; i++) {
        CODE_DTYPE(c, collective->dtypes[i]);
        code_i64(c, &collective->counts[i]);
    }
    CODE_LIST(c, collective->rows, collective->row_count, "rows");
    if (c->out == NULL)
        collective->fills =
            sc_arena_array(c->arena, collective->row_count, sizeof *collective->fills);
    for (uint32_t i = 0; i < collective->row_count; i++) {
        code_i64(c, &collective->rows[i]);
        code_i64(c, &collective->fills[i]);
    }
    code_terms(c, &collective->to);
    code_terms(c, &collective->from);
    CODE_LIST(c, collective->sources, collective->source_count, "sources");
    for (uint32_t i = 0; i < collective->source_count; i++)
        code_u32(c, &collective->sources[i]);
    code_text(c, &collective->why);
    code_text(c, &collective->axes);
}

static void code_group(codec *c, sc_image_group *group)
{
    CODE_LIST(c, group->digits, group->digit_count, "digits");
    for (uint32_t i = 0; i < group->digit_count; i++) {
        code_u64(c, &group->digits[i].divide);
        code_u64(c, &group->digits[i].modulo);
    }
    code_text(c, &group->axes);
}

static void code_boundary(codec *c, sc_image_boundary *boundary)
{
    CODE_BOOL(c, boundary->is_receive);
    code_u32(c, &boundary->peer);
    code_u32(c, &boundary->number);
    code_u32(c, &boundary->slots);
}

static void code_message(codec *c, sc_image_message *message)
{
    code_u32(c, &message->boundary);
    CODE_LIST(c, message->dtypes, message->part_count, "parts");
    if (c->out == NULL)
        message->counts = sc_arena_array(c->arena, message->part_count, sizeof *message->counts);
    for (uint32_t i = 0; i < message->part_count; i++) {
        CODE_DTYPE(c, message->dtypes[i]);
        code_i64(c, &message->counts[i]);
    }
    code_text(c, &message->why);
}

/* The stage, and what it exchanges with others; one byte if there are no stages. */
static void code_pipeline(codec *c, sc_image *image)
{
    code_u32(c, &image->pipeline.count);
    if (image->pipeline.count == 0)
        return;
    code_u32(c, &image->pipeline.axis);
    code_u32(c, &image->pipeline.stage);
    CODE_LIST(c, image->boundaries, image->boundary_count, "boundaries");
    for (uint32_t i = 0; i < image->boundary_count; i++)
        code_boundary(c, &image->boundaries[i]);
    CODE_LIST(c, image->messages, image->message_count, "messages");
    for (uint32_t i = 0; i < image->message_count; i++)
        code_message(c, &image->messages[i]);
}

static void code_param(codec *c, sc_image_param *param)
{
    CODE_CHOICE(c, sc_image_param_kind, param->kind, SC_PARAM_KINDS, "kind of parameter");
    code_terms(c, &param->terms);
    code_u64(c, &param->path_hash);
}

static void code_instr(codec *c, sc_image_instr *instr)
{
    CODE_CHOICE(c, sc_image_instr_kind, instr->kind, SC_INSTR_KINDS, "kind of instruction");
    CODE_CHOICE(c, uint8_t, instr->stream, SC_IMAGE_STREAMS, "stream");
    CODE_BOOL(c, instr->instead);
    code_u32(c, &instr->index);
    CODE_LIST(c, instr->args, instr->arg_count, "arguments");
    for (uint32_t i = 0; i < instr->arg_count; i++) {
        code_u32(c, &instr->args[i].buffer);
        code_i64(c, &instr->args[i].at);
    }
    CODE_LIST(c, instr->params, instr->param_count, "parameters");
    for (uint32_t i = 0; i < instr->param_count; i++)
        code_param(c, &instr->params[i]);
    code_text(c, &instr->where);
    code_text(c, &instr->phase);
}

static void code_value(codec *c, sc_image_value *value)
{
    code_text(c, &value->name);
    code_tensor(c, &value->tensor);
    code_u32(c, &value->buffer);
    code_i32(c, &value->batch_dim);
    CODE_CHOICE(c, uint8_t, value->join, SC_JOINS, "join");
    code_i64(c, &value->below);
    CODE_BOOL(c, value->may_ignore);
    code_i64(c, &value->ignore);
}

static void code_calls(codec *c, sc_image_call *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        code_u32(c, &calls[i].func);
        code_i32(c, &calls[i].micro_batch);
    }
}

static void code_func(codec *c, sc_image_func *func)
{
    code_text(c, &func->name);
    CODE_LIST(c, func->instrs, func->instr_count, "instructions");
    for (uint32_t i = 0; i < func->instr_count; i++)
        code_instr(c, &func->instrs[i]);
    CODE_LIST(c, func->inputs, func->input_count, "inputs");
    for (uint32_t i = 0; i < func->input_count; i++)
        code_value(c, &func->inputs[i]);
    CODE_LIST(c, func->outputs, func->output_count, "outputs");
    for (uint32_t i = 0; i < func->output_count; i++)
        code_value(c, &func->outputs[i]);
    code_u32(c, &func->batches);
    CODE_LIST(c, func->calls, func->call_count, "calls");
    code_calls(c, func->calls, func->call_count);
}

/* ---- the image ---- */

static void code_tables(codec *c, sc_image *image)
{
    CODE_LIST(c, image->buffers, image->buffer_count, "buffers");
    for (uint32_t i = 0; i < image->buffer_count; i++)
        code_buffer(c, &image->buffers[i]);
    CODE_LIST(c, image->states, image->state_count, "states");
    for (uint32_t i = 0; i < image->state_count; i++)
        code_state(c, &image->states[i]);
    CODE_LIST(c, image->kernels, image->kernel_count, "kernels");
    for (uint32_t i = 0; i < image->kernel_count; i++)
        code_kernel(c, &image->kernels[i]);
    CODE_LIST(c, image->gemms, image->gemm_count, "gemms");
    for (uint32_t i = 0; i < image->gemm_count; i++)
        code_gemm(c, &image->gemms[i]);
    CODE_LIST(c, image->groups, image->group_count, "groups");
    for (uint32_t i = 0; i < image->group_count; i++)
        code_group(c, &image->groups[i]);
    CODE_LIST(c, image->collectives, image->collective_count, "collectives");
    for (uint32_t i = 0; i < image->collective_count; i++)
        code_collective(c, &image->collectives[i]);
}

static void code_image(codec *c, sc_image *image)
{
    code_text(c, &image->target);
    code_u32(c, &image->nvrtc);
    CODE_LIST(c, image->axes, image->axis_count, "axes");
    for (uint32_t i = 0; i < image->axis_count; i++) {
        code_text(c, &image->axes[i].name);
        code_u64(c, &image->axes[i].size);
    }
    code_u64(c, &image->ranks);
    code_pipeline(c, image);
    code_i64(c, &image->arena_bytes);
    code_i64(c, &image->host_bytes);
    code_tables(c, image);
    CODE_LIST(c, image->funcs, image->func_count, "functions");
    for (uint32_t i = 0; i < image->func_count; i++)
        code_func(c, &image->funcs[i]);
    CODE_LIST(c, image->schedule, image->call_count, "calls");
    code_calls(c, image->schedule, image->call_count);
    code_text(c, &image->facts);
}

void sc_image_write(const sc_image *image, sc_strbuf *out)
{
    char header[HEADER] = {0};
    const char *cpu = image->cpu == NULL ? "" : image->cpu;
    codec c = {.arena = out->arena, .out = out, .text_map = {.arena = out->arena}};
    size_t begin = out->length;
    sc_strbuf_add_bytes(out, header, sizeof header);
    code_image(&c, (sc_image *)image); /* fields are not modified while `out` is set */
    size_t body = out->length - begin - HEADER;
    sc_strbuf_add_bytes(out, cpu, strlen(cpu) + 1);
    if (image->object_bytes > 0)
        sc_strbuf_add_bytes(out, (const char *)image->object, image->object_bytes);
    size_t code = out->length - begin - HEADER - body;
    memcpy(header, magic, sizeof magic);
    put_word(header + AT_VERSION, SC_IMAGE_VERSION, 4);
    put_word(header + AT_BODY, body, 8);
    put_word(header + AT_BODY_HASH, sc_fnv1a64(out->data + begin + HEADER, body), 8);
    put_word(header + AT_CODE, code, 8);
    put_word(header + AT_CODE_HASH, sc_fnv1a64(out->data + begin + HEADER + body, code), 8);
    memcpy(out->data + begin, header, sizeof header);
}

/* ---- reading ---- */

static sc_image *refuse(shardc_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static sc_image *refuse(shardc_error *error, const char *format, ...)
{
    va_list args;
    error->status = SHARDC_ERROR_DATA;
    va_start(args, format);
    sc_vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return NULL;
}

/* Returns NULL, or a description of the fault in the header or the bytes that it describes, of
 * which there are *out_size. */
static const char *header_fault(const uint8_t *bytes, size_t size, size_t *out_size)
{
    uint64_t body = get_word(bytes + AT_BODY, 8), code = get_word(bytes + AT_CODE, 8);
    if (body > size - HEADER || code > size - HEADER - body)
        return "it is truncated, or something was appended";
    *out_size = HEADER + (size_t)body + (size_t)code;
    if (sc_fnv1a64(bytes + HEADER, body) != get_word(bytes + AT_BODY_HASH, 8))
        return "it is damaged: its hash does not match";
    if (sc_fnv1a64(bytes + HEADER + body, code) != get_word(bytes + AT_CODE_HASH, 8))
        return "its object code is damaged: its hash does not match";
    if (memchr(bytes + HEADER + body, 0, code) == NULL)
        return "it does not say what CPU its code needs";
    return NULL;
}

/* The caller has checked that it contains a 0 byte. */
static void read_code(sc_image *image, sc_arena *arena, const uint8_t *code, size_t size)
{
    size_t length = strlen((const char *)code);
    image->cpu = sc_arena_copy_text(arena, (const char *)code, length);
    image->object_bytes = size - length - 1;
    uint8_t *object = sc_arena_array(arena, image->object_bytes, 1);
    memcpy(object, code + length + 1, image->object_bytes);
    image->object = object;
}

sc_image *sc_image_read_first(const void *data, size_t size, size_t *out_size, sc_arena *arena,
                              shardc_error *error)
{
    const uint8_t *bytes = data;
    if (size < HEADER || memcmp(bytes, magic, sizeof magic) != 0)
        return refuse(error,
                      "not a program of this compiler: it does not begin with their magic number");
    if (get_word(bytes + AT_VERSION, 4) != SC_IMAGE_VERSION)
        return refuse(error, "a program of format version %llu; this library reads version %d",
                      (unsigned long long)get_word(bytes + AT_VERSION, 4), SC_IMAGE_VERSION);
    const char *fault = header_fault(bytes, size, out_size);
    if (fault != NULL)
        return refuse(error, "not a valid program: %s", fault);
    size_t body = (size_t)get_word(bytes + AT_BODY, 8);
    codec c = {.arena = arena,
               .bytes = bytes + HEADER,
               .size = body,
               .error = error,
               .text_map = {.arena = arena}};
    sc_image *image = sc_arena_alloc(arena, sizeof *image);
    code_image(&c, image);
    if (c.at < c.size)
        fail(&c, "the body continues after its end");
    if (c.failed)
        return NULL;
    image->hash = get_word(bytes + AT_BODY_HASH, 8);
    read_code(image, arena, bytes + HEADER + body, *out_size - HEADER - body);
    fault = sc_image_check(image, arena);
    return fault == NULL ? image : refuse(error, "not a valid program: %s", fault);
}

sc_image *sc_image_read(const void *data, size_t size, sc_arena *arena, shardc_error *error)
{
    size_t used = 0;
    sc_image *image = sc_image_read_first(data, size, &used, arena, error);
    return image == NULL || used == size
               ? image
               : refuse(error, "not a valid program: it is truncated, or something was appended");
}
