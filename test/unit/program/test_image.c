/* Compiled programs as bytes: what is written reads back the same, and nothing else reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/bytes.h"
#include "program/lookup.h"
#include "support/strbuf.h"
#include "test/unit/helpers/image_case.h"

enum { HEADER = 44, CODE = 5 + 14 /* CPU and object */ };

/* A train step of w[D, H] on a mesh of dp * tp ranks: something of every kind. */
static sc_image *make_image(image_case *c, uint64_t dp, uint64_t tp)
{
    image_begin(c, dp, tp);
    int64_t b = (int64_t)(6 + dp - 1) / (int64_t)dp, h = (int64_t)(10 + tp - 1) / (int64_t)tp;
    uint32_t w = image_state(c, SC_STATE_PARAM, "layers[0].w", "bf16[D=8, H=10@tp]", SC_INIT_NORMAL,
                             0.02, 0);
    image_state(c, SC_STATE_OPT, "layers[0].w.master", "f32[D=8@dp, H=10@tp]", SC_INIT_ZEROS, 0, 0);
    c->states.data[0].master = 1;
    uint32_t sum = image_state(c, SC_STATE_SUM, "total", "f32[] sum@dp", SC_INIT_ZEROS, 0, 0);
    uint32_t world = image_group(c, "dp", "tp"), over_tp = image_group(c, "tp", NULL);
    uint32_t all = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, world, SC_DTYPE_f32, 1);
    uint32_t gather = image_collective(c, SC_IMAGE_ALL_GATHER, SC_IMAGE_WHOLE, over_tp,
                                       SC_DTYPE_f32, b * h * (int64_t)tp);
    uint32_t keep =
        image_collective(c, SC_IMAGE_PERMUTE, SC_IMAGE_WHOLE, over_tp, SC_DTYPE_f32, b * h);
    sc_image_collective *kept = &c->collectives.data[keep];
    kept->source_count = (uint32_t)tp;
    kept->sources = sc_arena_array(&c->arena, tp, sizeof *kept->sources);
    for (uint32_t i = 0; i < tp; i++)
        kept->sources[i] = (i + 1) % (uint32_t)tp;
    int64_t bytes[] = {b * 8 * 4, 16 * h, 8 * h * 4};
    uint32_t widen = image_kernel(c, "k0_widen", "iio", bytes, 3, "an index is out of range");
    uint32_t x = image_input(c, "x", "f32[B=6@dp, D=8]", 0);
    uint32_t wide = image_buffer(c, SC_BUFFER_ACT, 8 * h * 4, "wide"),
             y = image_buffer(c, SC_BUFFER_ACT, b * h * 4, "y");
    uint32_t whole = image_buffer(c, SC_BUFFER_COMM, b * h * (int64_t)tp * 4, "whole");
    image_instr(c, SC_INSTR_KERNEL, widen, 3, (uint32_t[]){x, w, wide});
    image_param(c, (sc_image_param){.kind = SC_PARAM_RANK, .terms = image_terms(c, "tp", -5)});
    image_param(c, (sc_image_param){.kind = SC_PARAM_KEY, .path_hash = 0xfedcba9876543210u});
    image_param(c, (sc_image_param){.kind = SC_PARAM_STEP});
    image_multiply(c, b, h, 8, x, wide, y);
    image_move(c, gather, y, whole);
    image_move(c, keep, y, image_buffer(c, SC_BUFFER_COMM, b * h * 4, "kept"));
    image_output(c, "y", "f32[B=6@dp, H=10@tp]", y);
    uint32_t micro = image_func(c, "micro");
    image_instr(c, SC_INSTR_COPY, 0, 2,
                (uint32_t[]){sum, image_buffer(c, SC_BUFFER_WORKSPACE, 4, "copy")});
    image_move(c, all, sum, sum);
    uint32_t update = image_func(c, "update");
    image_call(c, micro, 0);
    image_call(c, micro, 1);
    image_call(c, update, -1);
    sc_image *image = image_end(c);
    image->object = (const uint8_t *)"\177ELF and so on";
    image->object_bytes = 14;
    image->cpu = "some";
    return image;
}

static sc_strbuf bytes_of(sc_arena *arena, const sc_image *image)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    sc_image_write(image, &out);
    return out;
}

static const char *dump_of(sc_arena *arena, const sc_image *image)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    sc_image_dump(image, &out);
    return out.data;
}

