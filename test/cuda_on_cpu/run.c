/* Launches. A block's threads are fibers that give way where something orders them: at a barrier,
 * at what a warp does together, when they wait for copies, when they leave. So one that never waits
 * costs one switch, and a stack that it hands on to the next. The scheduler, on the caller's stack,
 * picks who goes on; a block in which nobody can has a barrier that is never reached, and is told
 * so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

static _Thread_local sc_machine_block *running;

sc_machine_block *sc_machine_now(void)
{
    return running;
}

/* ---- what ends a run ---- */

int sc_machine_report_add(sc_machine_report *report, const char *format, ...)
{
    size_t length = strlen(report->text);
    va_list args;
    va_start(args, format);
    int count = vsnprintf(report->text + length, sizeof report->text - length, format, args);
    va_end(args);
    return count;
}

/* Said later, by the caller's thread on its own stack. */
static void fail(sc_machine_block *b, int line, const char *format, va_list args)
{
    b->failed = true;
    b->why_line = line;
    b->why_thread = b->now == NULL ? -1 : b->now->index;
    vsnprintf(b->why, sizeof b->why, format, args);
}

/* The line of an instruction, which `addr2line` knows where there is one; 0: it cannot be told. */
static int line_of(const void *code)
{
    Dl_info info;
    char command[4352], answer[512];
    if (code == NULL || dladdr(code, &info) == 0 || strchr(info.dli_fname, '\'') != NULL)
        return 0;
    size_t offset = (size_t)((uintptr_t)code - (uintptr_t)info.dli_fbase);
    snprintf(command, sizeof command, "addr2line -e '%s' %zx 2>/dev/null", info.dli_fname,
             offset - 1);
    FILE *pipe = popen(command, "r");
    const char *colon =
        pipe != NULL && fgets(answer, sizeof answer, pipe) != NULL ? strrchr(answer, ':') : NULL;
    if (pipe != NULL)
        pclose(pipe);
    return colon == NULL ? 0 : (int)strtol(colon + 1, NULL, 10);
}

static void say(const sc_machine_block *b)
{
    int line = b->why_line > 0 || b->why_thread < 0 ? b->why_line : line_of(b->code);
    b->report->text[0] = 0;
    sc_machine_report_add(b->report, "%s, block %lld", b->launch->entry, (long long)b->block);
    if (b->why_thread >= 0)
        sc_machine_report_add(b->report, ", thread %d", b->why_thread);
    if (line > 0)
        sc_machine_report_add(b->report, ", line %d", line);
    else if (b->why_thread >= 0)
        sc_machine_report_add(b->report, ", after line %d", b->thread[b->why_thread].line);
    sc_machine_report_add(b->report, ": %s", b->why);
}

/* The scheduler sees that the run failed and resumes nobody: the stack is left as it is. */
_Noreturn static void leave(sc_machine_block *b)
{
    sc_fiber never;
    sc_fiber_switch(&never, b->scheduler);
    abort();
}

void sc_machine_stop(sc_machine_block *b, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(b, line, format, args);
    va_end(args);
    leave(b);
}

/* The same from the scheduler. */
__attribute__((format(printf, 2, 3))) static void stuck(sc_machine_block *b, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    fail(b, 0, format, args);
    va_end(args);
}

/* ---- threads ---- */

#define P1(i)  uint64_t
#define P4(i)  P1(i), P1(i), P1(i), P1(i)
#define P16(i) P4(i), P4(i), P4(i), P4(i)
#define A1(i)  p[i]
#define A4(i)  A1(i), A1((i) + 1), A1((i) + 2), A1((i) + 3)
#define A16(i) A4(i), A4((i) + 4), A4((i) + 8), A4((i) + 12)
#define A64(i) A16(i), A16((i) + 16), A16((i) + 32), A16((i) + 48)

/* Pointers and int64 are passed alike, and a function does not mind parameters behind its own, on
 * both CPUs' conventions. */
static void call_entry(const sc_machine_block *b)
{
    const uint64_t *p = b->params;
    if (b->param_count <= 16)
        ((void (*)(P16(0)))b->entry)(A16(0));
    else if (b->param_count <= 64)
        ((void (*)(P16(0), P16(0), P16(0), P16(0)))b->entry)(A64(0));
    else
        ((void (*)(P16(0), P16(0), P16(0), P16(0), P16(0), P16(0), P16(0), P16(0), P16(0), P16(0),
                   P16(0), P16(0)))b->entry)(A64(0), A64(64), A64(128));
}

