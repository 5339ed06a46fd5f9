/* Shared by the C printer. Nodes, scopes and the text of values are in codegen/printer. */
#ifndef SHARDC_CODEGEN_C_INTERNAL_H
#define SHARDC_CODEGEN_C_INTERNAL_H

#include "codegen/c/emit.h"
#include "codegen/printer/printer.h"

/* Thresholds for choosing loops. Tests lower them so that small kernels take every form. */
struct sc_c_limits {
    int64_t small_work;                 /* operations below which waking a team does not pay */
    int64_t shares;                     /* pieces that suffice for any team */
    int64_t block;                      /* of an outer dim, with reductions: some KiB of L1 */
    int64_t shortest_block;             /* without reductions */
    int64_t few, piece;                 /* elements that f32 lanes sum accurately; of a part */
    int64_t few_rows, piece_rows;       /* the same where each sum has its own accumulator */
    int64_t split_work, split_shares;   /* more work and fewer shares: phases are split */
    int64_t split_points, split_memory; /* least points of a split; most partial results */
    int64_t split_block;
    int64_t tile, tile_block; /* most indices of a tile: contiguous dim, other dim */
    int64_t stream;           /* bytes of an array that no cache retains until its next read */
    int64_t cached;           /* most elements of a row with cached values */
    int64_t prefetch_array, prefetch_row; /* prefetch: least bytes of the array, most of a row */
};

extern const sc_c_limits sc_c_default_limits;
void sc_c_emit_within(const sc_kernel *k, const char *name, bool comments,
                      const sc_c_limits *limits, sc_strbuf *out, sc_helper_set *helpers);

/* loop_order.c */
void sc_c_choose_loop_order(sc_kernel_printer *e);

/* loops.c: loops over outer dims; ends of splits and blocks. */
void sc_c_open_outer_loop(sc_kernel_printer *e, uint32_t loop);
uint32_t sc_c_outer_loops(const sc_kernel_printer *e);
void sc_c_block_end(sc_kernel_printer *e, uint32_t dim, int64_t block);
bool sc_c_is_blocked(const sc_kernel_printer *e);

/* transpose.c: tiles that are contiguous along one dim and walked along the other. */
/* Marks the loads and stores that go through a staging array and chooses the tile sizes; the number
 * of tiles is `others` times that of the two dims. Call after the rest of the loop order is
 * chosen. */
void sc_c_choose_transposes(sc_kernel_printer *e, int64_t others);
/* Emits q12[(D - D_from) * 144 + R - R_from], of the argument's type; without the tile: w3[R -
 * R_from]. */
void sc_c_transposed_element(sc_kernel_printer *e, char letter, uint32_t id, uint32_t arg,
                             bool tile);
/* Emit the text before a tile's loop, after one of its rows, and after the tile. */
void sc_c_transpose_in(sc_kernel_printer *e);
void sc_c_stream_row(sc_kernel_printer *e);
void sc_c_transpose_out(sc_kernel_printer *e);

/* row_cache.c: values that a phase caches for later ones. */
void sc_c_choose_row_cache(sc_kernel_printer *e);
void sc_c_cached_element(sc_kernel_printer *e, sc_knode node);
/* Declares the arrays that the phase fills. */
void sc_c_declare_row_cache(sc_kernel_printer *e);

/* prefetch.c: data that a compute-bound phase prefetches for others. */
void sc_c_choose_prefetch(sc_kernel_printer *e);
/* Emit the text before the phase's loop, and before the lanes that start at index `at`. */
void sc_c_prefetch_begin(sc_kernel_printer *e);
void sc_c_prefetch(sc_kernel_printer *e, const char *at);

/* split_phases.c: the function's phases, one after the other, each parallelized. */
bool sc_c_may_split(const sc_kernel_printer *e);
void sc_c_split(sc_kernel_printer *e);

/* phase.c */
extern const sc_printer_target sc_c_target;
void sc_c_phase(sc_kernel_printer *e, uint32_t phase);

#endif
