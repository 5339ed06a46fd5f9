/* Images as text: state first, then kernels and collectives, then the instructions.
 *
 *   program for cpu, 4 ranks (dp=2, tp=2), arena of 8192 bytes
 *   state
 *     s0  param layers[0].wq: f32[D=64, H=8/2] in b0 = normal(0.02)
 *   func step
 *     in x: f32[B=8/4, D=64] in b2
 *     0  kernel  k0 b2 b3+128 (rank r%2*4)   ; layers[0].attn forward
 *     1  start   c0 b3 -> b4                 ; layers[0].attn forward
 *     2  finish  1
 *
 * Of a program with stages, "stage 1 of 4 over pp" and its boundaries follow the first line:
 *
 *   boundaries
 *     q0  to stage 2, number 0, 2 slots
 *   messages
 *     m0  q0: f32 256; the value of layers[3]
 *
 * `H=8/2`: global size 8, local size 2; `r%2*4`: that digit of the rank, times 4. */
#include <inttypes.h>

#include "program/bytes.h"
#include "program/lookup.h"

static void put_terms(sc_strbuf *out, const sc_image_terms *terms)
{
    for (uint32_t i = 0; i < terms->count; i++) {
        const sc_image_term *term = &terms->terms[i];
        sc_strbuf_printf(out, "%s%sr", i > 0 ? " + " : "", term->plus > 0 ? "(" : "");
        if (term->divide != 1)
            sc_strbuf_printf(out, "/%" PRIu64, term->divide);
        if (term->plus > 0)
            sc_strbuf_printf(out, "+%" PRIu64 ")", term->plus);
        sc_strbuf_printf(out, "%%%" PRIu64, term->modulo);
        if (term->times != 1)
            sc_strbuf_printf(out, "*%" PRId64, term->times);
    }
    if (terms->count == 0)
        sc_strbuf_add_char(out, '0');
}

static void put_tensor(sc_strbuf *out, const sc_image_tensor *tensor)
{
    sc_strbuf_printf(out, "%s[", sc_dtypes[tensor->dtype].name);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const sc_image_dim *dim = &tensor->dims[i];
        sc_strbuf_printf(out, "%s%s=%" PRId64, i > 0 ? ", " : "", dim->name, dim->size);
        if (dim->local == dim->size && dim->first.count == 0)
            continue;
        sc_strbuf_printf(out, "/%" PRId64 " at ", dim->local);
        put_terms(out, &dim->first);
        if (dim->order.members > 1)
            sc_strbuf_printf(out, " zigzag %" PRId64, dim->order.members);
    }
    sc_strbuf_add_char(out, ']');
    if (tensor->replica.count > 0) {
        sc_strbuf_add(out, " from ");
        put_terms(out, &tensor->replica);
    }
    if (tensor->partial != SC_IMAGE_WHOLE) {
        sc_strbuf_printf(out, " partial %s, set at ", sc_image_reduce_names[tensor->partial]);
        put_terms(out, &tensor->part);
    }
}

static void put_states(sc_strbuf *out, const sc_image *image)
{
    sc_strbuf_add(out, image->state_count > 0 ? "\nstate\n" : "");
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *state = &image->states[i];
        sc_strbuf_printf(out, "  s%-4u %s %s: ", i, sc_state_kind_names[state->kind], state->path);
        put_tensor(out, &state->tensor);
        sc_strbuf_printf(out, " in b%u = %s", state->buffer, sc_init_kind_names[state->init]);
        for (uint32_t a = 0; a < sc_init_kind_args[state->init]; a++) {
            sc_strbuf_add(out, a > 0 ? ", " : "(");
            sc_strbuf_add_double(out, state->init_args[a]);
        }
        sc_strbuf_add(out, sc_init_kind_args[state->init] > 0 ? ")" : "");
        if (state->master != SC_NONE)
            sc_strbuf_printf(out, ", master s%u", state->master);
        sc_strbuf_add_char(out, '\n');
    }
}

