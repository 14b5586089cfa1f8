/* Two threads take turns: nothing that a checker of data races may complain about. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, count;

static void *run(void *argument) {
    int own = *(int *)argument;
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != own)
            pthread_cond_wait(&cond, &mutex);
        turn = !own;
        count++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void) {
    int zero = 0, one = 1;
    pthread_t other;
    pthread_create(&other, NULL, run, &one);
    run(&zero);
    pthread_join(other, NULL);
    printf("%d turns\n", count);
    return 0;
}