/* The header's hash of what the body is now. */
static void seal(sc_strbuf *bytes, size_t code)
{
    uint64_t hash = sc_fnv1a64(bytes->data + HEADER, bytes->length - HEADER - code);
    for (int i = 0; i < 8; i++)
        bytes->data[20 + i] = (char)(hash >> 8 * i);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    for (uint64_t dp = 1; dp <= 4; dp++) {
        for (uint64_t tp = 1; tp <= 5; tp++) {
            image_case c;
            shardc_error error = {0};
            sc_image *image = make_image(&c, dp, tp);
            assert_null(sc_image_check(image, &c.arena));
            sc_strbuf first = bytes_of(&c.arena, image);
            sc_image *read = sc_image_read(first.data, first.length, &c.arena, &error);
            assert_string_equal(error.text, "");
            assert_non_null(read);
            sc_strbuf second = bytes_of(&c.arena, read);
            assert_int_equal(first.length, second.length);
            assert_memory_equal(first.data, second.data, first.length);
            assert_string_equal(dump_of(&c.arena, image), dump_of(&c.arena, read));
            assert_string_equal(read->cpu, "some");
            assert_int_equal(read->object_bytes, 14);
            assert_memory_equal(read->object, image->object, 14);
            assert_true(read->hash != 0);
            sc_arena_free(&c.arena);
        }
    }
}

/* Apart from the object: a part of it cannot be told from another object. */
static void every_part_is_refused(void **state)
{
    (void)state;
    image_case c;
    sc_strbuf bytes = bytes_of(&c.arena, make_image(&c, 2, 2));
    for (size_t size = 0; size < bytes.length; size++) {
        shardc_error error = {0};
        char *part = malloc(size + 1); /* of its own, so that a sanitizer sees who reads on */
        memcpy(part, bytes.data, size);
        assert_null(sc_image_read(part, size, &c.arena, &error));
        assert_int_equal(error.status, SHARDC_ERROR_DATA);
        assert_true(strlen(error.text) > 0);
        free(part);
    }
    sc_arena_free(&c.arena);
}

/* Also where lengths and hashes are those of the part: the body itself ends too early. */
static void every_part_of_the_body_is_refused(void **state)
{
    (void)state;
    image_case c;
    sc_image *image = make_image(&c, 2, 2);
    image->object_bytes = 0;
    image->cpu = "";
    sc_strbuf bytes = bytes_of(&c.arena, image);
    size_t whole = bytes.length;
    for (bytes.length = HEADER + 1; bytes.length < whole; bytes.length++) {
        shardc_error error = {0};
        size_t body = bytes.length - HEADER - 1;
        char byte = bytes.data[HEADER + body];
        for (int i = 0; i < 8; i++)
            bytes.data[12 + i] = (char)(body >> 8 * i);
        bytes.data[HEADER + body] = 0; /* the code: of no CPU */
        seal(&bytes, 1);
        assert_null(sc_image_read(bytes.data, bytes.length, &c.arena, &error));
        assert_int_equal(error.status, SHARDC_ERROR_DATA);
        assert_non_null(strstr(error.text, "byte "));
        bytes.data[HEADER + body] = byte;
    }
    sc_arena_free(&c.arena);
}

static void a_changed_bit_is_seen(void **state)
{
    (void)state;
    image_case c;
    sc_strbuf bytes = bytes_of(&c.arena, make_image(&c, 2, 2));
    for (size_t bit = 0; bit < bytes.length * 8; bit++) {
        shardc_error error = {0};
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
        assert_null(sc_image_read(bytes.data, bytes.length, &c.arena, &error));
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
    }
    sc_arena_free(&c.arena);
}

/* Whatever a body says under a right hash: refused, or an image whose bytes are these. */
static void there_is_one_way_to_write(void **state)
{
    (void)state;
    image_case c;
    uint32_t read_count = 0;
    sc_strbuf bytes = bytes_of(&c.arena, make_image(&c, 2, 2));
    for (size_t bit = HEADER * 8; bit < (bytes.length - CODE) * 8; bit++) {
        shardc_error error = {0};
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
        seal(&bytes, CODE);
        sc_arena arena;
        sc_arena_init(&arena, image_no_memory, NULL);
        sc_image *image = sc_image_read(bytes.data, bytes.length, &arena, &error);
        if (image != NULL) {
            sc_strbuf again = bytes_of(&arena, image);
            assert_int_equal(again.length, bytes.length);
            assert_memory_equal(again.data, bytes.data, bytes.length);
            assert_non_null(dump_of(&arena, image));
            read_count++;
        }
        sc_arena_free(&arena);
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
    }
    assert_true(read_count > 100); /* names, sizes of kernels' arguments, .. */
    sc_arena_free(&c.arena);
}

