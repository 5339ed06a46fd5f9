/* Readers of values, for passes that ask how many there are. */
#ifndef SHARDC_PASSES_USES_H
#define SHARDC_PASSES_USES_H

#include "ir/graph.h"

/* Per value, how often it is an operand. */
uint32_t *sc_count_uses(sc_module *m);
/* The ops that read a value, in order, once for each operand: list[first[value] .. first[value + 1]). */
typedef struct sc_readers {
    uint32_t *first;
    sc_op_id *list;
} sc_readers;
sc_readers sc_find_readers(sc_module *m);
/* One entry a value, all SC_NONE: for sc_func_replace_uses. */
sc_value *sc_new_value_map(sc_module *m, uint32_t *count);
/* Per op, its position in its function; ops that are not linked have none (SC_NONE). */
uint32_t *sc_number_ops(sc_module *m);

#endif
