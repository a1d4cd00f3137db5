/* Calls of functions of this library side by side, without Python between them. */

#include "vectors.h"

typedef struct {
    void (*function)(void *);
    void *arguments;
} Call;

typedef struct {
    const Call *calls;
    int count, next;
} Queue;

static void work(void *data) {
    Queue *queue = data;
    for (int k; (k = __atomic_fetch_add(&queue->next, 1, __ATOMIC_RELAXED)) < queue->count;)
        queue->calls[k].function(queue->calls[k].arguments);
}

/* parallel: GOMP_parallel of the OpenMP library whose threads share the calls; 0 for this thread alone. */
EXPORT void elmo_run(int count, const Call *calls, int threads,
                     void (*parallel)(void (*)(void *), void *, unsigned, unsigned)) {
    Queue queue = {calls, count, 0};
    if (parallel)
        parallel(work, &queue, threads, 0);
    else
        work(&queue);
}
