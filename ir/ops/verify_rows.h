/* Rows that are sent to the ranks of their experts: row_slots, pack_rows, unpack_rows, and what is
 * computed on rows in slots. */
#ifndef SHARDC_IR_OPS_VERIFY_ROWS_H
#define SHARDC_IR_OPS_VERIFY_ROWS_H

#include "ir/ops/verify_pieces.h"

typedef struct sc_sent_rows {
    sc_module *m;
    sc_op_id *slots; /* by value: the row_slots in whose slots it is, SC_NONE if it is in none */
} sc_sent_rows;

sc_sent_rows sc_sent_rows_of(sc_module *m);
/* Checks an op whose operands have been checked. */
void sc_verify_rows(sc_sent_rows *rows, sc_op_id id, sc_piece_report *report, void *user);

#endif
