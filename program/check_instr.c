/* sc_image_check: collectives and instructions. */
#include <stdint.h>
#include <string.h>

#include "program/check.h"
#include "program/gemm_blocks.h"
#include "program/lookup.h"

/* ---- collectives ---- */

/* Checks that a group rank is within the group on every rank. */
static bool check_peer(sc_checker *c, const sc_image_terms *terms, uint64_t size)
{
    int64_t least, most;
    if (!sc_check_terms(c, terms, &least, &most))
        return false;
    return (least == 0 && (uint64_t)most < size) ||
           sc_checker_fail(c, "a peer from %lld to %lld in a group of %llu", (long long)least,
                           (long long)most, (unsigned long long)size);
}

/* Checks that each member receives from one member and none sends twice. */
static bool check_sources(sc_checker *c, const sc_image_collective *collective, uint64_t size)
{
    if (collective->source_count != (collective->kind == SC_IMAGE_PERMUTE ? size : 0))
        return sc_checker_fail(c, "%u sources in a group of %llu", collective->source_count,
                               (unsigned long long)size);
    bool *sends = sc_arena_array(c->arena, collective->source_count, sizeof *sends);
    for (uint32_t i = 0; i < collective->source_count; i++) {
        if (collective->sources[i] >= size || sends[collective->sources[i]])
            return sc_checker_fail(
                c, "member %u receives from %u, which is not in the group or sends to another", i,
                collective->sources[i]);
        sends[collective->sources[i]] = true;
    }
    return true;
}

/* A broadcast has a single source. */
static bool check_peers(sc_checker *c, const sc_image_collective *collective)
{
    const sc_image_group *group = &c->image->groups[collective->group];
    uint64_t size = sc_image_group_size(group);
    if (!check_peer(c, &collective->to, size) || !check_peer(c, &collective->from, size))
        return false;
    if (collective->kind == SC_IMAGE_BROADCAST) {
        for (uint32_t i = 0; i < collective->from.count; i++) {
            if (collective->from.terms[i].modulo > 1 && collective->from.terms[i].times != 0)
                return sc_checker_fail(c, "the members of a group broadcast from different ones");
        }
    }
    return check_sources(c, collective, size);
}

bool sc_check_parts(sc_checker *c, uint32_t part_count, const sc_dtype *dtypes,
                    const int64_t *counts, int64_t divisor)
{
    int64_t bytes;
    for (uint32_t p = 0; p < part_count; p++) {
        if (counts[p] < 0 || counts[p] % divisor != 0 ||
            __builtin_mul_overflow(counts[p], (int64_t)sc_dtypes[dtypes[p]].bytes, &bytes))
            return sc_checker_fail(c, "part %u has %lld elements, in a group of %lld", p,
                                   (long long)counts[p], (long long)divisor);
    }
    return part_count > 0 || sc_checker_fail(c, "it has no parts");
}

/* A piece consists of rows of a part. */
static bool check_rows(sc_checker *c, const sc_image_collective *collective, int64_t size)
{
    if (collective->row_count == 0)
        return true;
    if (collective->kind != SC_IMAGE_ALL_TO_ALL || collective->row_count != collective->part_count)
        return sc_checker_fail(c, "rows of %u parts, of %u", collective->row_count,
                               collective->part_count);
    for (uint32_t p = 0; p < collective->row_count; p++) {
        int64_t row = collective->rows[p], fill = collective->fills[p];
        bool may_be_ones = !sc_dtype_is_float(collective->dtypes[p]);
        if (row < 1 || collective->counts[p] / size % row != 0)
            return sc_checker_fail(c, "rows of %lld elements in pieces of %lld", (long long)row,
                                   (long long)(collective->counts[p] / size));
        if (fill != 0 && (fill != -1 || !may_be_ones))
            return sc_checker_fail(c, "rows that are not sent are to be %lld", (long long)fill);
    }
    return true;
}