static void put_buffers(sc_strbuf *out, const sc_image *image)
{
    sc_strbuf_add(out, image->buffer_count > 0 ? "\nbuffers\n" : "");
    for (uint32_t i = 0; i < image->buffer_count; i++) {
        const sc_image_buffer *buffer = &image->buffers[i];
        sc_strbuf_printf(out, "  b%-4u %-10s %12" PRId64 " at %12" PRId64 "%s  %s", i,
                         sc_image_buffer_kind_names[buffer->kind], buffer->bytes, buffer->offset,
                         buffer->host ? " host" : "", buffer->name);
        if (buffer->copies > 1)
            sc_strbuf_printf(out, ", %u copies", buffer->copies);
        sc_strbuf_add_char(out, '\n');
    }
}

static void put_kernels(sc_strbuf *out, const sc_image *image)
{
    static const char *const access_names[SC_ACCESS_KINDS] = {"in", "out", "inout"};
    sc_strbuf_add(out, image->kernel_count > 0 ? "\nkernels\n" : "");
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        const sc_image_kernel *kernel = &image->kernels[i];
        sc_strbuf_printf(out, "  k%-4u %s(", i, kernel->symbol);
        for (uint32_t a = 0; a < kernel->arg_count; a++)
            sc_strbuf_printf(out, "%s%s %" PRId64, a > 0 ? ", " : "",
                             access_names[kernel->args[a].access], kernel->args[a].bytes);
        sc_strbuf_printf(out, "; %u params)%s  %s\n", kernel->param_count,
                         kernel->simple ? " simple" : "", kernel->title);
        for (uint32_t n = 0; n < kernel->stage_count; n++)
            sc_strbuf_printf(
                out, "        stage %u: %" PRId64 " blocks of %u threads, %u bytes shared\n", n,
                kernel->stages[n].blocks, kernel->stages[n].threads,
                kernel->stages[n].shared_bytes);
        for (uint32_t n = 0; n < kernel->check_count; n++)
            sc_strbuf_printf(out, "        check %u: %s\n", n, kernel->checks[n]);
    }
}

static void put_gemms(sc_strbuf *out, const sc_image *image)
{
    sc_strbuf_add(out, image->gemm_count > 0 ? "\ngemms\n" : "");
    for (uint32_t i = 0; i < image->gemm_count; i++) {
        sc_strbuf_printf(out, "  g%-4u ", i);
        sc_gemm_print(&image->gemms[i], out);
        sc_strbuf_add_char(out, '\n');
    }
}

static void put_collectives(sc_strbuf *out, const sc_image *image)
{
    sc_strbuf_add(out, image->collective_count > 0 ? "\ncollectives\n" : "");
    for (uint32_t i = 0; i < image->collective_count; i++) {
        const sc_image_collective *collective = &image->collectives[i];
        const sc_image_group *group = &image->groups[collective->group];
        sc_strbuf_printf(out, "  c%-4u %s", i, sc_collectives[collective->kind].name);
        if (collective->reduce != SC_IMAGE_WHOLE)
            sc_strbuf_printf(out, " %s", sc_image_reduce_names[collective->reduce]);
        sc_strbuf_printf(out, " over %s, %" PRIu64 " ranks (", collective->axes,
                         sc_image_group_size(group));
        for (uint32_t d = 0; d < group->digit_count; d++)
            sc_strbuf_printf(out, "%sr/%" PRIu64 "%%%" PRIu64, d > 0 ? ", " : "",
                             group->digits[d].divide, group->digits[d].modulo);
        sc_strbuf_add(out, "):");
        for (uint32_t p = 0; p < collective->part_count; p++)
            sc_strbuf_printf(out, "%s %s %" PRId64, p > 0 ? "," : "",
                             sc_dtypes[collective->dtypes[p]].name, collective->counts[p]);
        for (uint32_t p = 0; p < collective->row_count; p++)
            sc_strbuf_printf(out, "%s%" PRId64, p == 0 ? ", counted rows of " : " ",
                             collective->rows[p]);
        for (uint32_t s = 0; s < collective->source_count; s++)
            sc_strbuf_printf(out, "%s%u", s == 0 ? ", from " : " ", collective->sources[s]);
        if (collective->kind == SC_IMAGE_SEND) {
            sc_strbuf_add(out, ", to ");
            put_terms(out, &collective->to);
        }
        if (collective->kind == SC_IMAGE_RECV || collective->kind == SC_IMAGE_BROADCAST) {
            sc_strbuf_add(out, ", from ");
            put_terms(out, &collective->from);
        }
        sc_strbuf_printf(out, "; %s\n", collective->why);
    }
}

