/* What a CUtensorMap says, as the stub's cuTensorMapEncodeTiled writes it and the interpreter reads
 * it (CUDA driver API, "Tensor Map Object Management"). Its layout is our own: a driver's is
 * nobody's to read. */
#ifndef SHARDC_TEST_PTX_TENSOR_MAP_H
#define SHARDC_TEST_PTX_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum { SC_PTX_TENSOR_RANK = 5, SC_PTX_TENSOR_MAP_BYTES = 128 };
#define SC_PTX_TENSOR_MAGIC 0x6d617054u

typedef struct sc_ptx_tensor_map {
    uint32_t magic;
    uint8_t rank, element_bytes;
    uint8_t swizzle; /* bytes of a row of the pattern: 0, 32, 64, 128 */
    bool nan_fill;   /* what is outside becomes NaN instead of 0 */
    uint64_t address;
    uint64_t sizes[SC_PTX_TENSOR_RANK];       /* elements, innermost first */
    uint64_t strides[SC_PTX_TENSOR_RANK - 1]; /* bytes, from the second dim on */
    uint16_t box[SC_PTX_TENSOR_RANK];         /* elements; 256 at most */
} sc_ptx_tensor_map;

/* Checks what cuTensorMapEncodeTiled refuses: NULL, or why. */
const char *sc_ptx_tensor_map_check(const sc_ptx_tensor_map *map);

#endif