bool sc_check_collectives(sc_checker *c)
{
    for (uint32_t i = 0; i < c->image->collective_count; i++) {
        const sc_image_collective *collective = &c->image->collectives[i];
        sc_checker_at(c, "collective", i, sc_collectives[collective->kind].name);
        if (collective->group >= c->image->group_count)
            return sc_checker_fail(c, "group %u, of %u", collective->group, c->image->group_count);
        if ((collective->reduce != SC_IMAGE_WHOLE) !=
            sc_collective_has(collective->kind, SC_COLLECTIVE_REDUCES))
            return sc_checker_fail(c, "reduction %s", sc_image_reduce_names[collective->reduce]);
        int64_t size = (int64_t)sc_image_group_size(&c->image->groups[collective->group]);
        bool divides = sc_collective_has(collective->kind, SC_COLLECTIVE_DIVIDES);
        if (!sc_check_parts(c, collective->part_count, collective->dtypes, collective->counts,
                            divides ? size : 1))
            return false;
        if (!check_peers(c, collective) || !check_rows(c, collective, size))
            return false;
    }
    return true;
}

/* ---- accesses of instructions ---- */

/* Checks that `bytes` from the reference on are inside its buffer. */
static bool check_any_ref(sc_checker *c, const sc_image_instr *instr, uint32_t arg, int64_t bytes,
                          uint32_t align, sc_touched *out)
{
    const sc_image_ref *ref = &instr->args[arg];
    if (ref->buffer >= c->image->buffer_count)
        return sc_checker_fail(c, "argument %u is buffer %u, of %u", arg, ref->buffer,
                               c->image->buffer_count);
    const sc_image_buffer *buffer = &c->image->buffers[ref->buffer];
    if (ref->at < 0 || ref->at > buffer->bytes || bytes > buffer->bytes - ref->at)
        return sc_checker_fail(
            c, "argument %u touches %lld bytes at %lld of buffer %u (%s), which has %lld", arg,
            (long long)bytes, (long long)ref->at, ref->buffer, buffer->name,
            (long long)buffer->bytes);
    if (ref->at % align != 0)
        return sc_checker_fail(c, "argument %u is at %lld of buffer %u, inside an element", arg,
                               (long long)ref->at, ref->buffer);
    out->buffer = ref->buffer;
    out->begin = buffer->offset + ref->at;
    out->end = out->begin + bytes;
    out->is_host = buffer->host;
    return true;
}

/* The same for an instruction that accesses device memory only. */
static bool check_ref(sc_checker *c, const sc_image_instr *instr, uint32_t arg, int64_t bytes,
                      uint32_t align, sc_touched *out)
{
    if (!check_any_ref(c, instr, arg, bytes, align, out))
        return false;
    return !out->is_host || sc_checker_fail(c, "argument %u is in the host arena", arg);
}

/* True if two accesses of one call may overlap: in one buffer they are in the same copy, in two
 * they may be in any. */
static bool may_overlap(const sc_image *image, const sc_touched *a, const sc_touched *b)
{
    if (a->buffer == b->buffer ||
        (image->buffers[a->buffer].copies == 1 && image->buffers[b->buffer].copies == 1))
        return sc_touches_overlap(a, b);
    const sc_image_buffer *x = &image->buffers[a->buffer], *y = &image->buffers[b->buffer];
    return a->is_host == b->is_host && x->offset < y->offset + sc_image_buffer_extent(y) &&
           y->offset < x->offset + sc_image_buffer_extent(x);
}

/* Checks that written ranges overlap nothing else. With `in_place` a written range may equal a read
 * one. */
static bool check_apart(sc_checker *c, const sc_touched *args, uint32_t count, bool in_place)
{
    if (c->kept != NULL && count > 0) {
        *c->kept = (sc_touches){count, sc_arena_array(c->arena, count, sizeof *args)};
        memcpy(c->kept->list, args, count * sizeof *args);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const sc_touched *a = &args[i], *b = &args[j];
            bool overlap = may_overlap(c->image, a, b) && (a->is_written || b->is_written);
            if (overlap && !(in_place && a->begin == b->begin && !(a->is_written && b->is_written)))
                return sc_checker_fail(c, "arguments %u and %u overlap", j, i);
        }
    }
    return true;
}

static bool expect_args(sc_checker *c, const sc_image_instr *instr, uint32_t args, uint32_t params)
{
    if (instr->arg_count == args && instr->param_count == params)
        return true;
    return sc_checker_fail(c, "%u arguments and %u parameters, but it takes %u and %u",
                           instr->arg_count, instr->param_count, args, params);
}