/* ---- sc_image_check ---- */

typedef struct fault_case {
    void (*spoil)(image_case *c);
    const char *message;
} fault_case;

static sc_image_instr *instr(image_case *c, uint32_t func, uint32_t index)
{
    return &c->funcs.data[func].instrs[index];
}

static void give_stage(image_case *c, sc_image_stage stage)
{
    sc_image_kernel *kernel = &c->kernels.data[0];
    kernel->stages = sc_arena_array(&c->arena, 1, sizeof stage);
    kernel->stages[0] = stage;
    kernel->stage_count = 1;
}

/* The product gets a step with a tensor that lies as its result does. */
static void give_step(image_case *c, sc_gemm_step_kind kind, sc_image_ref tensor)
{
    sc_gemm *gemm = &c->gemms.data[0];
    sc_image_instr *product = instr(c, 0, 1);
    sc_image_ref *args = sc_arena_array(&c->arena, 5, sizeof *args);
    gemm->step_count = 1;
    gemm->steps[0] = (sc_gemm_step){.kind = kind, .dtype = gemm->dtypes[SC_GEMM_C]};
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        gemm->steps[0].strides[i] = gemm->dims[i].strides[SC_GEMM_C];
    memcpy(args, product->args, 3 * sizeof *args);
    args[3] = tensor;
    args[4] = product->args[3];
    product->args = args;
    product->arg_count = 5;
}

/* Behind all others: the product again, in its own stead. */
static sc_image_instr *stand_in(image_case *c)
{
    sc_image_func *func = &c->funcs.data[0];
    uint32_t count = func->instr_count, arg_count = func->instrs[1].arg_count;
    sc_image_instr *instrs = sc_arena_array(&c->arena, count + 1, sizeof *instrs);
    memcpy(instrs, func->instrs, count * sizeof *instrs);
    instrs[count] = instrs[1];
    instrs[count].instead = true;
    instrs[count].args = sc_arena_array(&c->arena, arg_count, sizeof *instrs->args);
    memcpy(instrs[count].args, instrs[1].args, arg_count * sizeof *instrs->args);
    func->instrs = instrs;
    func->instr_count = count + 1;
    return &instrs[count];
}

#define SPOIL(name, statement)                                                                     \
    static void name(image_case *c)                                                                \
    {                                                                                              \
        statement;                                                                                 \
    }
SPOIL(buffer_outside, c->buffers.data[1].offset = c->image.arena_bytes)
SPOIL(buffer_negative, c->buffers.data[1].bytes = -1)
SPOIL(buffer_overflows, c->buffers.data[1].bytes = INT64_MAX)
SPOIL(buffer_askew, c->buffers.data[1].offset += 8)
SPOIL(ranks_differ, c->image.ranks = 3)
SPOIL(axis_of_nothing, c->axes[0].size = 0)
SPOIL(states_meet, c->buffers.data[1].offset = c->buffers.data[0].offset)
SPOIL(paths_meet, c->states.data[1].path = c->states.data[0].path)
SPOIL(state_in_act, c->buffers.data[0].kind = SC_BUFFER_ACT)
SPOIL(state_too_large,
      c->states.data[0].tensor.dims[0].size = c->states.data[0].tensor.dims[0].local = 9)
SPOIL(master_of_another, c->states.data[0].master = 2)
SPOIL(master_beyond, c->states.data[0].master = 3)
SPOIL(size_overflows,
      c->states.data[0].tensor.dims[0].size = c->states.data[0].tensor.dims[0].local = INT64_MAX)
