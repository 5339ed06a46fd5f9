/* Numbers that follow from a compiled program. */
#include "program/lookup.h"

#include <string.h>

#include "program/gemm_blas.h"
#include "program/gemm_blocks.h"

bool sc_image_is_zigzag(const sc_image_tensor *tensor)
{
    bool is_zigzag = false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        is_zigzag = is_zigzag || tensor->dims[i].order.members > 1;
    return is_zigzag;
}

int64_t sc_image_terms_value(const sc_image_terms *terms, uint64_t rank)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < terms->count; i++) {
        const sc_image_term *term = &terms->terms[i];
        sum += (int64_t)((rank / term->divide + term->plus) % term->modulo) * term->times;
    }
    return sum;
}

int64_t sc_image_tensor_bytes(const sc_image_tensor *tensor)
{
    int64_t bytes = sc_dtypes[tensor->dtype].bytes;
    for (uint32_t i = 0; i < tensor->rank; i++)
        bytes *= tensor->dims[i].local;
    return bytes;
}

uint32_t sc_image_largest_saved(const sc_image *image)
{
    uint32_t largest = SC_NONE;
    for (uint32_t i = 0; i < image->state_count; i++) {
        const sc_image_state *state = &image->states[i];
        bool is_saved = state->kind == SC_STATE_PARAM || state->kind == SC_STATE_OPT;
        if (is_saved &&
            (largest == SC_NONE || sc_image_tensor_bytes(&state->tensor) >
                                       sc_image_tensor_bytes(&image->states[largest].tensor)))
            largest = i;
    }
    return largest;
}

void sc_image_limit_ids(sc_image_value *input, const sc_image_value *other)
{
    bool is_first = input->below == 0;
    if (other->below == 0)
        return;
    input->may_ignore =
        other->may_ignore && (is_first || (input->may_ignore && input->ignore == other->ignore));
    input->ignore = input->may_ignore ? other->ignore : 0;
    input->below = is_first || other->below < input->below ? other->below : input->below;
}

/* ---- messages ---- */

bool sc_image_has_messages(const sc_image_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        sc_image_instr_kind kind = func->instrs[i].kind;
        if (kind == SC_INSTR_MESSAGE || kind == SC_INSTR_WAIT || kind == SC_INSTR_ROOM)
            return true;
    }
    return false;
}

uint32_t sc_image_most_parts(const sc_image *image, uint32_t boundary)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < image->message_count; i++) {
        if (image->messages[i].boundary == boundary && image->messages[i].part_count > most)
            most = image->messages[i].part_count;
    }
    return most;
}

/* ---- calls ---- */

static bool calls_it(sc_image_list list, uint32_t func)
{
    uint32_t i = 0;
    while (i < list.count && list.calls[i].func != func)
        i++;
    return i < list.count;
}

bool sc_image_is_called(const sc_image *image, uint32_t func)
{
    uint32_t list = 0;
    while (list <= image->func_count && !calls_it(sc_image_list_of(image, list), func))
        list++;
    return list <= image->func_count;
}

uint32_t sc_image_most_batches(const sc_image *image)
{
    int32_t most = 0;
    for (uint32_t l = 0; l <= image->func_count; l++) {
        const sc_image_list list = sc_image_list_of(image, l);
        for (uint32_t i = 0; i < list.count; i++)
            most = list.calls[i].micro_batch > most ? list.calls[i].micro_batch : most;
    }
    return (uint32_t)most + 1;
}

/* ---- groups ---- */

uint64_t sc_image_group_size(const sc_image_group *group)
{
    uint64_t size = 1;
    for (uint32_t i = 0; i < group->digit_count; i++)
        size *= group->digits[i].modulo;
    return size;
}

uint64_t sc_image_group_rank(const sc_image_group *group, uint64_t rank)
{
    uint64_t index = 0;
    for (uint32_t i = 0; i < group->digit_count; i++)
        index = index * group->digits[i].modulo +
                rank / group->digits[i].divide % group->digits[i].modulo;
    return index;
}

uint64_t sc_image_group_member(const sc_image_group *group, uint64_t rank, uint64_t index)
{
    for (uint32_t i = group->digit_count; i-- > 0;) {
        const sc_image_digit *digit = &group->digits[i];
        /* arithmetic modulo 2^64 */
        rank += (index % digit->modulo - rank / digit->divide % digit->modulo) * digit->divide;
        index /= digit->modulo;
    }
    return rank;
}

/* ---- stages ---- */

sc_image_digit sc_image_stage_digit(const sc_image *image)
{
    sc_image_digit digit = {1, image->axes[image->pipeline.axis].size};
    for (uint32_t a = image->pipeline.axis + 1; a < image->axis_count; a++)
        digit.divide *= image->axes[a].size;
    return digit;
}

static uint32_t stage_at(sc_image_digit digit, uint64_t rank)
{
    return (uint32_t)(rank / digit.divide % digit.modulo);
}

uint32_t sc_image_stage_of(const sc_image *image, uint64_t rank)
{
    return image->pipeline.count == 0 ? 0 : stage_at(sc_image_stage_digit(image), rank);
}

uint64_t sc_image_stage_peer(const sc_image *image, uint64_t rank, uint32_t stage)
{
    sc_image_digit digit = sc_image_stage_digit(image);
    return rank - stage_at(digit, rank) * digit.divide + stage * digit.divide;
}

bool sc_image_has(const sc_image_tensor *tensor, uint64_t rank)
{
    return sc_image_buffer_of(tensor, 0, rank) != SC_NONE;
}

uint32_t sc_image_buffer_of(const sc_image_tensor *tensor, uint32_t buffer, uint64_t rank)
{
    const sc_image_holders *holders = tensor->holders;
    return holders == NULL ? buffer : holders->buffers[stage_at(holders->digit, rank)];
}

bool sc_image_has_first(const sc_image_tensor *tensor, uint64_t rank)
{
    const sc_image_holders *holders = tensor->holders;
    uint32_t first = 0;
    if (holders == NULL)
        return true;
    while (holders->buffers[first] == SC_NONE)
        first++;
    return stage_at(holders->digit, rank) == first;
}

int64_t sc_image_gemm_scratch(const char *target, const sc_gemm *gemm)
{
    return strcmp(target, "cpu") == 0 ? sc_gemm_scratch_bytes(gemm) : SC_MATMUL_WORKSPACE;
}

int64_t sc_image_source_count(const sc_image *image, const sc_image_collective *collective,
                              uint32_t part)
{
    bool is_split = collective->kind == SC_IMAGE_ALL_GATHER;
    return collective->counts[part] /
           (is_split ? (int64_t)sc_image_group_size(&image->groups[collective->group]) : 1);
}

int64_t sc_image_destination_count(const sc_image *image, const sc_image_collective *collective,
                                   uint32_t part)
{
    bool is_split = collective->kind == SC_IMAGE_REDUCE_SCATTER;
    return collective->counts[part] /
           (is_split ? (int64_t)sc_image_group_size(&image->groups[collective->group]) : 1);
}