static bool check_index(sc_checker *c, const sc_image_instr *instr, uint32_t count,
                        const char *what)
{
    return instr->index < count || sc_checker_fail(c, "%s %u, of %u", what, instr->index, count);
}

/* ---- by kind ---- */

static bool check_kernel(sc_checker *c, const sc_image_instr *instr)
{
    if (!check_index(c, instr, c->image->kernel_count, "kernel"))
        return false;
    const sc_image_kernel *kernel = &c->image->kernels[instr->index];
    if (!expect_args(c, instr, kernel->arg_count, kernel->param_count))
        return false;
    sc_touched *args = sc_arena_array(c->arena, kernel->arg_count, sizeof *args);
    for (uint32_t i = 0; i < kernel->arg_count; i++) {
        args[i].is_written = kernel->args[i].access != SC_ACCESS_IN;
        if (!check_ref(c, instr, i, kernel->args[i].bytes, 1, &args[i]))
            return false;
    }
    for (uint32_t i = 0; i < instr->param_count; i++) {
        int64_t least, most;
        if (!sc_check_terms(c, &instr->params[i].terms, &least, &most))
            return false;
    }
    return check_apart(c, args, kernel->arg_count, true);
}

/* Operands: a, b and c, the tensors of the epilogue, scratch if needed. */
static bool check_gemm(sc_checker *c, const sc_image_instr *instr)
{
    sc_touched args[SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS + 1] = {
        [SC_GEMM_C] = {.is_written = true}};
    uint32_t count = SC_GEMM_OPERANDS;
    if (!check_index(c, instr, c->image->gemm_count, "gemm"))
        return false;
    const sc_gemm *gemm = &c->image->gemms[instr->index];
    int64_t scratch = sc_image_gemm_scratch(c->image->target, gemm);
    for (uint32_t s = 0; s < gemm->step_count; s++)
        count += sc_gemm_step_has_tensor(gemm->steps[s].kind);
    if (!expect_args(c, instr, count + (scratch > 0), 0))
        return false;
    for (uint32_t o = 0; o < SC_GEMM_OPERANDS; o++) {
        uint32_t bytes = sc_dtypes[gemm->dtypes[o]].bytes;
        if (!check_ref(c, instr, o, sc_gemm_extent(gemm, (sc_gemm_operand)o) * bytes, bytes,
                       &args[o]))
            return false;
    }
    for (uint32_t s = 0, at = SC_GEMM_OPERANDS; s < gemm->step_count; s++) {
        uint32_t bytes = sc_dtypes[gemm->steps[s].dtype].bytes;
        if (!sc_gemm_step_has_tensor(gemm->steps[s].kind))
            continue;
        if (!check_ref(c, instr, at, sc_gemm_step_extent(gemm, s) * bytes, bytes, &args[at]))
            return false;
        args[at++].is_written = sc_gemm_step_writes(gemm->steps[s].kind);
    }
    args[count].is_written = true;
    if (scratch > 0 && !check_ref(c, instr, count, scratch, SC_IMAGE_ALIGN, &args[count]))
        return false;
    return check_apart(c, args, instr->arg_count, false);
}

static bool check_collective(sc_checker *c, const sc_image_instr *instr)
{
    if (!check_index(c, instr, c->image->collective_count, "collective"))
        return false;
    const sc_image_collective *collective = &c->image->collectives[instr->index];
    bool gives = collective->kind != SC_IMAGE_RECV, gets = collective->kind != SC_IMAGE_SEND;
    if (collective->part_count > (UINT32_MAX - 2) / 2 ||
        !expect_args(c, instr,
                     collective->part_count * (gives + gets) + (collective->row_count > 0 ? 2 : 0),
                     0))
        return false;
    sc_touched *args = sc_arena_array(c->arena, instr->arg_count, sizeof *args);
    for (uint32_t p = 0, at = 0; p < collective->part_count; p++) {
        uint32_t bytes = sc_dtypes[collective->dtypes[p]].bytes;
        if (gives &&
            !check_ref(c, instr, at, sc_image_source_count(c->image, collective, p) * bytes, bytes,
                       &args[at]))
            return false;
        at += gives;
        if (gets &&
            !check_ref(c, instr, at, sc_image_destination_count(c->image, collective, p) * bytes,
                       bytes, &args[at]))
            return false;
        if (gets)
            args[at++].is_written = true;
    }
    const int64_t members = (int64_t)sc_image_group_size(&c->image->groups[collective->group]);
    for (uint32_t at = instr->arg_count - (collective->row_count > 0 ? 2 : 0);
         at < instr->arg_count; at++) {
        if (!check_ref(c, instr, at, members * (int64_t)sizeof(int32_t), sizeof(int32_t),
                       &args[at]))
            return false;
    }
    return check_apart(c, args, instr->arg_count,
                       collective->kind == SC_IMAGE_ALL_REDUCE ||
                           collective->kind == SC_IMAGE_BROADCAST);
}