SPOIL(shards_leave_a_gap, c->states.data[0].tensor.dims[1].first.terms[0].times = 6)
SPOIL(shards_end_early, c->states.data[0].tensor.dims[1].size = 11)
SPOIL(digit_of_no_axis, c->states.data[0].tensor.dims[1].first.terms[0].modulo = 3)
SPOIL(digit_of_zero, c->states.data[0].tensor.dims[1].first.terms[0].divide = 0)
SPOIL(digit_twice, c->states.data[0].tensor.replica = c->states.data[0].tensor.dims[1].first)
SPOIL(digit_forgotten, c->states.data[0].tensor.replica.count = 0)
SPOIL(replica_backwards, c->states.data[0].tensor.replica.terms[0].times = -1)
SPOIL(part_of_nothing, c->states.data[2].tensor.partial = SC_IMAGE_WHOLE)
SPOIL(no_symbol, c->kernels.data[0].symbol = "a b")
SPOIL(stages_on_a_cpu, give_stage(c, (sc_image_stage){1, 32, 0}))
SPOIL(no_stages_on_a_gpu, c->image.target = "cuda:sm_80")
SPOIL(half_a_warp, give_stage(c, (sc_image_stage){1, 48, 0}); c->image.target = "cuda:sm_80")
SPOIL(no_blocks, give_stage(c, (sc_image_stage){0, 32, 0}); c->image.target = "cuda:sm_80")
SPOIL(gemm_broken, c->gemms.data[0].dims[0].size = -2)
SPOIL(group_twice, c->groups.data[0].digits[1] = c->groups.data[0].digits[0])
SPOIL(no_group, c->collectives.data[0].group = 2)
SPOIL(no_reduction, c->collectives.data[0].reduce = SC_IMAGE_WHOLE)
SPOIL(gather_reduces, c->collectives.data[1].reduce = SC_IMAGE_SUM)
SPOIL(gather_indivisible, c->collectives.data[1].counts[0]--)
SPOIL(gather_negative, c->collectives.data[1].counts[0] = -4)
SPOIL(permute_twice, c->collectives.data[2].sources[0] = 0)
SPOIL(permute_short, c->collectives.data[2].source_count = 1)
SPOIL(permute_beyond, c->collectives.data[2].sources[0] = 2)
SPOIL(peer_beyond, c->collectives.data[0].from = image_terms(c, "tp", 4))
SPOIL(gather_with_sources, c->collectives.data[1].source_count = 1;
      c->collectives.data[1].sources = c->collectives.data[2].sources)
SPOIL(no_parts, c->collectives.data[0].part_count = 0)
SPOIL(kernel_beyond, instr(c, 0, 0)->index = 1)
SPOIL(argument_missing, instr(c, 0, 0)->arg_count = 2)
SPOIL(parameter_missing, instr(c, 0, 0)->param_count = 2)
SPOIL(argument_of_no_buffer, instr(c, 0, 0)->args[1].buffer = 99)
SPOIL(argument_before, instr(c, 0, 0)->args[1].at = -4)
SPOIL(argument_beyond, instr(c, 0, 0)->args[1].at = 4)
SPOIL(arguments_meet, instr(c, 0, 0)->args[2] = instr(c, 0, 1)->args[2];
      c->kernels.data[0].args[2].bytes = 8;
      c->buffers.data[instr(c, 0, 1)->args[2].buffer].offset =
          c->buffers.data[instr(c, 0, 0)->args[0].buffer].offset - 64;
      c->buffers.data[instr(c, 0, 1)->args[2].buffer].bytes = 200;
      c->kernels.data[0].args[2].bytes = 100)
SPOIL(parameter_of_no_digit, instr(c, 0, 0)->params[0].terms.terms[0].divide = 3)
SPOIL(parameter_overflows,
      instr(c, 0, 0)->params[0].terms.terms[0] = ((sc_image_term){1, 4, INT64_MAX, 0}))
SPOIL(product_too_large, c->gemms.data[0].dims[0].size++)
SPOIL(product_in_place, instr(c, 0, 1)->args[2] = instr(c, 0, 1)->args[0])
SPOIL(product_without_scratch, instr(c, 0, 1)->arg_count = 3)
SPOIL(product_askew, instr(c, 0, 1)->args[1].at = 2)
SPOIL(step_over_operand, give_step(c, SC_GEMM_STORE, instr(c, 0, 1)->args[0]))
SPOIL(step_over_result, give_step(c, SC_GEMM_STORE, instr(c, 0, 1)->args[2]))
SPOIL(step_of_result, give_step(c, SC_GEMM_GELU_GRAD, instr(c, 0, 1)->args[2]))
SPOIL(step_beyond, give_step(c, SC_GEMM_STORE, (sc_image_ref){instr(c, 0, 1)->args[2].buffer, 4}))
SPOIL(step_in_one_place, give_step(c, SC_GEMM_STORE, instr(c, 0, 1)->args[2]);
      c->gemms.data[0].steps[0].strides[0] = 0)
