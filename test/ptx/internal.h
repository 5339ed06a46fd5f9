/* What the files of the interpreter share. */
#ifndef SHARDC_TEST_PTX_INTERNAL_H
#define SHARDC_TEST_PTX_INTERNAL_H

#include <stdarg.h>
#include <string.h>

#include "support/arena.h"
#include "support/vec.h"
#include "test/cuda_on_cpu/engine.h"
#include "test/ptx/ptx.h"

enum {
    SC_PTX_LANES = 32,
    SC_PTX_MAX_WARPS = SC_MACHINE_MAX_THREADS / SC_PTX_LANES,
    SC_PTX_MAX_OPERANDS = 144, /* of an instruction, vectors counted by element */
    SC_PTX_MAX_PARTS = 128,    /* of a vector */
    SC_PTX_MAX_DEPTH = 8       /* of calls */
};
#define SC_PTX_ALL 0xffffffffu

typedef enum sc_ptx_type {
#define TYPE(name, bytes) SC_PTX_##name,
#include "test/ptx/types.def"
#undef TYPE
    SC_PTX_TYPES,
    SC_PTX_NO_TYPE = SC_PTX_TYPES
} sc_ptx_type;

/* bytes 0: predicates, which are a bit a lane. */
typedef struct sc_ptx_type_info {
    const char *name;
    uint8_t bytes;
} sc_ptx_type_info;
extern const sc_ptx_type_info sc_ptx_types[];

typedef enum sc_ptx_space {
    SC_PTX_GENERIC,
    SC_PTX_GLOBAL,
    SC_PTX_SHARED,
    SC_PTX_LOCAL,       /* also what functions hand each other as .param */
    SC_PTX_KERNEL_PARAM /* of the entry */
} sc_ptx_space;

/* Windows of generic addresses, beyond what a process of the host has. Shared memory itself: first
 * what the launch asks for, then, at 2^20, what the text declares. */
#define SC_PTX_SHARED_WINDOW ((uint64_t)1 << 56)
#define SC_PTX_LOCAL_WINDOW  ((uint64_t)1 << 57)
#define SC_PTX_PARAM_WINDOW  ((uint64_t)1 << 58)
#define SC_PTX_SHARED_STATIC ((uint64_t)1 << 20)
#define SC_PTX_SHARED_FIRST  ((uint64_t)1024)

typedef struct sc_ptx_warp sc_ptx_warp;
typedef struct sc_ptx_block sc_ptx_block;
typedef struct sc_ptx_inst sc_ptx_inst;

/* ---- modules ---- */

/* A register, or a constant of 32 equal lanes. */
typedef struct sc_ptx_operand {
    uint32_t at;  /* byte in the registers, or in the constants */
    uint32_t reg; /* number in `set`; SC_PTX_CONSTANT */
    uint8_t bytes;
} sc_ptx_operand;
#define SC_PTX_CONSTANT 0xffffffffu

/* What the warp does with it. */
typedef enum sc_ptx_kind {
    SC_PTX_LANE,     /* each lane by itself */
    SC_PTX_TOGETHER, /* once all the lanes that it names are there */
    SC_PTX_BARRIER,  /* once all the block's threads are */
    SC_PTX_WAIT,     /* once `is_over` holds for the lanes */
    SC_PTX_BRANCH,
    SC_PTX_CALL,
    SC_PTX_RETURN,
    SC_PTX_EXIT
} sc_ptx_kind;

typedef void sc_ptx_do(sc_ptx_warp *w, const sc_ptx_inst *i);
typedef bool sc_ptx_test(sc_ptx_warp *w, const sc_ptx_inst *i);

struct sc_ptx_inst {
    sc_ptx_do *run;       /* LANE, TOGETHER, WAIT: with w->active the lanes that do it */
    sc_ptx_test *is_over; /* WAIT */
    const sc_ptx_operand *out, *in;
    int64_t offset;  /* of the address */
    uint32_t target; /* BRANCH: an instruction; CALL: a call */
    uint32_t line;   /* in the text */
    uint32_t guard,
        at; /* the guard's register: its number and its byte; guard SC_PTX_CONSTANT: none */
    uint8_t out_count, in_count;
    uint8_t kind, type, from_type; /* from_type: of cvt's operand */
    uint8_t space, vector;         /* vector: elements */
    uint8_t what;                  /* of the opcode's family */
    uint8_t members;               /* TOGETHER: 1 + the operand with their mask; 0: all lanes */
    bool guard_not, is_matmul;     /* is_matmul: of wgmma, whose registers are checked there */
    /* what it reads must have been written: it makes memory, or what all lanes do, of it; others
       hand on that nothing was */
    bool is_strict;
};

typedef struct sc_ptx_copy_of_param {
    uint32_t from, to, bytes; /* in the frame */
} sc_ptx_copy_of_param;

