/* Stacks of a launch's threads. Mapping a thousand of them and making a page of each nobody's takes
 * longer than most kernels run, so launches hand them on, and a page is guarded when its stack is
 * first begun. They stay until the process ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/cuda_on_cpu/engine.h"

/* In a page of its own in front of the stacks. */
struct sc_machine_stacks {
    sc_machine_stacks *next;
    size_t page, guarded; /* the first stacks, whose lowest page is nobody's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sc_machine_stacks *idle;

sc_machine_stacks *sc_machine_stacks_take(void)
{
    pthread_mutex_lock(&lock);
    sc_machine_stacks *taken = idle;
    if (taken != NULL)
        idle = taken->next;
    pthread_mutex_unlock(&lock);
    if (taken != NULL)
        return taken;
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           bytes = page + (size_t)SC_MACHINE_MAX_THREADS * SC_MACHINE_STACK;
    taken = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (taken == MAP_FAILED)
        return NULL;
    taken->page = page;
    return taken;
}

void sc_machine_stacks_give_back(sc_machine_stacks *stacks)
{
    pthread_mutex_lock(&lock);
    stacks->next = idle;
    idle = stacks;
    pthread_mutex_unlock(&lock);
}

char *sc_machine_stacks_first(sc_machine_stacks *stacks)
{
    return (char *)stacks + stacks->page;
}

char *sc_machine_stacks_begin(sc_machine_stacks *stacks, size_t number)
{
    char *stack = sc_machine_stacks_first(stacks) + number * SC_MACHINE_STACK;
    if (number < stacks->guarded)
        return stack;
    if (mprotect(stack, stacks->page, PROT_NONE) != 0)
        return NULL;
    stacks->guarded = number + 1;
    return stack;
}