static void put_messages(sc_strbuf *out, const sc_image *image)
{
    sc_strbuf_add(out, image->boundary_count > 0 ? "\nboundaries\n" : "");
    for (uint32_t i = 0; i < image->boundary_count; i++) {
        const sc_image_boundary *boundary = &image->boundaries[i];
        sc_strbuf_printf(out, "  q%-4u %s stage %u, number %u, %u slot%s\n", i,
                         boundary->is_receive ? "from" : "to", boundary->peer, boundary->number,
                         boundary->slots, boundary->slots == 1 ? "" : "s");
    }
    sc_strbuf_add(out, image->message_count > 0 ? "\nmessages\n" : "");
    for (uint32_t i = 0; i < image->message_count; i++) {
        const sc_image_message *message = &image->messages[i];
        sc_strbuf_printf(out, "  m%-4u q%u:", i, message->boundary);
        for (uint32_t p = 0; p < message->part_count; p++)
            sc_strbuf_printf(out, "%s %s %" PRId64, p > 0 ? "," : "",
                             sc_dtypes[message->dtypes[p]].name, message->counts[p]);
        sc_strbuf_printf(out, "; %s\n", message->why);
    }
}

/* ---- functions ---- */

static void put_ref(sc_strbuf *out, const sc_image_ref *ref)
{
    sc_strbuf_printf(out, "b%u", ref->buffer);
    if (ref->at != 0)
        sc_strbuf_printf(out, "+%" PRId64, ref->at);
}

static void put_param(sc_strbuf *out, const sc_image_param *param)
{
    static const char *const names[SC_PARAM_KINDS] = {"rank ", "key ", "step", "micro-batch"};
    sc_strbuf_add(out, names[param->kind]);
    if (param->kind == SC_PARAM_RANK)
        put_terms(out, &param->terms);
    else if (param->kind == SC_PARAM_KEY)
        sc_strbuf_printf(out, "%016" PRIx64, param->path_hash);
}

static void put_instr(sc_strbuf *out, const sc_image *image, const sc_image_instr *instr,
                      uint32_t index)
{
    static const char *const names[SC_INSTR_KINDS] = {
        "kernel", "gemm", "start", "finish", "transfer", "copy", "start", "wait", "room"};
    static const char letters[SC_INSTR_KINDS] = {
        'k', 'g', 'c', [SC_INSTR_MESSAGE] = 'm', [SC_INSTR_WAIT] = 'q', [SC_INSTR_ROOM] = 'q'};
    size_t begin = out->length;
    sc_strbuf_printf(out, "  %5u%s %-7s", index,
                     instr->stream > 0 ? "'"
                     : instr->instead  ? "|"
                                       : " ",
                     names[instr->kind]);
    if (letters[instr->kind] != 0)
        sc_strbuf_printf(out, " %c%u", letters[instr->kind], instr->index);
    else if (instr->kind == SC_INSTR_FINISH)
        sc_strbuf_printf(out, " %u", instr->index);
    /* A collective's arguments are pairs; a GEMM's third is c. */
    bool pairs = instr->kind == SC_INSTR_TRANSFER ||
                 (instr->kind == SC_INSTR_COLLECTIVE &&
                  instr->arg_count == 2 * image->collectives[instr->index].part_count);
    for (uint32_t i = 0; i < instr->arg_count; i++) {
        bool arrow = instr->kind == SC_INSTR_COPY ? i == 1 : pairs && i % 2 == 1;
        sc_strbuf_add(out, arrow ? " -> " : pairs && i > 0 ? ", " : " ");
        put_ref(out, &instr->args[i]);
    }
    for (uint32_t i = 0; i < instr->param_count; i++) {
        sc_strbuf_add(out, i == 0 ? " (" : ", ");
        put_param(out, &instr->params[i]);
    }
    sc_strbuf_add(out, instr->param_count > 0 ? ")" : "");
    while (out->length - begin < 56)
        sc_strbuf_add_char(out, ' ');
    sc_strbuf_printf(out, " ; %s %s", instr->where, instr->phase);
    if (instr->kind == SC_INSTR_KERNEL)
        sc_strbuf_printf(out, ": %s", image->kernels[instr->index].title);
    sc_strbuf_add_char(out, '\n');
}