typedef struct sc_ptx_call {
    const char *function;
    uint32_t target; /* its first instruction */
    /* what the caller names; once the function is known: the copies */
    sc_ptx_copy_of_param given[8], results[2];
    uint32_t given_count, result_count;
} sc_ptx_call;

typedef struct sc_ptx_param {
    const char *name;
    uint32_t at, bytes;
} sc_ptx_param;
typedef SC_VEC(sc_ptx_param) sc_ptx_params;

typedef struct sc_ptx_function {
    sc_machine_kernel kernel; /* of an entry */
    const char *name;
    bool is_entry;
    uint32_t first, end; /* instructions */
    sc_ptx_params params, results;
    const char *body; /* of the text, behind its { */
    uint32_t body_line;
} sc_ptx_function;

typedef struct sc_ptx_known {
    uint64_t bits;
    uint32_t at;
    uint8_t bytes;
} sc_ptx_known;

struct sc_ptx_module {
    sc_arena arena;
    const char *text;
    int capability;
    SC_VEC(sc_ptx_inst) code;
    SC_VEC(sc_ptx_call) calls;
    SC_VEC(sc_ptx_function) functions;
    unsigned char *constants;
    uint32_t constant_bytes, constant_room;
    bool is_async;                  /* has what async.h has */
    SC_VEC(sc_ptx_known) known;     /* constants */
    uint32_t file_bytes, reg_count; /* registers of the entry that has most */
    uint32_t frame_bytes;           /* .local and .param of functions, a lane's */
    uint32_t shared_bytes;          /* what the text declares */
    sc_machine_array variables; /* .global and .const with their values, read only; data: room */
};
enum { SC_PTX_VARIABLE_ROOM = 1 << 16, SC_PTX_VARIABLE_ALIGN = 256 };

/* The special registers that are read are the first of every warp's. */
enum { SC_PTX_TID, SC_PTX_NTID, SC_PTX_CTAID, SC_PTX_NCTAID, SC_PTX_LANEID, SC_PTX_SPECIALS };

/* ---- parse.c, decode.c ---- */
typedef struct sc_ptx_parser sc_ptx_parser;

/* An operand as it is written: registers and constants are resolved when the form, and with it the
 * type, is known. */
typedef enum sc_ptx_raw_kind {
    SC_PTX_RAW_WORD,   /* register, symbol, label */
    SC_PTX_RAW_NUMBER, /* with its sign */
    SC_PTX_RAW_VECTOR,
    SC_PTX_RAW_ADDRESS,
    SC_PTX_RAW_LIST /* of a call */
} sc_ptx_raw_kind;

typedef struct sc_ptx_raw {
    sc_ptx_raw_kind kind;
    const char *text;   /* WORD, NUMBER; ADDRESS: its base */
    const char *second; /* WORD: behind |; NULL: none */
    bool is_not;        /* WORD: behind ! */
    int64_t offset;     /* ADDRESS */
    const char **parts; /* ADDRESS: the coordinates of a tensor */
    uint32_t part_count;
} sc_ptx_raw;

typedef struct sc_ptx_statement {
    char opcode[96];
    const char *dot; /* the opcode's part that is not looked at yet: begins with . or is empty */
    sc_ptx_raw operands[8];
    uint32_t count;
    sc_ptx_inst inst;
    sc_ptx_operand out[SC_PTX_MAX_OPERANDS], in[SC_PTX_MAX_OPERANDS];
} sc_ptx_statement;

/* A row of roots.def. */
typedef struct sc_ptx_root {
    const char *name;
    bool (*decode)(sc_ptx_parser *p, sc_ptx_statement *s);
} sc_ptx_root;

/* A row of *_forms.def: all lanes alike. */
typedef struct sc_ptx_form {
    const char *name;
    sc_ptx_do *run;
    uint8_t out, in[4]; /* types; SC_PTX_NO_TYPE: none */
} sc_ptx_form;
extern const sc_ptx_form sc_ptx_integer_forms[], sc_ptx_float_forms[];
extern const uint32_t sc_ptx_integer_form_count, sc_ptx_float_form_count;

/* A row of compare.def: of setp. */
typedef struct sc_ptx_compare {
    const char *name, *type;
    sc_ptx_do *run;
} sc_ptx_compare;
extern const sc_ptx_compare sc_ptx_compares[];
extern const uint32_t sc_ptx_compare_count;

