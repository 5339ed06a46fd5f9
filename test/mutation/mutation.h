/* Deliberate miscompiles: what each does to a finished per-rank program, and who has to notice. */
#ifndef SHARDC_TEST_MUTATION_H
#define SHARDC_TEST_MUTATION_H

#include "ir/ops/ops.h"

typedef enum mutation_killer {
    KILLED_BY_VERIFIER = 1,
    KILLED_BY_VALIDATION = 2,
    KILLED_BY_BOTH = 3
} mutation_killer;

/* Breaks the function; false when there was nothing to break. */
typedef bool mutation_fn(sc_module *m, sc_func_id func);

typedef struct mutation {
    const char *name;
    const char *file, *plan, *entry; /* in Inputs/ */
    mutation_killer killer;          /* of the two, who is asked and has to find it */
    mutation_fn *apply;
    const char *summary;
} mutation;

#define MUTATION(name, file, plan, entry, killer, summary) mutation_fn name;
#include "mutations.def"
#undef MUTATION

#endif