static bool check_copy(sc_checker *c, const sc_image_instr *instr)
{
    sc_touched args[2] = {{0}, {.is_written = true}};
    if (!expect_args(c, instr, 2, 0) || !check_ref(c, instr, 0, 0, 1, &args[0]) ||
        !check_ref(c, instr, 1, 0, 1, &args[1]))
        return false;
    int64_t bytes = sc_image_copy_bytes(c->image, &instr->args[0]);
    return check_ref(c, instr, 0, bytes, 1, &args[0]) &&
           check_ref(c, instr, 1, bytes, 1, &args[1]) && check_apart(c, args, 2, false);
}

/* Each part has one end in each arena, and the bytes of its buffer in the host arena. */
static bool check_transfer(sc_checker *c, const sc_image_instr *instr)
{
    const sc_image *image = c->image;
    if (instr->arg_count == 0 || instr->arg_count % 2 != 0)
        return sc_checker_fail(c, "a transfer of %u arguments", instr->arg_count);
    sc_touched *args = sc_arena_array(c->arena, instr->arg_count, sizeof *args);
    for (uint32_t i = 0; i < instr->arg_count; i += 2) {
        if (!expect_args(c, instr, instr->arg_count, 0) ||
            !check_any_ref(c, instr, i, 0, 1, &args[i]) ||
            !check_any_ref(c, instr, i + 1, 0, 1, &args[i + 1]))
            return false;
        uint32_t host = args[i].is_host ? i : i + 1;
        int64_t bytes = image->buffers[instr->args[host].buffer].bytes;
        if (args[i].is_host == args[i + 1].is_host || instr->args[host].at != 0)
            return sc_checker_fail(c,
                                   "part %u is not between a buffer of the host arena and one of "
                                   "the device's",
                                   i / 2);
        args[i + 1].is_written = true;
        if (!check_any_ref(c, instr, i, bytes, 1, &args[i]) ||
            !check_any_ref(c, instr, i + 1, bytes, 1, &args[i + 1]))
            return false;
    }
    return check_apart(c, args, instr->arg_count, false);
}

/* `is_open`: by instruction, a collective or transfer that was started and is not finished. */
static bool check_finish(sc_checker *c, const sc_image_func *func, const sc_image_instr *instr,
                         bool *is_open)
{
    if (!expect_args(c, instr, 0, 0))
        return false;
    if (instr->index >= func->instr_count || !is_open[instr->index])
        return sc_checker_fail(
            c, "it waits for instruction %u, which is not a collective or transfer in flight",
            instr->index);
    is_open[instr->index] = false;
    if (c->kept != NULL)
        *c->kept = c->touches[func - c->image->funcs][instr->index];
    return true;
}

static bool check_message(sc_checker *c, const sc_image_instr *instr)
{
    if (!check_index(c, instr, c->image->message_count, "message"))
        return false;
    const sc_image_message *message = &c->image->messages[instr->index];
    bool is_receive = c->image->boundaries[message->boundary].is_receive;
    if (!expect_args(c, instr, message->part_count, 0))
        return false;
    sc_touched *args = sc_arena_array(c->arena, instr->arg_count, sizeof *args);
    for (uint32_t p = 0; p < message->part_count; p++) {
        uint32_t bytes = sc_dtypes[message->dtypes[p]].bytes;
        args[p].is_written = is_receive;
        if (!check_ref(c, instr, p, message->counts[p] * bytes, bytes, &args[p]))
            return false;
    }
    return check_apart(c, args, instr->arg_count, false);
}