SPOIL(instead_of_nothing, instr(c, 0, 0)->instead = true)
SPOIL(instead_by_itself, instr(c, 0, 1)->instead = true)
SPOIL(instead_by_moving, instr(c, 0, 2)->instead = true)
SPOIL(instead_on_another_stream, stand_in(c)->stream = 1)
SPOIL(instead_elsewhere, stand_in(c)->args[2] = instr(c, 0, 2)->args[1])
SPOIL(instead_with_more, *sc_vec_push(&c->arena, &c->gemms) = c->gemms.data[0];
      c->gemms.data[1].steps[c->gemms.data[1].step_count++].kind = SC_GEMM_RELU;
      c->image.gemms = c->gemms.data; c->image.gemm_count = 2; stand_in(c)->index = 1)
SPOIL(gather_too_small, c->buffers.data[instr(c, 0, 2)->args[1].buffer].bytes--)
SPOIL(gather_in_place, instr(c, 0, 2)->args[0] = instr(c, 0, 2)->args[1])
SPOIL(finish_of_nothing, instr(c, 0, 3)->index = 1)
SPOIL(finish_of_later, instr(c, 0, 3)->index = 4)
SPOIL(finish_twice, instr(c, 0, 5)->index = 2)
SPOIL(finish_never, c->funcs.data[0].instr_count = 5)
SPOIL(stream_beyond, instr(c, 0, 0)->stream = 3)
SPOIL(copy_too_large, c->buffers.data[instr(c, 1, 0)->args[1].buffer].bytes = 3)
SPOIL(input_batch_beyond, c->funcs.data[0].inputs[0].batch_dim = 2)
SPOIL(output_batch, c->funcs.data[0].outputs[0].batch_dim = 0)
SPOIL(input_partial, c->funcs.data[0].inputs[0].tensor.partial = SC_IMAGE_SUM)
SPOIL(functions_meet, c->funcs.data[1].name = "micro")
SPOIL(call_beyond, c->schedule.data[0].func = 2)
SPOIL(call_before, c->schedule.data[0].micro_batch = -2)
SPOIL(no_target, c->image.target = "")
SPOIL(nvrtc_of_cpu, c->image.nvrtc = 13000)

