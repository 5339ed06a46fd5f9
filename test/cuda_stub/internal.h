/* What the files of the driver's stub share. Everything here is called with the lock held. */
#ifndef SHARDC_TEST_CUDA_STUB_INTERNAL_H
#define SHARDC_TEST_CUDA_STUB_INTERNAL_H

#include <pthread.h>

#include "test/cuda_on_cpu/harness.h"
#include "test/cuda_stub/stub.h"
#include "test/ptx/ptx.h"

/* More results of cuda.h 13.0. */
enum {
    RESULT_INVALID_VALUE = 1,
    RESULT_NOT_INITIALISED = 3,
    RESULT_INVALID_DEVICE = 101,
    RESULT_INVALID_IMAGE = 200,
    RESULT_INVALID_CONTEXT = 201,
    RESULT_INVALID_PTX = 218,
    RESULT_INVALID_HANDLE = 400,
    RESULT_ILLEGAL_STATE = 401,
    RESULT_LAUNCH_OUT_OF_RESOURCES = 701,
    RESULT_CONTEXT_IS_DESTROYED = 709,
    RESULT_LAUNCH_FAILED = 719,
    RESULT_CAPTURE_UNSUPPORTED = 900,
    RESULT_CAPTURE_INVALIDATED = 901,
    RESULT_CAPTURE_MERGE = 902,
    RESULT_CAPTURE_UNMATCHED = 903,
    RESULT_CAPTURE_UNJOINED = 904,
    RESULT_CAPTURE_ISOLATION = 905,
    RESULT_CAPTURED_EVENT = 907,
    RESULT_CAPTURE_WRONG_THREAD = 908,
    RESULT_UNKNOWN = 999
};

enum { MAX_GPUS = 16, MAX_ENTRIES = 256 };

/* ---- objects: what handles point to ---- */
typedef enum object_kind {
    CONTEXT,
    MODULE,
    MEMORY,
    PINNED,
    STREAM,
    EVENT,
    GRAPH,
    GRAPH_EXEC,
    OBJECT_KINDS
} object_kind;

typedef struct object {
    object_kind kind;
    struct object *next;
    struct CUctx_st *context;
} object;

typedef struct allocation {
    object base;
    char *at;
    size_t bytes;
} allocation;

struct CUctx_st {
    object base;
    int gpu;
    uint32_t retained;
    size_t used;
    sc_machine_memory *memory;
};

struct CUfunc_st {
    struct CUmod_st *module;
    const sc_machine_kernel *kernel;
    uint32_t dynamic_shared;
};

struct CUmod_st {
    object base;
    sc_machine_module *code; /* CUDA's text, or */
    sc_ptx_module *ptx;      /* what NVRTC made of it */
    uint32_t function_count;
    struct CUfunc_st functions[MAX_ENTRIES];
};

/* ---- work ---- */
typedef enum op_kind { OP_WORK, OP_RECORD, OP_WAIT } op_kind;

/* A call of cuEventRecord; several may hold it. */
typedef struct record {
    uint32_t refs;
    bool is_done;
    double time;
    struct CUstream_st *stream;
    uint64_t capture; /* number of the capture that it is of; 0: none */
    uint32_t *tail;   /* of a capture: the nodes that it stands behind */
    uint32_t tail_count;
} record;

typedef struct op {
    op_kind kind;
    struct op *next;
    record *record; /* RECORD, WAIT */
    sc_stub_work work;
    void *data;
    size_t bytes;
    struct CUctx_st *context;
} op;

typedef struct node {
    op *work;
    uint32_t *after;
    uint32_t after_count;
} node;

/* Nodes of a graph; an exec and its launches share them. */
typedef struct nodes {
    uint32_t refs, count, room;
    node *list;
} nodes;

typedef struct capture {
    uint64_t number;
    struct CUstream_st *origin;
    sc_cu_capture_mode mode;
    pthread_t thread;
    bool is_invalid;
    nodes *nodes;
    struct capture *next;
} capture;

