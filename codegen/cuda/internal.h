/* Shared by the CUDA printer. Nodes, scopes and the text of values are in codegen/printer.
 *
 * A *team* of threads executes one outer iteration, or several neighbours along the vector dim (its
 * lanes). The threads of a team take the points of a phase in turn, with a stride of the team's
 * size. Scopes: 0 the function; 1 the body (outer dims except the vector dim); 2 what a phase reads
 * of arguments that the kernel writes; 3 a point of the phase; 4 its lanes: neighbours along the
 * vector dim or, without one, along the phase's last dim. */
#ifndef SHARDC_CODEGEN_CUDA_INTERNAL_H
#define SHARDC_CODEGEN_CUDA_INTERNAL_H

#include "codegen/cuda/emit.h"
#include "codegen/printer/printer.h"

/* Thresholds for choosing forms. Tests lower them so that small kernels take every form. */
typedef struct sc_cuda_limits {
    int lanes;      /* most consecutive elements per thread: 1, 2, 4, 8 */
    int threads;    /* of a block with several teams: a multiple of 32 */
    int team;       /* most threads of a team: a power of 2, at least 32 */
    int warps;      /* most warps of a team whose lanes are iterations: a power of 2, at most 32 */
    int cached;     /* most elements of a row that a thread caches, over all values */
    int row;        /* points of a row that suffice for one thread */
    int64_t wanted; /* threads that keep a GPU busy */
    int64_t parts;  /* most parts of a phase with partial sums in scratch */
    int64_t few;    /* elements that a thread sums accurately in f32 */
    int unroll;     /* points of a long row per iteration */
    int64_t tile;   /* least sizes of two dims to transpose by tiles */
    int held;       /* most values that a thread of the largest team has for all of a kernel */
} sc_cuda_limits;

extern const sc_cuda_limits sc_cuda_default_limits;
void sc_cuda_emit_within(const sc_kernel *k, const char *name, bool comments,
                         const sc_cuda_limits *limits, sc_strbuf *out, sc_helper_set *helpers,
                         sc_cuda_code *code);

enum { SC_CUDA_BODY = 1, SC_CUDA_READS = 2, SC_CUDA_POINT = 3, SC_CUDA_LANES = 4 };

typedef struct sc_cuda_phase {
    int64_t points; /* of a team: each is `lanes` elements of the last dim */
    int lanes;
    int64_t steps; /* 0, or points per thread, unrolled: cached values are in registers */
    bool finds;    /* its checks differ between points: the first that fails must be found */
} sc_cuda_phase;

typedef enum sc_cuda_team {
    SC_CUDA_THREADS, /* teams of one thread */
    SC_CUDA_ROWS,    /* neighbouring threads: part of a warp, or the block */
    SC_CUDA_COLUMNS, /* the block's warps; its lanes are 32 teams */
    SC_CUDA_TILES,   /* a block has a tile of two dims */
} sc_cuda_team;

/* Phases first .. end - 1 as one stage. */
typedef struct sc_cuda_form {
    uint32_t first, end;
    sc_cuda_team team;
    int team_threads, threads; /* per team; per block */
    bool live;                 /* threads beyond the last team must take part */
    /* The points of its only phase are split over this many blocks; 1: not split. A scatter is
     * split by output instead: each part owns a range of indices along one dim of the single
     * written argument and goes through the points that write there. */
    int64_t parts, per_part, whole;
    bool scatters;
    uint32_t position; /* of that dim in the argument */
    bool checks;       /* a block checks on behalf of all teams */
} sc_cuda_form;

/* Of the stage being planned or written. */
typedef struct sc_cuda_stage_text {
    sc_cuda_form form;
    int64_t teams;        /* of the kernel; a stage of checks has one, without indices */
    uint32_t order_count; /* outer dims whose indices it computes */
    int exchanges;        /* between threads of a team, so far */
    bool ordered;         /* a block barrier comes last in the text */
} sc_cuda_stage_text;

