/* Faults of kernels: accesses to pages that nobody has, and the traps of what C++ leaves undefined,
 * become reports. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <ucontext.h>

#include "test/cuda_on_cpu/engine.h"

enum { FAULTS = 5 };
static struct sigaction before[FAULTS];
static const int fault_signals[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

static void describe_fault(sc_machine_block *b, const char *at, const char *verb)
{
    if ((uintptr_t)at - (uintptr_t)b->stacks < b->stack_count * SC_MACHINE_STACK)
        sc_machine_stop(b, 0, "the thread's stack, which has %d bytes, overflows",
                        SC_MACHINE_STACK);
    sc_machine_array *a =
        b->arrays == NULL ? NULL : sc_machine_array_of(b->arrays, b->array_count, at);
    if (a == NULL)
        sc_machine_stop(b, 0, "%s at %p, which is no array's", verb, (const void *)at);
    long long from = (long long)((intptr_t)at - (intptr_t)a->data);
    if (from >= 0 && (size_t)from < a->bytes)
        sc_machine_stop(b, 0, "writes byte %lld of %s, which is only read", from, a->name);
    sc_machine_stop(b, 0, "%s byte %lld of %s, which has %zu", verb, from, a->name, a->bytes);
}

/* On the alternate stack, which the switch leaves for good; SA_NODEFER: no signal is left blocked.
 * Faults are the kernel's own, at an access of its: nothing of the engine is under way. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    sc_machine_block *b = sc_machine_now();
    if (b != NULL && b->now != NULL) {
        const char *verb = "reads or writes";
#if defined(__x86_64__)
        const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
        verb = (registers[REG_ERR] & 2) != 0 ? "writes" : "reads";
        uintptr_t code = (uintptr_t)registers[REG_RIP] + 1;
#else
        uintptr_t code = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc + 1;
#endif
        memcpy(&b->code, &code, sizeof code);
        if (signal == SIGFPE || signal == SIGILL || signal == SIGTRAP)
            sc_machine_stop(b, 0,
                            "an integer overflows or is divided by 0, a shift has too many bits, "
                            "or an index is beyond its array");
        describe_fault(b, info->si_addr, verb);
    }
    for (int i = 0; i < FAULTS; i++) {
        if (fault_signals[i] != signal)
            continue;
        if ((before[i].sa_flags & SA_SIGINFO) != 0) {
            before[i].sa_sigaction(signal, info, context);
        } else {
            /* the access happens again, under the old handler */
            sigaction(signal, &before[i], NULL);
        }
    }
}

/* Before each launch: a program, or a framework of tests before each of its tests, may have taken
 * them for itself in between. */
void sc_machine_catch_faults(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&fault_lock);
    for (int i = 0; i < FAULTS; i++) {
        struct sigaction old;
        sigaction(fault_signals[i], NULL, &old);
        if ((old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction == on_fault)
            continue;
        before[i] = old;
        sigaction(fault_signals[i], &action, NULL);
    }
    pthread_mutex_unlock(&fault_lock);
}
