/* Pieces that go round a ring: what they are called in types, and where each comes from. */
#ifndef SHARDC_IR_OPS_VERIFY_PIECES_H
#define SHARDC_IR_OPS_VERIFY_PIECES_H

#include "ir/graph.h"

/* Of pieces. Whose value member i has: that of member i - `of`; `piece` is which it is: number i -
 * of + piece of what it is cut from. Both are 0 of everything that has not gone round. */
typedef struct sc_piece_origin {
    int64_t of, piece;
    bool is_piece; /* another one on each member, though its type does not say so */
} sc_piece_origin;

typedef struct sc_pieces {
    sc_module *m;
    sc_piece_origin *origin; /* per value */
} sc_pieces;

/* Called with what is wrong with an op. */
typedef void sc_piece_report(void *user, sc_op_id op, const char *text);

sc_pieces sc_pieces_of(sc_module *m);
/* Checks an op whose operands have been checked. Returns true if it is one of those that make,
 * join or add pieces. */
bool sc_verify_pieces(sc_pieces *pieces, sc_op_id op, sc_piece_report *report, void *user);

#endif