/* Reports the line, once; false. */
bool sc_ptx_wrong(sc_ptx_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
sc_ptx_module *sc_ptx_parser_module(sc_ptx_parser *p);
/* What a word is: false after a report. */
bool sc_ptx_find_register(sc_ptx_parser *p, const char *name, sc_ptx_operand *out, bool *found);
/* A variable's address in its space. */
bool sc_ptx_find_variable(sc_ptx_parser *p, const char *name, sc_ptx_space *space, uint64_t *at,
                          uint32_t *bytes);
/* The label's instruction, once the body is read. */
void sc_ptx_want_label(sc_ptx_parser *p, const char *name);
/* A constant's bits. */
bool sc_ptx_immediate(sc_ptx_parser *p, const char *text, sc_ptx_type type, uint64_t *out);
/* Fills the instruction in. */
bool sc_ptx_decode(sc_ptx_parser *p, sc_ptx_statement *s);
sc_ptx_operand sc_ptx_constant(sc_ptx_module *module, uint64_t bits, uint8_t bytes);

/* ---- execution ---- */

/* Who touched a byte last: as sc_machine_byte (test/cuda_on_cpu/order.c), with instructions for
 * lines. */
typedef struct sc_ptx_byte {
    uint32_t write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
    uint32_t write_pc, read_pc;
    uint16_t writer, reader; /* from 1 */
    uint16_t other;          /* another reader of the reader's warp, in the same warp epoch */
    uint16_t foreign;        /* a reader of another warp, in the same epoch */
    uint16_t copying;        /* the thread whose copy is under way */
    bool read_before;        /* by an earlier block */
    bool is_constant;        /* ld.global.nc takes it for what the launch does not change */
} sc_ptx_byte;

typedef struct sc_ptx_copy {
    uint64_t to, from;
    uint32_t bytes, group, pc; /* bytes: that are read of 16, or of size; the others become 0 */
    uint8_t size, lane;
} sc_ptx_copy;

struct sc_ptx_warp {
    sc_ptx_block *b;
    uint32_t index; /* in the block */
    unsigned char *registers;
    uint32_t *set;    /* of each register the lanes that have a value in it */
    uint32_t *low;    /* and those that have one in its lower 32 bits, at least */
    uint32_t defined; /* of the instruction the lanes that make a value of values */
    uint32_t half;    /* and those that make at least the lower 32 bits of it */
    unsigned char *frame;
    uint32_t *frame_set;
    /* lanes: the ones that go on with pc, and those that do not */
    uint32_t group, pc, limit; /* limit: the least pc of other lanes that can run */
    uint32_t active;           /* of the instruction */
    uint32_t exited, waiting, at_barrier, blocked; /* blocked: at a WAIT */
    uint32_t vain;                                 /* waits of this turn that were not over */
    uint32_t lane_pc[SC_PTX_LANES];
    uint32_t carry; /* CC.CF, a bit a lane */
    uint8_t depth[SC_PTX_LANES];
    uint32_t calls[SC_PTX_LANES][SC_PTX_MAX_DEPTH];
    uint32_t epoch; /* counts bar.warp.sync */
    sc_ptx_copy *copies;
    uint32_t copy_count, copy_room, groups[SC_PTX_LANES];
    /* async.h: matmuls under way, the groups that are committed, of each register the matmuls that
       use it and whether it was written behind the last wgmma.fence */
    struct sc_ptx_product *products;
    uint32_t product_count, product_room, product_groups;
    uint16_t *busy;
    bool *is_fresh;
    uint32_t bulk_groups[SC_PTX_LANES];
};

struct sc_ptx_block {
    const sc_ptx_module *module;
    const sc_ptx_function *function;
    const sc_machine_launch *launch;
    sc_machine_report *report;
    sc_ptx_errors errors;
    unsigned char *constants;
    _Alignas(128) unsigned char params[8 * SC_MACHINE_MAX_PARAMS];
    uint32_t param_bytes;
    int64_t index;
    uint32_t warp_count;
    sc_ptx_warp *warps;
    uint32_t epoch, first_epoch; /* counts barriers, over blocks too */
    unsigned char *shared;       /* what the launch asks for, then what the text declares */
    sc_ptx_byte *shared_bytes;
    uint32_t dynamic_bytes, all_shared;
    sc_machine_array *arrays;
    uint32_t array_count;
    sc_machine_array variables; /* the module's */
    sc_ptx_byte **touched;      /* of each array, mapped when it is first touched */
    sc_machine_array *last;     /* the last that was looked up */
    uint64_t steps;             /* instructions of warps, of this block */
    struct sc_ptx_async *async; /* NULL: the module has none of it */
    bool failed;
};

/* Ends the launch: the first report counts. */
void sc_ptx_fail(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* `count` characters of the text's line. */
const char *sc_ptx_line(const sc_ptx_module *module, uint32_t line, int *count);

static inline const void *sc_ptx_in(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k)
{
    const sc_ptx_operand *o = &i->in[k];
    return (o->reg == SC_PTX_CONSTANT ? w->b->constants : w->registers) + o->at;
}

/* The operand's lane, to 64 bits. */
static inline uint64_t sc_ptx_in_lane(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k,
                                      uint32_t lane)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)sc_ptx_in(w, i, k) + (size_t)lane * i->in[k].bytes,
           i->in[k].bytes);
    return value;
}

