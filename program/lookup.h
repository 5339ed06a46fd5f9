/* Numbers that follow from a compiled program: of ranks, groups, collectives. */
#ifndef SHARDC_PROGRAM_LOOKUP_H
#define SHARDC_PROGRAM_LOOKUP_H

#include "program/format.h"

/* True if a dim of the tensor is split zigzag. */
bool sc_image_is_zigzag(const sc_image_tensor *tensor);
/* Returns the sum of the terms for a rank. */
int64_t sc_image_terms_value(const sc_image_terms *terms, uint64_t rank);
/* Size of the local array in bytes. */
int64_t sc_image_tensor_bytes(const sc_image_tensor *tensor);
/* The distance of a buffer's copies; the bytes that the buffer takes with all of them; and where
 * its copy for a micro-batch (-1: none) is, from its offset on. */
static inline int64_t sc_image_buffer_step(const sc_image_buffer *buffer)
{
    return (buffer->bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
}
static inline int64_t sc_image_buffer_extent(const sc_image_buffer *buffer)
{
    return (buffer->copies - 1) * sc_image_buffer_step(buffer) + buffer->bytes;
}
static inline int64_t sc_image_copy_at(const sc_image_buffer *buffer, int32_t micro_batch)
{
    return micro_batch < 0
               ? 0
               : (int64_t)((uint32_t)micro_batch % buffer->copies) * sc_image_buffer_step(buffer);
}
/* The lists of calls of an image: 0 is its schedule, 1 + f that of function f. */
typedef struct sc_image_list {
    const sc_image_call *calls;
    uint32_t count; /* 0: there is no such list */
} sc_image_list;
static inline sc_image_list sc_image_list_of(const sc_image *image, uint32_t number)
{
    return number == 0 ? (sc_image_list){image->schedule, image->call_count}
                       : (sc_image_list){image->funcs[number - 1].calls,
                                         image->funcs[number - 1].call_count};
}
/* Whether a list calls the function: it is a part of something, and does not run on its own. */
bool sc_image_is_called(const sc_image *image, uint32_t func);
/* Returns the most micro-batches of one of its lists, at least 1. */
uint32_t sc_image_most_batches(const sc_image *image);
/* Limits an input that is read as ids to what is valid for another reader too. */
void sc_image_limit_ids(sc_image_value *input, const sc_image_value *other);
/* Returns the bytes that a COPY from there copies. */
static inline int64_t sc_image_copy_bytes(const sc_image *image, const sc_image_ref *from)
{
    return image->buffers[from->buffer].bytes - from->at;
}
/* Returns the number of ranks in the group of `rank`, and its index in the group. */
uint64_t sc_image_group_size(const sc_image_group *group);
uint64_t sc_image_group_rank(const sc_image_group *group, uint64_t rank);
/* Returns the group's member `index`, which must be below the size. */
uint64_t sc_image_group_member(const sc_image_group *group, uint64_t rank, uint64_t index);
/* Returns the parameter or optimizer state with the largest local array: the staging space that a
 * device without access to host memory needs to save or load states. SC_NONE if there is
 * none. */
uint32_t sc_image_largest_saved(const sc_image *image);
/* Number of elements of one part that a rank sends, or receives. */
int64_t sc_image_source_count(const sc_image *image, const sc_image_collective *collective,
                              uint32_t part);
int64_t sc_image_destination_count(const sc_image *image, const sc_image_collective *collective,
                                   uint32_t part);

/* The digit of the stage axis: the stage of a rank. The image must have stages. */
sc_image_digit sc_image_stage_digit(const sc_image *image);
/* Returns the stage of a rank; 0 if the program has no stages. */
uint32_t sc_image_stage_of(const sc_image *image, uint64_t rank);
/* Returns the rank of another stage that has the same coordinates on all other axes. */
uint64_t sc_image_stage_peer(const sc_image *image, uint64_t rank, uint32_t stage);

/* Whether the rank has the tensor. */
bool sc_image_has(const sc_image_tensor *tensor, uint64_t rank);
/* The buffer that the rank has it in, which is `buffer` if the program has no stages. */
uint32_t sc_image_buffer_of(const sc_image_tensor *tensor, uint32_t buffer, uint64_t rank);
/* Whether the rank's stage is the first of those that have the tensor. */
bool sc_image_has_first(const sc_image_tensor *tensor, uint64_t rank);

/* Whether the function starts messages, or waits for some or for room. */
bool sc_image_has_messages(const sc_image_func *func);
/* Returns the most parts of a message of the boundary. */
uint32_t sc_image_most_parts(const sc_image *image, uint32_t boundary);

/* Returns the scratch bytes of a GEMM on the target, aligned to SC_IMAGE_ALIGN; 0: none. */
int64_t sc_image_gemm_scratch(const char *target, const sc_gemm *gemm);

#endif