static void run_thread(void)
{
    sc_machine_block *b = running;
    call_entry(b);
    sc_machine_thread *t = b->now;
    if (t->first_copy < t->copy_count)
        sc_machine_stop(b, t->copies[t->first_copy].line,
                        "the thread leaves while its copy is under way: no sc_copy_wait");
    t->state = SC_MACHINE_LEFT;
    b->left++;
    leave(b);
}

void sc_machine_yield(sc_machine_block *b)
{
    sc_fiber_switch(&b->now->fiber, b->scheduler);
}

static char *take_stack(sc_machine_block *b)
{
    if (b->free_count > 0)
        return b->free_stacks[--b->free_count];
    return sc_machine_stacks_begin(b->kept, b->stacks_begun++);
}

static void resume(sc_machine_block *b, sc_machine_thread *t)
{
    if (++b->turns > (b->launch->max_turns > 0 ? b->launch->max_turns : SC_MACHINE_MAX_TURNS)) {
        stuck(b, "the block goes on and on: thread %d waited at line %d, again", t->index, t->line);
        return;
    }
    if (t->stack == NULL) {
        t->stack = take_stack(b);
        if (t->stack == NULL) {
            stuck(b, "memory ran out");
            return;
        }
        /* not all at the same place of a page: they would take the same lines of the caches */
        size_t number = (size_t)(t->stack - b->stacks) / SC_MACHINE_STACK;
        t->fiber = sc_fiber_new(t->stack + SC_MACHINE_STACK - number % 61 * 448, run_thread);
    }
    b->now = t;
    sc_fiber_switch(&b->scheduler, t->fiber);
    b->now = NULL;
    if (t->state == SC_MACHINE_LEFT) {
        b->free_stacks[b->free_count++] = t->stack;
        t->stack = NULL;
    }
}

/* ---- what the table has for threads ---- */

static int thread_index(void)
{
    return running->now->index;
}

static int thread_count(void)
{
    return running->threads;
}

static int64_t block_index(void)
{
    return running->block;
}

static void sync_block(int line)
{
    sc_machine_block *b = running;
    sc_machine_thread *t = b->now;
    t->line = line;
    if (b->arrived == 0) {
        b->barrier_line = line;
        b->barrier_first = t->index;
    } else if (b->barrier_line != line) {
        sc_machine_stop(b, line,
                        "divergent barrier: the thread is at the sc_sync of line %d, thread %d at "
                        "that of line %d",
                        line, b->barrier_first, b->barrier_line);
    }
    t->state = SC_MACHINE_AT_BARRIER;
    if (++b->arrived == b->threads) {
        for (int i = 0; i < b->threads; i++)
            b->thread[i].state = SC_MACHINE_READY;
        b->arrived = 0;
        b->epoch++;
    }
    sc_machine_yield(b);
}

static void do_together(int line, int what, sc_machine_lane *lane)
{
    sc_machine_block *b = running;
    sc_machine_thread *t = b->now,
                      *lanes = b->thread + t->index / SC_MACHINE_WARP * SC_MACHINE_WARP;
    sc_machine_warp *warp = &b->warp[t->index / SC_MACHINE_WARP];
    t->line = line;
    t->lane = lane;
    t->what = what;
    if (warp->arrived == 0) {
        warp->what = what;
        warp->line = line;
        warp->first = t->index;
    } else if (warp->what != what || warp->line != line) {
        sc_machine_stop(
            b, line, "divergent warp: the thread is at %s (line %d), thread %d at %s (line %d)",
            sc_machine_what(what), line, warp->first, sc_machine_what(warp->what), warp->line);
    }
    t->state = SC_MACHINE_AT_WARP;
    if (++warp->arrived == SC_MACHINE_WARP) {
        warp->arrived = 0;
        sc_machine_do_together(b, what, lanes);
        for (int i = 0; i < SC_MACHINE_WARP; i++)
            lanes[i].state = SC_MACHINE_READY;
    }
    sc_machine_yield(b);
}