/* The lanes that have a value in it. */
static inline uint32_t sc_ptx_in_set(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k)
{
    return i->in[k].reg == SC_PTX_CONSTANT ? SC_PTX_ALL : w->set[i->in[k].reg];
}

static inline uint32_t sc_ptx_in_low(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k)
{
    return i->in[k].reg == SC_PTX_CONSTANT ? SC_PTX_ALL : w->low[i->in[k].reg];
}

static inline void sc_ptx_note_set(sc_ptx_warp *w, uint32_t reg)
{
    uint32_t low = w->defined | w->half;
    w->set[reg] = (w->set[reg] & ~w->active) | (w->defined & w->active);
    w->low[reg] = (w->low[reg] & ~w->active) | (low & w->active);
    if (w->is_fresh != NULL)
        w->is_fresh[reg] = true;
}

static inline uint32_t sc_ptx_in_bits(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k)
{
    uint32_t bits;
    memcpy(&bits, sc_ptx_in(w, i, k), sizeof bits);
    return bits;
}

/* 32 lanes of the width that the register has: those that are active get them. */
static inline void sc_ptx_out(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, const void *lanes)
{
    const sc_ptx_operand *o = &i->out[k];
    unsigned char *to = w->registers + o->at;
    if (w->active == SC_PTX_ALL) {
        memcpy(to, lanes, (size_t)SC_PTX_LANES * o->bytes);
    } else {
        for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
            if ((w->active >> l & 1) != 0)
                memcpy(to + (size_t)l * o->bytes, (const char *)lanes + (size_t)l * o->bytes,
                       o->bytes);
        }
    }
    sc_ptx_note_set(w, o->reg);
}

static inline void sc_ptx_out_bits(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint32_t bits)
{
    const sc_ptx_operand *o = &i->out[k];
    uint32_t old;
    memcpy(&old, w->registers + o->at, sizeof old);
    bits = (bits & w->active) | (old & ~w->active);
    memcpy(w->registers + o->at, &bits, sizeof bits);
    sc_ptx_note_set(w, o->reg);
}

/* ---- warp.c ---- */
typedef enum sc_ptx_pick { SC_PTX_LEAST_FIRST, SC_PTX_GREATEST_FIRST } sc_ptx_pick;
/* Until nobody can go on without others, or so many instructions are done; whether any was. */
bool sc_ptx_warp_run(sc_ptx_warp *w, sc_ptx_pick pick, uint32_t slice);
/* Reports why lanes wait for good. */
void sc_ptx_explain_stuck(sc_ptx_block *b);

/* The lanes have a value in the operand; false after a report. */
bool sc_ptx_is_set(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint32_t lanes);

/* ---- memory.c ---- */
sc_ptx_do sc_ptx_load_memory, sc_ptx_store_memory, sc_ptx_atomic;
/* The bytes in the host's memory, checked for bounds and alignment; NULL after a report. A generic
 * space becomes that which the address is in. `*bytes`: their shadows, or NULL. */
unsigned char *sc_ptx_resolve(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                              sc_ptx_space *space, uint64_t at, uint32_t count,
                              sc_ptx_byte **bytes);
/* The same, for a lane that reads or writes them: somebody wrote them, and nobody races. */
const unsigned char *sc_ptx_read(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                 sc_ptx_space space, uint64_t at, uint32_t count);
unsigned char *sc_ptx_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_space space,
                            uint64_t at, uint32_t count);
/* By another agent than the lane's thread, which is the one reported. */
typedef struct sc_ptx_actor sc_ptx_actor;
const unsigned char *sc_ptx_read_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                    const sc_ptx_actor *actor, sc_ptx_space space, uint64_t at,
                                    uint32_t count);
unsigned char *sc_ptx_write_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                               const sc_ptx_actor *actor, sc_ptx_space space, uint64_t at,
                               uint32_t count);

/* ---- races.c ---- */
/* `lane` touches `count` bytes, of a shadow each; false after a report. */
bool sc_ptx_order_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_byte *bytes,
                        uint32_t count, bool is_shared);

/* ---- copies.c ---- */
sc_ptx_do sc_ptx_copy_async, sc_ptx_copy_commit, sc_ptx_copy_wait;
/* What is under way when the block ends is of no account. */
void sc_ptx_copies_drop(sc_ptx_warp *w);

/* ---- together.c, matrices.c ---- */
sc_ptx_do sc_ptx_shuffle, sc_ptx_vote, sc_ptx_sync_warp, sc_ptx_load_matrices,
    sc_ptx_store_matrices, sc_ptx_multiply;
/* Rounded as the sums of tensor cores are. */
float sc_ptx_rounded_sum(const sc_ptx_block *b, double sum);

#endif