struct CUstream_st {
    object base;
    op *first, *last;
    bool is_destroyed; /* goes when it is empty */
    struct CUstream_st *next;
    capture *capture;
    uint32_t *tail; /* in a capture: nodes that the next one stands behind */
    uint32_t tail_count;
    int priority;
};

struct CUevent_st {
    object base;
    unsigned flags;
    record *latest; /* NULL: never recorded */
};

struct CUgraph_st {
    object base;
    nodes *nodes;
};

struct CUgraphExec_st {
    object base;
    nodes *nodes;
};

/* ---- the whole ---- */
typedef struct stub {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_initialised;
    int gpus, major, minor, driver, mode, shared_kib;
    size_t memory;
    bool is_poisoned; /* memory that is new has no zeros */
    sc_ptx_errors errors;
    uint64_t seed, random;
    /* the host cannot touch device memory: in one order of four, since it takes its time */
    bool is_guarded;
    sc_cu_context primary[MAX_GPUS];
    object *objects;
    sc_cu_stream streams; /* with those that are destroyed and not empty */
    capture *captures;
    uint64_t capture_count;
    sc_cu_result broken; /* what every call says from now on */
    char report[1024];   /* why */
    uint64_t launches, replays, allocated, calls, fail_at;
    char fail_function[64];
    unsigned fail_result;
    const char *failed;
    const char *delayed; /* kernels of that name take `delay_ms` on GPU `delay_gpu`; NULL: none */
    int delay_gpu;
    uint32_t delay_ms;
} stub;

extern stub the;
extern _Thread_local sc_cu_context current;

uint64_t draw(uint64_t below);
void *must_have(void *memory);

/* ---- control.c ---- */
void read_environment(void);
/* Takes the lock: the call's result so far, which `leave` gives back with the lock. */
typedef enum call_flags { ANYWHERE = 0, IN_CONTEXT = 1, UNSAFE_IN_CAPTURE = 2 } call_flags;
sc_cu_result enter(const char *function, int flags);
sc_cu_result leave(sc_cu_result result);
bool is_live(const void *object, object_kind kind);
/* Frees all that the context has. */
void purge_context(const struct CUctx_st *context);
/* Zeroed, and among the live. */
void *new_object(object_kind kind, size_t bytes);
void free_object(void *handle);

/* A function of the driver: its result, with the lock held while `work` is done. */
#define CALL(flags, work)                                                                          \
    do {                                                                                           \
        sc_cu_result entered = enter(__func__, flags);                                             \
        return leave(entered != SC_CU_SUCCESS ? entered : (sc_cu_result)(work));                   \
    } while (0)

/* ---- driver.c ---- */
allocation *allocation_of(object_kind kind, const void *at, size_t bytes);
/* While work runs. */
void open_memory(bool open);
void free_allocation(allocation *a);

/* The driver's functions, which the runtime looks up. */
#define SYMBOL(result, name, ...) SC_STUB_API result name(__VA_ARGS__);
#include "runtime/cuda/libcuda.def"
#undef SYMBOL

/* ---- queue.c ---- */
double now(void); /* seconds */
/* Work that cannot be put is dropped. */
sc_cu_result put(sc_cu_stream stream, const sc_stub_work *work, const void *data, size_t bytes);
void op_free(op *o);
void record_drop(record *r);
bool run_work(op *o);
/* Until it is done, or something broke. */
sc_cu_result drain_stream(sc_cu_stream stream);
sc_cu_result drain_all(void);
void drop_stream(sc_cu_stream stream);

/* ---- capture.c ---- */
capture *capture_numbered(uint64_t wanted);
/* Whether a call that captures do not allow is made in one; it is invalid then. */
bool spoils_capture(void);
void capture_add(sc_cu_stream stream, op *o);
void set_tail(uint32_t **tail, uint32_t *count, const uint32_t *list, uint32_t list_count);
void add_tail(uint32_t **tail, uint32_t *count, const uint32_t *list, uint32_t list_count);
void nodes_drop(nodes *n);

#endif
