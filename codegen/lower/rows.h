/* The functions named in rows of lowering.def. */
#ifndef SHARDC_CODEGEN_LOWER_ROWS_H
#define SHARDC_CODEGEN_LOWER_ROWS_H

#include "codegen/lower/internal.h"

sc_lower_fn lower_constant, lower_index, lower_same, lower_rename, lower_cast, lower_node,
    lower_activation, lower_slope, lower_pow, lower_compare, lower_logical, lower_where, lower_mask,
    lower_dropout, lower_gather, lower_onehot, lower_last, lower_slice, lower_unslice, lower_concat,
    lower_all_slice, lower_take_piece, lower_join_pieces, lower_add_pieces, lower_to_partial,
    lower_pack_rows;
sc_root_fn root_cumsum, root_scatter_add, root_topk, root_append, root_routed_dot,
    root_routed_dot_grad, root_row_slots, root_unpack_rows;

#endif
