/* Readers of values. */
#ifndef SHARDC_PASSES_USES_H
#define SHARDC_PASSES_USES_H

#include "ir/graph.h"

/* The ops that read a value, in order, one entry per operand:
 * list[first[value] .. first[value + 1]). */
typedef struct sc_readers {
    uint32_t *first;
    sc_op_id *list;
} sc_readers;
sc_readers sc_find_readers(sc_module *m);
/* True for what is placed as a stored parameter is: its cast to the act dtype (further casts belong
 * to its readers), and the view that a chunk of a pipeline has of a parameter of several chunks. */
bool sc_is_stored_copy(const sc_module *m, sc_op_id op);
/* Returns a map for sc_func_replace_uses with one entry per value, all SC_NONE. */
sc_value *sc_new_value_map(sc_module *m, uint32_t *count);
/* Returns the position of each op in its function; SC_NONE for unlinked ops. */
uint32_t *sc_number_ops(sc_module *m);
/* Removes ops without effects whose results are unused. One walk from the end. */
void sc_drop_dead(sc_module *m);

#endif
