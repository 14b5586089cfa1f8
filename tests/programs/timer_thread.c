/* The first thread and one that the C library starts itself, for a timer, count under a mutex; the program starts no
   thread. Ends with status 1 if a count is lost. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 2000000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long inside;
static atomic_int began, ended;

static void count(void) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        inside++;
        pthread_mutex_unlock(&mutex);
    }
}

static void expired(union sigval unused) {
    (void)unused;
    atomic_store(&began, 1);
    count();
    atomic_store(&ended, 1);
}

int main(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, NULL) != 0)
        return 2;
    while (!atomic_load(&began))
        ;
    count();
    while (!atomic_load(&ended))
        ;
    printf("%ld\n", inside);
    return inside == 2L * ROUNDS ? 0 : 1;
}