const sc_machine_table sc_machine_functions = {
    .thread = thread_index,
    .threads = thread_count,
    .block = block_index,
    .sync = sync_block,
    .together = do_together,
    .shared_load = sc_machine_shared_load,
    .shared_store = sc_machine_shared_store,
    .global_load = sc_machine_global_load,
    .global_store = sc_machine_global_store,
    .copy_async = sc_machine_copy_async,
    .copy_commit = sc_machine_copy_commit,
    .copy_wait = sc_machine_copy_wait,
    .global_add = sc_machine_global_add,
    .fail = sc_machine_global_lower,
    .touch = sc_machine_touch,
};

/* ---- blocks ---- */

/* Nobody can go on, and not all have left: says who waits where, and for whom. */
static void explain_stuck(sc_machine_block *b)
{
    for (int w = 0; w < b->warps; w++) {
        const sc_machine_warp *warp = &b->warp[w];
        if (warp->arrived == 0)
            continue;
        const sc_machine_thread *t = &b->thread[w * SC_MACHINE_WARP];
        while (t->state == SC_MACHINE_AT_WARP)
            t++;
        stuck(b,
              "wrong number of lanes: %d of 32 arrived at %s (line %d) in warp %d, thread %d %s "
              "(line %d)",
              warp->arrived, sc_machine_what(warp->what), warp->line, w, t->index,
              t->state == SC_MACHINE_LEFT ? "has left" : "waits at sc_sync", t->line);
        return;
    }
    const sc_machine_thread *t = b->thread;
    while (t->state == SC_MACHINE_AT_BARRIER)
        t++;
    stuck(b,
          "divergent barrier: %d of %d threads wait at sc_sync (line %d), thread %d has left "
          "(after line %d)",
          b->arrived, b->threads, b->barrier_line, t->index, t->line);
}

static bool step_all(sc_machine_block *b)
{
    bool any = false;
    for (int i = 0; i < b->threads && !b->failed; i++) {
        if (b->thread[i].state == SC_MACHINE_READY) {
            any = true;
            resume(b, &b->thread[i]);
        }
    }
    return any;
}

static bool step_warps(sc_machine_block *b, bool reversed)
{
    bool any = false;
    for (int w = 0; w < b->warps; w++) {
        int first = (reversed ? b->warps - 1 - w : w) * SC_MACHINE_WARP;
        bool went = true;
        while (went && !b->failed) {
            went = false;
            for (int lane = 0; lane < SC_MACHINE_WARP && !b->failed; lane++) {
                sc_machine_thread *t =
                    &b->thread[first + (reversed ? SC_MACHINE_WARP - 1 - lane : lane)];
                if (t->state == SC_MACHINE_READY) {
                    went = any = true;
                    resume(b, t);
                }
            }
        }
    }
    return any;
}

static void run_block(sc_machine_block *b, int64_t index)
{
    b->block = index;
    b->arrived = b->left = 0;
    b->turns = 0;
    for (int i = 0; i < b->threads; i++) {
        sc_machine_thread *t = &b->thread[i];
        t->state = SC_MACHINE_READY;
        t->line = 0;
        t->first_copy = t->copy_count = t->groups = 0;
    }
    sc_machine_shared_start(b);
    while (b->left < b->threads && !b->failed) {
        sc_machine_schedule schedule = b->launch->schedule;
        bool any = schedule == SC_MACHINE_LOCK_STEP
                       ? step_all(b)
                       : step_warps(b, schedule == SC_MACHINE_WARPS_REVERSED);
        if (!any)
            explain_stuck(b);
    }
}

/* ---- launches ---- */

/* Bits of x, mixed: SplitMix64's function of Steele, Lea and Flood, "Fast splittable pseudorandom
 * number generators", OOPSLA 2014. */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Blocks in an order that visits each once: shuffled, a number is enciphered (four rounds of
 * Feistel) until it is one of theirs. */
static int64_t block_at(const sc_machine_launch *launch, int64_t i)
{
    if (launch->order == SC_MACHINE_FORWARD)
        return i;
    if (launch->order == SC_MACHINE_REVERSED)
        return launch->blocks - 1 - i;
    int half = 1;
    while ((int64_t)1 << (2 * half) < launch->blocks)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (mixed(right ^ mixed(launch->seed + round)) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)launch->blocks);
    return (int64_t)x;
}

