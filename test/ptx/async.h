/* What sm_90 does beside its threads: mbarriers, bulk copies (TMA) and warpgroup matmuls (wgmma),
 * and who is ordered after whom by way of mbarriers. A module that has none of them has none of
 * this. */
#ifndef SHARDC_TEST_PTX_ASYNC_H
#define SHARDC_TEST_PTX_ASYNC_H

#include "test/ptx/internal.h"
#include "test/ptx/tensor_map.h"

/* ---- clocks.c: who knows of what ----
 *
 * Agents are the block's threads, then the matmuls of each warp, then all bulk copies. Each has a
 * clock, which grows whenever it publishes what it did; a thread knows of other agents' accesses up
 * to a clock. An mbarrier hands on what those who arrive know to those who wait. */

/* Of a byte of shared memory: the clocks of the agents that sc_ptx_byte names. */
typedef struct sc_ptx_stamp {
    uint32_t write, read, other, foreign;
    uint32_t fences;  /* of the writer at the time: fence.proxy.async publishes what is older */
    bool is_generic;  /* written by a thread's own store */
    bool is_mbarrier; /* part of an mbarrier, and no data */
} sc_ptx_stamp;

/* Who accesses memory. */
struct sc_ptx_actor {
    uint32_t self;         /* agent, from 1 */
    uint32_t clock;        /* its own */
    const uint32_t *known; /* of each agent; NULL: only barriers of the block order accesses */
    bool is_async;         /* through the async proxy */
};

typedef struct sc_ptx_mbarrier {
    uint64_t at;             /* shared address */
    uint32_t count, pending; /* arrivals of a phase, those that are missing */
    int64_t bytes;           /* of copies that are expected and have not arrived */
    uint64_t phase;
    uint32_t *arriving, *done; /* what arrivals of this phase, and of completed phases, know */
} sc_ptx_mbarrier;

/* A bulk copy under way. */
typedef struct sc_ptx_bulk {
    const sc_ptx_inst *inst;
    uint32_t warp, lane;
    bool is_tensor, is_store;
    sc_ptx_tensor_map map;
    int32_t place[SC_PTX_TENSOR_RANK]; /* of the box in the tensor, innermost first */
    uint64_t shared, global;           /* addresses; global: without a map */
    uint32_t bytes;
    uint64_t mbarrier; /* of loads */
    uint32_t group;    /* of stores: the lane's */
    uint32_t clock;    /* of stores: once their source is read; 0: not yet */
    uint32_t *known;   /* what the issuing thread knew */
} sc_ptx_bulk;

/* A matmul under way: of wgmma.mma_async. */
typedef struct sc_ptx_product {
    const sc_ptx_inst *inst;
    uint32_t group;
    uint32_t a[4][SC_PTX_LANES]; /* where A is in registers */
    uint64_t desc_a, desc_b;
    bool accumulates;
    bool is_done;
    uint32_t clock;  /* of the warp's matmuls */
    uint32_t *known; /* what all lanes knew when it was issued */
} sc_ptx_product;

typedef struct sc_ptx_async {
    uint32_t threads, agents;
    uint32_t *known;   /* [threads][agents] */
    uint32_t *fences;  /* fence.proxy.async of each thread */
    uint32_t *matmuls; /* clock of each warp's */
    uint32_t copies;   /* clock of the bulk copies */
    uint32_t *common;  /* [agents], scratch: what all lanes of a warp know */
    sc_ptx_stamp *stamps;
    sc_ptx_mbarrier *mbarriers;
    uint32_t mbarrier_count, mbarrier_room;
    sc_ptx_bulk *bulks;
    uint32_t bulk_count, bulk_room;
    uint32_t *warp_registers; /* of a thread of each warp: setmaxnreg */
    uint64_t *matmul_trail;   /* of each warp, of which matmuls it did: a group's four agree */
} sc_ptx_async;

/* False: memory ran out. */
bool sc_ptx_async_new(sc_ptx_block *b);
void sc_ptx_async_free(sc_ptx_block *b);
void sc_ptx_async_begin_block(sc_ptx_block *b);
/* What is still under way, or not alike, when all threads have left, is reported. */
void sc_ptx_async_end_block(sc_ptx_block *b);