static void put_value(sc_strbuf *out, const char *what, const sc_image_value *value)
{
    sc_strbuf_printf(out, "  %s %s: ", what, value->name);
    put_tensor(out, &value->tensor);
    sc_strbuf_printf(out, " in b%u", value->buffer);
    if (value->below > 0)
        sc_strbuf_printf(out, ", below %lld", (long long)value->below);
    if (value->may_ignore)
        sc_strbuf_printf(out, " or %lld", (long long)value->ignore);
    if (value->batch_dim >= 0)
        sc_strbuf_printf(out, ", micro-batches split %s",
                         value->tensor.dims[value->batch_dim].name);
    if (value->join != SC_JOIN_ONE)
        sc_strbuf_printf(out, ", joined: %s", sc_join_names[value->join]);
    sc_strbuf_add_char(out, '\n');
}

static void put_calls(sc_strbuf *out, const sc_image *image, const sc_image_call *calls,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sc_strbuf_printf(out, "  %s", image->funcs[calls[i].func].name);
        if (calls[i].micro_batch >= 0)
            sc_strbuf_printf(out, " of micro-batch %d", calls[i].micro_batch);
        sc_strbuf_add_char(out, '\n');
    }
}

static void put_func(sc_strbuf *out, const sc_image *image, const sc_image_func *func)
{
    sc_strbuf_printf(out, "\nfunc %s\n", func->name);
    for (uint32_t i = 0; i < func->input_count; i++)
        put_value(out, "in ", &func->inputs[i]);
    for (uint32_t i = 0; i < func->instr_count; i++)
        put_instr(out, image, &func->instrs[i], i);
    put_calls(out, image, func->calls, func->call_count);
    for (uint32_t i = 0; i < func->output_count; i++)
        put_value(out, "out", &func->outputs[i]);
    if (func->batches > 0)
        sc_strbuf_printf(out, "  as %u micro-batches\n", func->batches);
}

void sc_image_dump(const sc_image *image, sc_strbuf *out)
{
    sc_strbuf_printf(out, "program for %s, ", image->target);
    if (image->nvrtc != 0)
        sc_strbuf_printf(out, "by NVRTC %u.%u, ", image->nvrtc / 1000, image->nvrtc % 1000 / 10);
    sc_strbuf_printf(out, "%" PRIu64 " ranks (", image->ranks);
    for (uint32_t i = 0; i < image->axis_count; i++)
        sc_strbuf_printf(out, "%s%s=%" PRIu64, i > 0 ? ", " : "", image->axes[i].name,
                         image->axes[i].size);
    sc_strbuf_printf(out, "), arena of %" PRId64 " bytes, ", image->arena_bytes);
    if (image->host_bytes > 0)
        sc_strbuf_printf(out, "host arena of %" PRId64 ", ", image->host_bytes);
    sc_strbuf_printf(out, "code of %zu\n", image->object_bytes);
    if (image->cpu != NULL && image->cpu[0] != 0)
        sc_strbuf_printf(out, "compiled for %s\n", image->cpu);
    if (image->pipeline.count > 0)
        sc_strbuf_printf(out, "stage %u of %u over %s\n", image->pipeline.stage,
                         image->pipeline.count, image->axes[image->pipeline.axis].name);
    put_states(out, image);
    put_buffers(out, image);
    put_kernels(out, image);
    put_gemms(out, image);
    put_collectives(out, image);
    put_messages(out, image);
    for (uint32_t i = 0; i < image->func_count; i++)
        put_func(out, image, &image->funcs[i]);
    sc_strbuf_add(out, image->call_count > 0 ? "\nschedule\n" : "");
    put_calls(out, image, image->schedule, image->call_count);
}