static const char *prepare(sc_machine_block *b, const sc_machine_launch *launch)
{
    const sc_machine_kernel *kernel = sc_machine_kernel_named(launch->module, launch->entry);
    b->entry = sc_machine_entry(launch->module, launch->entry);
    if (kernel == NULL || b->entry == NULL)
        return "there is no such kernel";
    if (launch->blocks < 1 || launch->blocks > INT32_MAX)
        return "a grid has 1 to 2^31 - 1 blocks";
    if (launch->threads < 1 || launch->threads > SC_MACHINE_MAX_THREADS ||
        launch->threads % SC_MACHINE_WARP != 0)
        return "a block has 32 to 1024 threads, a multiple of 32";
    if ((int)launch->threads > kernel->max_threads)
        return "the block has more threads than the kernel's launch bounds";
    if (launch->shared_bytes > 227 << 10)
        return "a block has at most 227 KiB of shared memory";
    if (kernel->param_count > SC_MACHINE_MAX_PARAMS)
        return "the kernel has too many parameters";
    b->param_count = kernel->param_count;
    for (int i = 0; i < b->param_count; i++)
        memcpy(&b->params[i], launch->params[i], sizeof b->params[i]);
    b->threads = (int)launch->threads;
    b->warps = b->threads / SC_MACHINE_WARP;
    return NULL;
}

static bool allocate(sc_machine_block *b, const sc_machine_launch *launch)
{
    size_t shared = launch->shared_bytes > 0 ? launch->shared_bytes : 1;
    b->thread = calloc((size_t)b->threads, sizeof *b->thread);
    b->free_stacks = calloc((size_t)b->threads, sizeof *b->free_stacks);
    b->bytes = calloc(shared, sizeof *b->bytes);
    b->shared = calloc(shared, 1);
    if (b->thread == NULL || b->free_stacks == NULL || b->bytes == NULL || b->shared == NULL)
        return false;
    if (launch->memory != NULL &&
        (b->arrays = sc_machine_arrays(launch->memory, &b->array_count)) == NULL)
        return false;
    for (int i = 0; i < b->threads; i++)
        b->thread[i].index = i;
    b->kept = sc_machine_stacks_take();
    if (b->kept == NULL)
        return false;
    b->stacks = sc_machine_stacks_first(b->kept);
    b->stack_count = (size_t)b->threads;
    return true;
}

static void release(sc_machine_block *b)
{
    for (int i = 0; b->thread != NULL && i < b->threads; i++)
        free(b->thread[i].copies);
    if (b->kept != NULL)
        sc_machine_stacks_give_back(b->kept);
    free(b->thread);
    free(b->free_stacks);
    free(b->bytes);
    free(b->shared);
    for (uint32_t i = 0; b->arrays != NULL && i < b->array_count; i++)
        free(b->arrays[i].touched);
    free(b->arrays);
}

/* With a stack for the handler of faults, since those of threads are what overflows. */
static const char *run_blocks(sc_machine_block *b)
{
    enum { FAULT_STACK = 64 << 10 };
    void *memory = malloc(FAULT_STACK);
    stack_t stack = {.ss_sp = memory, .ss_size = FAULT_STACK}, old;
    if (memory == NULL || sigaltstack(&stack, &old) != 0) {
        free(memory);
        return "no stack for faults";
    }
    sc_machine_catch_faults();
    sc_machine_block *outer = running;
    running = b;
    for (int64_t i = 0; i < b->launch->blocks && !b->failed; i++)
        run_block(b, block_at(b->launch, i));
    running = outer;
    sigaltstack(&old, NULL);
    free(memory);
    return NULL;
}

bool sc_machine_run(const sc_machine_launch *launch, sc_machine_report *report)
{
    sc_machine_block *b = calloc(1, sizeof *b);
    report->text[0] = 0;
    const char *why = b == NULL ? "memory ran out" : prepare(b, launch);
    if (why == NULL) {
        b->launch = launch;
        b->report = report;
        why = allocate(b, launch) ? run_blocks(b) : "memory ran out";
    }
    if (why != NULL)
        sc_machine_report_add(report, "%s: %s", launch->entry, why);
    bool ok = why == NULL && !b->failed;
    if (why == NULL && b->failed)
        say(b);
    if (b != NULL)
        release(b);
    free(b);
    return ok;
}