static const fault_case faults[] = {
    {buffer_outside, "buffer 1 (layers[0].w.master): 80 bytes at"},
    {buffer_negative, "buffer 1 (layers[0].w.master): -1 bytes"},
    {buffer_overflows, "buffer 1 (layers[0].w.master): 9223372036854775807 bytes"},
    {buffer_askew, "buffer 1 (layers[0].w.master): 80 bytes at"},
    {ranks_differ, "3 ranks, but axes of 4"},
    {axis_of_nothing, "axis 0 (dp): size 0"},
    {states_meet, "it is in the same place as layers[0].w"},
    {paths_meet, "state 1 (layers[0].w): it has no path, or that of another state"},
    {state_in_act, "state 0 (layers[0].w): its buffer is of kind act"},
    {state_too_large, "state 0 (layers[0].w): 90 bytes in buffer 0 of 80"},
    {master_of_another, "its master, total, is of another shape"},
    {master_beyond, "its master is state 3, of 3"},
    {size_overflows, "its size overflows"},
    {shards_leave_a_gap, "the shards of dim H do not cover it"},
    {shards_end_early, "the shards of dim H do not cover it"},
    {digit_of_no_axis, "(rank / 1) % 3 is no digit of 4 ranks"},
    {digit_of_zero, "(rank / 0) % 2 is no digit of 4 ranks"},
    {digit_twice, "a digit of the rank has two meanings"},
    {digit_forgotten, "digits of 2 of 4 ranks are given a meaning"},
    {replica_backwards, "a replica or part counts by -1"},
    {part_of_nothing, "state 2 (total): it has parts, but no reduction is partial"},
    {no_symbol, "kernel 0 (a b): its symbol is not a name"},
    {stages_on_a_cpu, "kernel 0 (k0_widen): it has 1 stages, for target cpu"},
    {no_stages_on_a_gpu, "kernel 0 (k0_widen): it has 0 stages, for target cuda:sm_80"},
    {half_a_warp, "kernel 0 (k0_widen): stage 0: 1 blocks of 48 threads"},
    {no_blocks, "kernel 0 (k0_widen): stage 0: 0 blocks of 32 threads"},
    {gemm_broken, "gemm 0: "},
    {group_twice, "group 0 (dp): its digits are not of different axes"},
    {no_group, "collective 0 (all_reduce): group 2, of 2"},
    {no_reduction, "collective 0 (all_reduce): reduction whole"},
    {gather_reduces, "collective 1 (all_gather): reduction sum"},
    {gather_indivisible, "collective 1 (all_gather): part 0 has 29 elements, in a group of 2"},
    {gather_negative, "collective 1 (all_gather): part 0 has -4 elements"},
    {permute_twice, "member 1 receives from 0, which is not in the group or sends to another"},
    {permute_short, "1 sources in a group of 2"},
    {peer_beyond, "a peer from 0 to 4 in a group of 4"},
    {gather_with_sources, "1 sources in a group of 2"},
    {permute_beyond, "member 0 receives from 2, which is not in the group"},
    {no_parts, "collective 0 (all_reduce): it has no parts"},
    {kernel_beyond, "function 'micro', instruction 0 (layers[0]): kernel 1, of 1"},
    {argument_missing, "2 arguments and 3 parameters, but it takes 3 and 3"},
    {parameter_missing, "3 arguments and 2 parameters, but it takes 3 and 3"},
    {argument_of_no_buffer, "argument 1 is buffer 99, of "},
    {argument_before, "argument 1 touches 80 bytes at -4"},
    {argument_beyond, "argument 1 touches 80 bytes at 4"},
    {arguments_meet, "arguments 0 and 2 overlap"},
    {parameter_of_no_digit, "(rank / 3) % 2 is no digit"},
    {parameter_overflows, "a number that depends on the rank overflows"},
    {product_too_large, "instruction 1 (layers[0]): argument 0 touches 128 bytes at 0"},
    {product_in_place, "instruction 1 (layers[0]): arguments 0 and 2 overlap"},
    {product_without_scratch, "3 arguments and 0 parameters, but it takes 4 and 0"},
    {product_askew, "instruction 1 (layers[0]): argument 1 touches"},
    {step_over_operand, "arguments 0 and 3 overlap"},
    {step_over_result, "arguments 2 and 3 overlap"},
    {step_of_result, "arguments 2 and 3 overlap"},
    {step_beyond, "instruction 1 (layers[0]): argument 3 touches"},
    {step_in_one_place, "gemm 0: two elements that a step stores have the same address"},
    {instead_of_nothing, "instruction 0 (layers[0]): it replaces no matmul"},
    {instead_by_itself, "instruction 1 (layers[0]): it replaces no matmul"},
    {instead_by_moving, "instruction 2 (layers[0]): it replaces no matmul"},
    {instead_on_another_stream, "it replaces no matmul"},
    {instead_elsewhere, "argument 2 is not what the matmul that it replaces writes"},
    {instead_with_more, "it does more than the matmul that it replaces"},
    {gather_too_small, "instruction 2 (layers[0]): argument 1 touches 120 bytes at 0"},
    {gather_in_place, "instruction 2 (layers[0]): arguments 0 and 1 overlap"},
    {finish_of_nothing,
     "it waits for instruction 1, which is not a collective or transfer in flight"},
    {finish_of_later,
     "it waits for instruction 4, which is not a collective or transfer in flight"},
    {finish_twice, "it waits for instruction 2, which is not a collective or transfer in flight"},
    {finish_never, "instruction 4 (layers[0]): no instruction waits for it"},
    {stream_beyond, "stream 3, of 3"},
    {copy_too_large, "function 'update', instruction 0 (layers[0]): argument 1 touches 4 bytes"},
    {input_batch_beyond, "function 'micro', input 0 (x): batch dim 2, of 2"},
    {output_batch, "function 'micro', output 0 (y): batch dim 0"},
    {input_partial, "function 'micro', input 0 (x): a reduction is partial"},
    {functions_meet, "function 1 (micro): it has no name, or that of another"},
    {call_beyond, "call 0: of function 2, of 2"},
    {call_before, "call 0: of function 0, of 2, for micro-batch -2"},
    {no_target, "it has no target"},
    {nvrtc_of_cpu, "it is for the CPU, and NVRTC compiled it"},
};

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        image_case c;
        shardc_error error = {0};
        sc_image *image = make_image(&c, 2, 2);
        faults[i].spoil(&c);
        const char *fault = sc_image_check(image, &c.arena);
        if (fault == NULL || strstr(fault, faults[i].message) == NULL)
            fail_msg("'%s', not '%s'", fault == NULL ? "nothing" : fault, faults[i].message);
        sc_strbuf bytes = bytes_of(&c.arena, image);
        assert_null(sc_image_read(bytes.data, bytes.length, &c.arena, &error));
        assert_non_null(strstr(error.text, faults[i].message));
        sc_arena_free(&c.arena);
    }
}

