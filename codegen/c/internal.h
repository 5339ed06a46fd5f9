/* What the files of C share. Nodes, scopes and the text of values are the printer's. */
#ifndef SHARDC_CODEGEN_C_INTERNAL_H
#define SHARDC_CODEGEN_C_INTERNAL_H

#include "codegen/c/emit.h"
#include "codegen/printer/printer.h"

/* What decides between loops. Tests make them small, so that small kernels come in every form. */
struct sc_c_limits {
    int64_t small_work;                 /* operations up to which a team is not worth waking */
    int64_t shares;                     /* pieces that are enough for any team */
    int64_t block;                      /* of an outer dim, with reductions: some KiB of the first cache */
    int64_t shortest_block;             /* without */
    int64_t few, piece;                 /* elements whose sum f32 lanes hold well; of a part of a longer one */
    int64_t few_rows, piece_rows;       /* the same where each sum is added to by itself */
    int64_t split_work, split_shares;   /* kernels of more work and fewer shares have their phases cut */
    int64_t split_points, split_memory; /* points of a cut at least; partial results of a reduction at most */
    int64_t split_block;
    int64_t tile, tile_block; /* indices of a tile, at most: of the dim along which one side lies, and the other */
    int64_t stream;           /* bytes of an array that no cache holds until it is read again */
    int64_t kept;             /* elements of a row of which a phase leaves to later ones what was expensive */
    int64_t ahead, ahead_row; /* bytes of an array that memory is asked for ahead, at least; of a row of it, at most */
};

extern const sc_c_limits sc_c_default_limits;
void sc_c_emit_within(const sc_kernel *k, const char *name, bool comments, const sc_c_limits *limits, sc_strbuf *out,
                      sc_helper_set *helpers);

/* loop_order.c */
void sc_c_choose_loop_order(sc_kernel_printer *e);

/* loops.c: loops over outer dims, and where a cut or a block ends. */
void sc_c_open_outer_loop(sc_kernel_printer *e, uint32_t loop);
uint32_t sc_c_outer_loops(const sc_kernel_printer *e);
void sc_c_block_end(sc_kernel_printer *e, uint32_t dim, int64_t block);
bool sc_c_is_blocked(const sc_kernel_printer *e);

/* transpose.c: tiles that lie one way in memory and are walked the other. */
/* Marks the loads and stores that go by way of an array, and chooses the sizes of tiles, of which there are `others` times
 * those of two dims. Needs the rest of the shape. */
void sc_c_choose_transposes(sc_kernel_printer *e, int64_t others);
/* q12[(D - D_from) * 144 + R - R_from], of the argument's type; without the tile: w3[R - R_from]. */
void sc_c_transposed_element(sc_kernel_printer *e, char letter, uint32_t id, uint32_t arg, bool tile);
/* What stands before a tile's loop, behind a row of it, and behind the tile. */
void sc_c_transpose_in(sc_kernel_printer *e);
void sc_c_stream_row(sc_kernel_printer *e);
void sc_c_transpose_out(sc_kernel_printer *e);

/* row_cache.c: what a phase leaves to later ones. */
void sc_c_choose_kept(sc_kernel_printer *e);
void sc_c_kept_element(sc_kernel_printer *e, sc_knode node);
/* The arrays that the phase fills. */
void sc_c_declare_kept(sc_kernel_printer *e);

/* prefetch.c: what a phase with much to compute fetches for others. */
void sc_c_choose_prefetch(sc_kernel_printer *e);
/* What stands before the phase's loop, and before the lanes that begin at the index `at`. */
void sc_c_prefetch_begin(sc_kernel_printer *e);
void sc_c_prefetch(sc_kernel_printer *e, const char *at);

/* split_phases.c: the function's phases, one after the other, each shared out. */
bool sc_c_may_split(const sc_kernel_printer *e);
void sc_c_split(sc_kernel_printer *e);

/* phase.c */
extern const sc_printer_target sc_c_target;
void sc_c_phase(sc_kernel_printer *e, uint32_t phase);

#endif