/* What may be accessed after a wait: nothing of it is accessed here. */
static bool check_wait(sc_checker *c, const sc_image_instr *instr)
{
    sc_touched unused = {0};
    if (!check_index(c, instr, c->image->boundary_count, "boundary") ||
        !expect_args(c, instr, instr->arg_count, 0))
        return false;
    if (instr->kind == SC_INSTR_ROOM && c->image->boundaries[instr->index].is_receive)
        return sc_checker_fail(c, "it waits for room on boundary %u, which receives", instr->index);
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (!check_ref(c, instr, a, 0, 1, &unused))
            return false;
    }
    return true;
}

static bool is_written_by(const sc_image_instr *product, const sc_gemm *gemm,
                          const sc_image_ref *ref)
{
    bool found =
        product->args[SC_GEMM_C].buffer == ref->buffer && product->args[SC_GEMM_C].at == ref->at;
    for (uint32_t s = 0, at = SC_GEMM_OPERANDS; s < gemm->step_count; s++) {
        bool same = product->args[at].buffer == ref->buffer && product->args[at].at == ref->at;
        found = found || (sc_gemm_step_writes(gemm->steps[s].kind) && same);
        at += sc_gemm_step_has_tensor(gemm->steps[s].kind);
    }
    return found;
}

/* Checks that the fallback for a matmul writes nothing else. `product`: NULL if no matmul precedes
 * it. */
static bool check_instead(sc_checker *c, const sc_image_instr *instr, const sc_image_instr *product)
{
    if (product == NULL || instr->stream != 0 ||
        (instr->kind != SC_INSTR_KERNEL && instr->kind != SC_INSTR_GEMM))
        return sc_checker_fail(c, "it replaces no matmul");
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        bool is_read = instr->kind == SC_INSTR_KERNEL
                           ? c->image->kernels[instr->index].args[a].access == SC_ACCESS_IN
                           : a != SC_GEMM_C;
        bool is_workspace = c->image->buffers[instr->args[a].buffer].kind == SC_BUFFER_WORKSPACE;
        if (!is_read && !is_workspace &&
            !is_written_by(product, &c->image->gemms[product->index], &instr->args[a]))
            return sc_checker_fail(c, "argument %u is not what the matmul that it replaces writes",
                                   a);
    }
    if (instr->kind == SC_INSTR_GEMM &&
        c->image->gemms[instr->index].step_count > c->image->gemms[product->index].step_count)
        return sc_checker_fail(c, "it does more than the matmul that it replaces");
    return true;
}

static bool check_instr(sc_checker *c, const sc_image_func *func, uint32_t index, bool *is_open)
{
    const sc_image_instr *instr = &func->instrs[index];
    if (instr->stream >= SC_IMAGE_STREAMS)
        return sc_checker_fail(c, "stream %u, of %d", instr->stream, SC_IMAGE_STREAMS);
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return check_kernel(c, instr);
    case SC_INSTR_GEMM:
        return check_gemm(c, instr);
    case SC_INSTR_COLLECTIVE:
        is_open[index] = true;
        return check_collective(c, instr);
    case SC_INSTR_FINISH:
        return check_finish(c, func, instr, is_open);
    case SC_INSTR_TRANSFER:
        is_open[index] = true;
        return check_transfer(c, instr);
    case SC_INSTR_COPY:
        return check_copy(c, instr);
    case SC_INSTR_MESSAGE:
        return check_message(c, instr);
    case SC_INSTR_WAIT:
    case SC_INSTR_ROOM:
        return check_wait(c, instr);
    default:
        return sc_checker_fail(c, "kind %u", (unsigned)instr->kind);
    }
}

bool sc_check_instrs(sc_checker *c, const sc_image_func *func)
{
    bool *is_open = sc_arena_array(c->arena, func->instr_count, sizeof *is_open);
    const char *what = sc_arena_printf(c->arena, "function '%s', instruction", func->name);
    const sc_image_instr *product = NULL;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        sc_checker_at(c, what, i, instr->where);
        c->kept = c->touches == NULL ? NULL : &c->touches[func - c->image->funcs][i];
        if (!check_instr(c, func, i, is_open) ||
            (instr->instead && !check_instead(c, instr, product)))
            return false;
        product = instr->kind == SC_INSTR_GEMM && !instr->instead ? instr : product;
    }
    c->kept = NULL;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        sc_checker_at(c, what, i, func->instrs[i].where);
        if (is_open[i])
            return sc_checker_fail(c, "no instruction waits for it");
    }
    return true;
}
