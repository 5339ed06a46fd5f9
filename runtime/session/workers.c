/* The thread pool of a session's ranks. */
#include "runtime/session/workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/executable.h"

typedef struct worker {
    sc_workers *workers;
    uint32_t index;
    pthread_t thread;
} worker;

struct sc_workers {
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    uint64_t round;   /* counts jobs; a worker runs each once */
    uint32_t working; /* workers that have not finished the job */
    sc_job *job;      /* NULL: exit */
    void *user;
    uint32_t count;
    worker *list;
};

static void *work(void *argument)
{
    worker *self = argument;
    sc_workers *workers = self->workers;
    for (uint64_t done = 0;; done++) {
        pthread_mutex_lock(&workers->lock);
        while (workers->round == done)
            pthread_cond_wait(&workers->begun, &workers->lock);
        sc_job *job = workers->job;
        void *user = workers->user;
        pthread_mutex_unlock(&workers->lock);
        if (job == NULL)
            return NULL;
        job(user, self->index);
        pthread_mutex_lock(&workers->lock);
        if (--workers->working == 0)
            pthread_cond_signal(&workers->ended);
        pthread_mutex_unlock(&workers->lock);
    }
}

static void begin(sc_workers *workers, sc_job *job, void *user)
{
    pthread_mutex_lock(&workers->lock);
    workers->job = job;
    workers->user = user;
    workers->working = workers->count;
    workers->round++;
    pthread_cond_broadcast(&workers->begun);
    pthread_mutex_unlock(&workers->lock);
}

void sc_workers_run(sc_workers *workers, sc_job *job, void *user)
{
    begin(workers, job, user);
    pthread_mutex_lock(&workers->lock);
    while (workers->working > 0)
        pthread_cond_wait(&workers->ended, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

/* ---- probing for threads ---- */

typedef struct probe {
    pthread_mutex_t lock;
    pthread_cond_t released;
    bool is_over;
} probe;

static void *wait_for_end(void *argument)
{
    probe *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->is_over)
        pthread_cond_wait(&p->released, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

shardc_status sc_workers_probe(uint32_t count, shardc_error *error)
{
    probe p = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER};
    pthread_t *threads = calloc(count + 1u, sizeof *threads);
    uint32_t started = 0, most = threads == NULL ? 0 : count;
    while (started < most && pthread_create(&threads[started], NULL, wait_for_end, &p) == 0)
        started++;
    pthread_mutex_lock(&p.lock);
    p.is_over = true;
    pthread_cond_broadcast(&p.released);
    pthread_mutex_unlock(&p.lock);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return started == count
               ? SHARDC_OK
               : sc_fail(error, SHARDC_ERROR_MEMORY,
                         "only %u of %u threads can be started: there is not enough memory",
                         started, count);
}

/* ---- creation and destruction ---- */

shardc_status sc_workers_new(uint32_t count, sc_workers **out, shardc_error *error)
{
    sc_workers *workers = calloc(1, sizeof *workers);
    worker *list = calloc(count, sizeof *list);
    *out = NULL;
    if (workers == NULL || list == NULL) {
        free(workers);
        free(list);
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for %u ranks",
                       count);
    }
    workers->list = list;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->begun, NULL);
    pthread_cond_init(&workers->ended, NULL);
    for (; workers->count < count; workers->count++) {
        worker *self = &list[workers->count];
        *self = (worker){.workers = workers, .index = workers->count};
        int reason = pthread_create(&self->thread, NULL, work, self);
        if (reason != 0) {
            sc_workers_free(workers);
            return sc_fail(error, SHARDC_ERROR_UNAVAILABLE, "cannot start a thread for rank %u: %s",
                           self->index, strerror(reason));
        }
    }
    *out = workers;
    return SHARDC_OK;
}

void sc_workers_free(sc_workers *workers)
{
    if (workers == NULL)
        return;
    begin(workers, NULL, NULL);
    for (uint32_t i = 0; i < workers->count; i++)
        pthread_join(workers->list[i].thread, NULL);
    pthread_cond_destroy(&workers->ended);
    pthread_cond_destroy(&workers->begun);
    pthread_mutex_destroy(&workers->lock);
    free(workers->list);
    free(workers);
}
