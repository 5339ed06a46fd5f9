/* What the files of CUDA share. Nodes, scopes and the text of values are the printer's.
 *
 * A *team* of threads goes through an outer iteration, or through several that lie side by side along the vector dim (its lanes); one
 * thread of the team, a *way*, takes every so-manieth point of a phase. Scopes: 0 the function, 1 the body (outer dims but the vector dim),
 * 2 what a phase reads of what the kernel writes, 3 a point of the phase, 4 its lanes: neighbours along the vector dim, or where there is
 * none along the phase's last dim. */
#ifndef SHARDC_CODEGEN_CUDA_INTERNAL_H
#define SHARDC_CODEGEN_CUDA_INTERNAL_H

#include "codegen/cuda/emit.h"
#include "codegen/printer/printer.h"

/* What decides between forms. Tests make them small, so that small kernels come in every form. */
typedef struct sc_cuda_limits {
    int lanes;      /* most elements that a thread takes in a row: 1, 2, 4, 8 */
    int threads;    /* of a block of several teams: a multiple of 32 */
    int team;       /* most threads of a team: a power of 2, at least 32 */
    int ways;       /* most warps of a team whose lanes are iterations: a power of 2, at most 32 */
    int kept;       /* elements of a row that a thread keeps between phases, all values together */
    int row;        /* points of a row that are enough for a thread */
    int64_t wanted; /* threads that keep a machine busy */
    int64_t parts;  /* most parts of a phase whose sums stand in scratch */
    int64_t few;    /* elements whose sum a thread holds well in f32 */
    int unroll;     /* points of a long row at once */
    int64_t tile;   /* least sizes of two dims that change places by tiles */
} sc_cuda_limits;

extern const sc_cuda_limits sc_cuda_default_limits;
void sc_emit_cuda_within(const sc_kernel *k, const char *name, bool comments, const sc_cuda_limits *limits, sc_strbuf *out,
                         sc_helper_set *helpers, sc_cuda_code *code);

enum { SC_CUDA_BODY = 1, SC_CUDA_READS = 2, SC_CUDA_POINT = 3, SC_CUDA_LANES = 4 };

typedef struct sc_cuda_phase {
    int64_t points; /* by teams: of `lanes` elements of the last dim each */
    int lanes;
    int64_t steps; /* 0, or points of a thread, unrolled: what a phase keeps has a place in a register */
    bool finds;    /* its checks are not the same at all points: of those that fail the first is wanted */
} sc_cuda_phase;

typedef enum sc_cuda_team {
    SC_CUDA_THREADS, /* teams of one thread */
    SC_CUDA_ROWS,    /* neighbours: of a warp, or the block */
    SC_CUDA_COLUMNS, /* the block's warps; its lanes are 32 teams */
    SC_CUDA_TILES,   /* a block has a tile of two dims */
} sc_cuda_team;

/* Phases first .. end - 1 as a stage. */
typedef struct sc_cuda_form {
    uint32_t first, end;
    sc_cuda_team team;
    int ways, threads; /* of a team; of a block */
    bool live;         /* teams behind the last one must go along */
    /* Its only phase's points are cut for so many blocks; 1: they are not. Of a scatter what is cut are the places along a dim of the one
     * argument that is written: a part has only those, and goes through the points that write to them. */
    int64_t parts, per_part, whole;
    bool scatters;
    uint32_t position; /* of that dim in the argument */
    bool checks;       /* it is a block that checks for all teams */
} sc_cuda_form;

typedef struct sc_cuda {
    sc_emit e; /* first: the target's functions get this */
    const sc_cuda_limits *limits;
    const char *name;
    sc_interval *intervals; /* of the kernel's nodes, whatever is checked */
    bool parallel;          /* points of each phase may be done in any order */
    sc_cuda_form form;      /* of the stage that is being written */
    sc_cuda_form stages[SC_CUDA_MAX_STAGES];
    uint32_t stage_count;
    uint32_t apart; /* phases of checks in front, which are a stage of their own: the others do nothing where one failed */
    int lanes;      /* of the vector dim */
    int64_t teams;
    uint32_t tile_rows, tile_columns;                /* TILES: dims; along these what is read, what is stored lies side by side */
    uint32_t order[SC_KERNEL_MAX_DIMS], order_count; /* outer dims, slowest first, the vector dim last */
    bool exchange;                                   /* phases read or write what others of the team wrote, or write what others read */
    bool wide;                                       /* indices are of 64 bits */
    sc_cuda_phase *phases;
    int64_t *partials; /* per item: where in scratch later stages find its reductions by parts, or -1 */
    int64_t scratch_bytes;
    /* Exchanges of a team take turns with two places in shared memory: when the third begins, all have read the first's. */
    int slot_bytes, exchanges;
    int shared_bytes;
    bool *run_of_load, *run_of_item; /* lanes go through registers in this phase */
    bool ordered;                    /* in the text: a barrier of the block stands behind all that was done */
    const char *why_simple;
} sc_cuda;

/* stage.c: what the texts of a stage have in common. */
/* So many that the stage is emitted for the compiler's sake: topk's. */
bool sc_cuda_has_many_phases(const sc_cuda *c);
const char *sc_cuda_index_type(const sc_cuda *c);
/* Writes the indices of a point. */
void sc_cuda_point_indices(sc_cuda *c, uint32_t phase);
/* The dim whose indices are lanes in the phase; SC_IMAGE_NONE: none. */
uint32_t sc_cuda_lane_dim(const sc_cuda *c, uint32_t phase);
/* The name of the index of a thread's first lane: D_at. */
const char *sc_cuda_first_lane(sc_cuda *c, uint32_t dim);
/* Whether so many neighbours along the dim are one aligned piece of memory. */
bool sc_cuda_is_run(const sc_cuda *c, const sc_emit_access *access, uint32_t dim, int lanes);
const char *sc_cuda_reducer(sc_item_kind kind);
int sc_cuda_next_slot(sc_cuda *c);
/* From what each way has of a reduction, in a variable of this letter, to what all of them have. */
void sc_cuda_exchange(sc_cuda *c, uint32_t item, char letter);

/* thread_plan.c */
void sc_cuda_plan(sc_cuda *c);

/* vector_lanes.c */
/* A point of the phase, whose items are first .. end - 1. */
void sc_cuda_point_text(sc_cuda *c, uint32_t phase, uint32_t first, uint32_t end);

/* phase.c */
extern const sc_emit_target sc_emit_cuda_target;
void sc_cuda_phase_text(sc_cuda *c, uint32_t phase);

/* scatter.c */
bool sc_cuda_plan_scatter(sc_cuda *c);
/* Opens the loops of a phase; gives the number of braces. */
uint32_t sc_cuda_open_scatter(sc_cuda *c, uint32_t phase);

/* transpose.c */
bool sc_cuda_plan_tile(sc_cuda *c);
int64_t sc_cuda_tiles(const sc_cuda *c);
void sc_cuda_tile_text(sc_cuda *c);

/* partial_sums.c: reductions that go from stage to stage. */
void sc_cuda_place_partials(sc_cuda *c);
void sc_cuda_read_partials(sc_cuda *c);
void sc_cuda_write_partials(sc_cuda *c);

#endif