sc_ptx_actor sc_ptx_thread(const sc_ptx_warp *w, uint32_t lane);
bool sc_ptx_knows(const sc_ptx_actor *a, uint32_t agent, uint32_t clock);
/* The lane publishes what it knows to `into`, and what it does from now on is later. */
void sc_ptx_release(sc_ptx_warp *w, uint32_t lane, uint32_t *into);
void sc_ptx_acquire(sc_ptx_warp *w, uint32_t lane, const uint32_t *from);
/* Lanes tell each other all that they know. */
void sc_ptx_join_lanes(sc_ptx_warp *w);
/* What all lanes of the warp know, until the next call. */
const uint32_t *sc_ptx_common(sc_ptx_warp *w);
uint32_t sc_ptx_matmul_agent(const sc_ptx_warp *w);
uint32_t sc_ptx_bulk_agent(const sc_ptx_block *b);

/* ---- mbarriers.c ---- */
sc_ptx_do sc_ptx_mbarrier_init, sc_ptx_mbarrier_inval, sc_ptx_mbarrier_arrive,
    sc_ptx_mbarrier_expect, sc_ptx_mbarrier_wait, sc_ptx_fence_proxy, sc_ptx_no_operation;
/* Whether all active lanes can go on; a wait of others is over when this changes. */
bool sc_ptx_mbarrier_is_over(sc_ptx_warp *w, const sc_ptx_inst *i);
/* NULL after a report: there is no mbarrier. */
sc_ptx_mbarrier *sc_ptx_mbarrier_at(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                    uint64_t at);
/* `bytes` of a copy have arrived. */
void sc_ptx_mbarrier_complete(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                              sc_ptx_mbarrier *m, uint32_t bytes);
/* Says what an mbarrier waits for. */
void sc_ptx_mbarrier_explain(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane);

/* ---- bulk.c ---- */
sc_ptx_do sc_ptx_bulk_load, sc_ptx_bulk_store, sc_ptx_bulk_commit, sc_ptx_bulk_wait,
    sc_ptx_bulk_prefetch;
/* Copies that arrive as late as allowed: one of them does; false: none is under way. */
bool sc_ptx_bulk_arrive_one(sc_ptx_block *b);

/* ---- matmul.c ----
 *
 * Operands: D's registers are the results; A's registers or its descriptor, B's descriptor, whether
 * D is added to. `what` has what the immediates say. */
enum {
    SC_PTX_MATMUL_NEGATES_A = 1,
    SC_PTX_MATMUL_NEGATES_B = 2,
    SC_PTX_MATMUL_A_IS_M_MAJOR = 4,
    SC_PTX_MATMUL_B_IS_N_MAJOR = 8,
    SC_PTX_MATMUL_A_IS_SHARED = 16
};
sc_ptx_do sc_ptx_matmul_fence, sc_ptx_matmul, sc_ptx_matmul_commit, sc_ptx_matmul_wait;
/* Forgets what the block before left. */
void sc_ptx_matmul_begin_warp(sc_ptx_warp *w);
/* What a matmul under way uses, nothing else reads or writes; false after a report. */
bool sc_ptx_registers_are_free(sc_ptx_warp *w, const sc_ptx_inst *i);

/* ---- together.c ---- */
sc_ptx_do sc_ptx_elect, sc_ptx_set_registers;
bool sc_ptx_registers_are_there(sc_ptx_warp *w, const sc_ptx_inst *i);

/* ---- races.c: as sc_ptx_order_read and _write, by an actor; `lane` is the one reported ---- */
bool sc_ptx_order_read_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                          const sc_ptx_actor *actor, sc_ptx_byte *bytes, uint32_t count,
                          bool is_shared);
bool sc_ptx_order_write_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                           const sc_ptx_actor *actor, sc_ptx_byte *bytes, uint32_t count,
                           bool is_shared);
/* The mbarrier in these bytes was made before; false after a report. */
bool sc_ptx_order_mbarrier(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                           const sc_ptx_byte *bytes);
/* `bytes` have what an actor wrote now: it is ordered by what allowed it. */
void sc_ptx_note_write(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_actor *actor,
                       sc_ptx_byte *bytes, uint32_t count);

#endif
