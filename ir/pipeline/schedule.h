/* The schedules that a plan names, their files, their proof and their cost. Nothing here knows the
 * program: a schedule is the order of the actions of the ranks along the stage axis. */
#ifndef SHARDC_IR_PIPELINE_SCHEDULE_H
#define SHARDC_IR_PIPELINE_SCHEDULE_H

#include "ir/pipeline/pipeline.h"

/* ---- by name (generate.c) ---- */
typedef enum sc_schedule_kind {
#define SCHEDULE(name, chunks, v, least) SC_SCHEDULE_##name,
#include "ir/pipeline/schedules.def"
#undef SCHEDULE
    SC_SCHEDULE_COUNT
} sc_schedule_kind;

typedef struct sc_schedule_row {
    const char *name;
    uint32_t chunks; /* a rank; 0: the plan gives it */
    bool is_v;
    uint32_t least; /* micro-batches a rank; 0: one in all */
} sc_schedule_row;

extern const sc_schedule_row sc_schedule_rows[SC_SCHEDULE_COUNT];

/* The most actions that a schedule may have, forward and backward: a bound on the compiler's
 * memory. */
enum { SC_SCHEDULE_MAX_ACTIONS = 1 << 23 };

/* Returns the least number of micro-batches with which the schedule works on `ranks`. */
uint64_t sc_schedule_least(sc_schedule_kind kind, uint32_t ranks);
/* Makes the schedule. `per_rank` is the number of chunks a rank (sc_schedule_rows[kind].chunks
 * unless that is 0). micro_batches >= sc_schedule_least, ranks >= 1. */
sc_pipeline_schedule *sc_schedule_generate(sc_arena *arena, sc_schedule_kind kind, uint32_t ranks,
                                           uint32_t per_rank, uint32_t micro_batches);

/* ---- files (csv.c) ---- */
/* What is wrong with a schedule, for a message. */
typedef struct sc_schedule_fault {
    const char *text;         /* in the arena */
    SC_VEC(const char *) why; /* lines that explain it; of a cycle one each step */
    uint32_t rank, index;     /* the action at fault: its place in its rank's list; SC_NONE: the
                                 rank as a whole */
} sc_schedule_fault;

/* Where each action of a file stands in its text. */
typedef struct sc_action_place {
    uint32_t offset, length; /* of the action's name, in bytes */
    uint32_t column;         /* of its cell, counted from 1; its row is its rank + 1 */
} sc_action_place;
typedef struct sc_action_places {
    SC_VEC(sc_action_place) list;
} sc_action_places;

/* Reads PyTorch's compute-only CSV, as _PipelineScheduleRuntime._load_csv does: a row a rank, cells
 * `<chunk><F|B|I|W><micro-batch>`, `(0F1;7B0)OVERLAP_F_B` as 0F1 and then 7B0, empty cells idle.
 * Blanks around a cell, and carriage returns at line ends, are ignored. Micro-batches are counted
 * from the actions; what the actions are is checked by sc_schedule_prove. `places` (by rank, as
 * many as ranks; may be NULL) receives where the actions stand. On failure returns NULL: *fault has
 * the text, and *bad the cell, its rank being fault->rank. */
sc_pipeline_schedule *sc_schedule_read(sc_arena *arena, const char *text, size_t length,
                                       sc_action_places **places, sc_schedule_fault *fault,
                                       sc_action_place *bad);
/* Writes what sc_schedule_read and PyTorch read. No idle cells: the order is all that counts. */
void sc_schedule_write(const sc_pipeline_schedule *schedule, sc_strbuf *out);
/* "2F1" */
const char *sc_action_text(sc_arena *arena, sc_action action);
/* 'F', 'B', 'I' or 'W' */
char sc_action_letter(sc_action_kind kind);

/* ---- proof (prove.c) ---- */
/* Proves that a schedule is complete and ends under every timing:
 * - every action names a chunk and a micro-batch that there are, on the rank that holds the chunk;
 * - every micro-batch passes every chunk once each way: one F, and one B or one I and one W;
 * - no cycle. An action waits for those before it on its rank, and for its data: F for the F of the
 *   chunk before, B and I for their F and for the B or I of the chunk after, W for its I. What
 *   crosses a boundary between two chunks on different ranks is sent when it is computed, in that
 *   order, forward and backward each in a FIFO of their own. A send ends only when it is received,
 *   and it is received where it is used: nothing is buffered. So the order of sends is the order of
 *   receives, or there is a cycle.
 * Returns false with *fault set. Linear in the number of actions. */
bool sc_schedule_prove(sc_arena *arena, const sc_pipeline_schedule *schedule,
                       sc_schedule_fault *fault);

/* ---- cost (simulate.c) ---- */
/* When each action starts and ends. F, I and W take as long as the forward work of their chunk, B
 * twice as long; sends are free. */
typedef struct sc_schedule_cost {
    double makespan;  /* in forward passes of a full stage: the work of all chunks / ranks */
    double bubble;    /* 1 - mean busy time of a rank / makespan */
    double imbalance; /* 1 - mean busy time / that of the busiest rank */
    double idle;      /* 1 - busy time of the busiest rank / makespan */
    double *live;     /* by rank: most micro-batches between their F and their B or W, in full ones:
                         a chunk counts ranks / chunks */
    double **start;   /* by rank, by action: in the unit of the makespan */
} sc_schedule_cost;

/* Simulates a proved schedule. `work` is the forward work by chunk, in any unit; NULL, or all 0:
 * the same for all. Linear in the number of actions. */
void sc_schedule_simulate(sc_arena *arena, const sc_pipeline_schedule *schedule, const double *work,
                          sc_schedule_cost *out);
/* Simulates the schedule of a pipeline with the work of its chunks. */
void sc_pipeline_simulate(sc_arena *arena, const sc_pipeline *pipeline, sc_schedule_cost *out);

#endif