static void a_product_may_have_a_stand_in(void **state)
{
    (void)state;
    image_case c;
    shardc_error error = {0};
    sc_image *image = make_image(&c, 2, 2);
    stand_in(&c);
    assert_null(sc_image_check(image, &c.arena));
    sc_strbuf bytes = bytes_of(&c.arena, image);
    const sc_image *again = sc_image_read(bytes.data, bytes.length, &c.arena, &error);
    assert_non_null(again);
    assert_true(again->funcs[0].instrs[again->funcs[0].instr_count - 1].instead);
    assert_non_null(strstr(dump_of(&c.arena, again), "| gemm    g0 b3 b4 b5 "));
    sc_arena_free(&c.arena);
}

/* ---- groups ---- */

/* Members of a group, by anyone's reckoning, are the same in the same order; and everybody is in
 * one. */
static void groups_are_the_same_for_their_members(void **state)
{
    (void)state;
    image_case c;
    image_begin(&c, 3, 4);
    image_group(&c, "dp", NULL);
    image_group(&c, "tp", NULL);
    image_group(&c, "tp", "dp");
    const uint64_t sizes[] = {3, 4, 12};
    for (uint32_t g = 0; g < 3; g++) {
        const sc_image_group *group = &c.groups.data[g];
        assert_int_equal(sc_image_group_size(group), sizes[g]);
        for (uint64_t rank = 0; rank < 12; rank++) {
            assert_int_equal(sc_image_group_member(group, rank, sc_image_group_rank(group, rank)),
                             rank);
            for (uint64_t i = 0; i < sizes[g]; i++) {
                uint64_t member = sc_image_group_member(group, rank, i);
                assert_true(member < 12);
                assert_int_equal(sc_image_group_rank(group, member), i);
                assert_int_equal(
                    sc_image_group_member(group, member, sc_image_group_rank(group, rank)), rank);
            }
        }
    }
    sc_arena_free(&c.arena);
}

static void the_dump_says_what_is_there(void **state)
{
    (void)state;
    image_case c;
    const char *text = dump_of(&c.arena, make_image(&c, 2, 2));
    static const char *const lines[] = {
        "program for cpu, 4 ranks (dp=2, tp=2), arena of ",
        "compiled for some\n",
        "param layers[0].w: bf16[D=8, H=10/5 at r%2*5] from r/2%2 in b0 = normal(0.02), master "
        "s1\n",
        "sum total: f32[] from r%2 partial sum, set at r/2%2 in b2 = zeros\n",
        "k0    k0_widen(in 96, in 80, out 160; 3 params)  k0_widen\n        check 0: an index is "
        "out of range\n",
        "c0    all_reduce sum over some, 4 ranks (r/2%2, r/1%2): f32 1; it is wanted\n",
        "in  x: f32[B=6/3 at r/2%2*3, D=8] from r%2 in b3, micro-batches split B\n",
        "0  kernel  k0 b3 b0 b4 (rank r%2*-5, key fedcba9876543210, step)",
        "1  gemm    g0 b3 b4 b5 ",
        "2' start   c1 b5 -> b6 ",
        "3  finish  2 ",
        "copy    b2 -> b9 ",
        "schedule\n  micro of micro-batch 0\n  micro of micro-batch 1\n  update\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no '%s' in\n%s", lines[i], text);
    }
    sc_arena_free(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(every_part_is_refused),
        cmocka_unit_test(every_part_of_the_body_is_refused),
        cmocka_unit_test(a_changed_bit_is_seen),
        cmocka_unit_test(there_is_one_way_to_write),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(a_product_may_have_a_stand_in),
        cmocka_unit_test(groups_are_the_same_for_their_members),
        cmocka_unit_test(the_dump_says_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