typedef struct sc_cuda_printer {
    sc_kernel_printer e; /* must be first: the target's callbacks get it */
    const sc_cuda_limits *limits;
    const char *name;
    sc_interval *intervals; /* of the kernel's nodes, regardless of checks */
    bool parallel;          /* points of each phase are independent, or scanned */
    bool scans;             /* teams compute running sums of integers: scan.c */
    sc_cuda_form stages[SC_CUDA_MAX_STAGES];
    uint32_t stage_count;
    uint32_t apart; /* leading phases, only checks: a stage; later ones stop if one fails */
    int lanes;      /* along the vector dim */
    int64_t teams;
    uint32_t tile_rows, tile_columns;                /* TILES: contiguous in loads, in stores */
    uint32_t order[SC_KERNEL_MAX_DIMS], order_count; /* outer, slowest first, vector last */
    bool exchange;                                   /* the team's threads share elements */
    bool wide;                                       /* indices need 64 bits */
    sc_cuda_phase *phases;
    int64_t *partials; /* per item: offset in scratch of its partial results, or -1 */
    int64_t scratch_bytes;
    /* Exchanges of a team alternate between two slots in shared memory: when the third begins, all
     * threads have read the first one's. */
    int slot_bytes;
    int shared_bytes;
    const sc_form *forms;            /* by node: integers as linear forms */
    bool *run_of_load, *run_of_item; /* lanes go through registers in this phase */
    const char *why_simple;
    sc_cuda_stage_text stage;
} sc_cuda_printer;

/* stage.c: text that all stages share. */
/* True if there are so many phases that the stage is shaped for compile time: topk's. */
bool sc_cuda_has_many_phases(const sc_cuda_printer *c);
const char *sc_cuda_index_type(const sc_cuda_printer *c);
/* Emits the indices of a point. */
void sc_cuda_point_indices(sc_cuda_printer *c, uint32_t phase);
/* The dim whose indices are lanes in the phase; SC_NONE: none. */
uint32_t sc_cuda_lane_dim(const sc_cuda_printer *c, uint32_t phase);
/* The name of the index of a thread's first lane: D_at. */
const char *sc_cuda_first_lane(sc_cuda_printer *c, uint32_t dim);
/* True if `lanes` neighbours along the dim are one aligned piece of memory. */
bool sc_cuda_is_run(const sc_cuda_printer *c, const sc_printer_access *access, uint32_t dim,
                    int lanes);
const char *sc_cuda_reducer(sc_item_kind kind);
int sc_cuda_next_slot(sc_cuda_printer *c);
/* Combines each thread's value of a reduction, in a variable with this letter, and gives the result
 * to all threads of the team. */
void sc_cuda_exchange(sc_cuda_printer *c, uint32_t item, char letter);

/* thread_plan.c */
void sc_cuda_plan(sc_cuda_printer *c);

/* vector_lanes.c */
/* Emits a point of the phase, whose items are first .. end - 1. */
void sc_cuda_point_text(sc_cuda_printer *c, uint32_t phase, uint32_t first, uint32_t end);

/* phase.c */
extern const sc_printer_target sc_cuda_target;
void sc_cuda_phase_text(sc_cuda_printer *c, uint32_t phase);

/* scatter.c */
bool sc_cuda_plan_scatter(sc_cuda_printer *c);
/* Opens the loops of a phase. */
void sc_cuda_open_scatter(sc_cuda_printer *c, uint32_t phase);

/* scan.c */
/* Decides whether teams execute the running sums of a kernel whose points must else run in order.
 * `columns`: neighbours in memory that run side by side otherwise, a thread each; 0: none. */
bool sc_cuda_plan_scan(sc_cuda_printer *c, int64_t columns);
/* True if the phase has running sums that the team computes. */
bool sc_cuda_scans(const sc_cuda_printer *c, uint32_t phase);
/* Opens the loop of such a phase; emits a running sum, or an addition beside them; false: neither.
 */
void sc_cuda_open_scan(sc_cuda_printer *c, uint32_t phase);
bool sc_cuda_scan_item(sc_kernel_printer *e, uint32_t item);

/* transpose.c */
bool sc_cuda_plan_tile(sc_cuda_printer *c);
int64_t sc_cuda_tiles(const sc_cuda_printer *c);
void sc_cuda_tile_text(sc_cuda_printer *c);

/* partial_sums.c: reductions passed from stage to stage. */
void sc_cuda_place_partials(sc_cuda_printer *c);
void sc_cuda_read_partials(sc_cuda_printer *c);
void sc_cuda_write_partials(sc_cuda_printer *c);

#endif
