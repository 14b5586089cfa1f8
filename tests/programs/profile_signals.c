/* Threads, signal handlers and children use mutexes for the first time, all at once: nothing hangs, and every child ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

__attribute__((noinline)) void fresh(void) {
    pthread_mutex_t mutex;
    memset(&mutex, 0, sizeof mutex);
    pthread_mutex_lock(&mutex);
    __asm__ volatile("" ::: "memory");
    pthread_mutex_unlock(&mutex);
}

static void handler(int signal) {
    (void)signal;
    fresh();
}

static void *work(void *argument) {
    while (!stop) {
        fresh();
        pthread_mutex_t *mutex = malloc(sizeof *mutex);
        pthread_mutex_init(mutex, NULL);
        pthread_mutex_lock(mutex);
        pthread_mutex_unlock(mutex);
        pthread_mutex_destroy(mutex);
        free(mutex);
    }
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    int failed = 0;
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 20; j++)
                fresh();
            _exit(0);
        }
        int status;
        while (waitpid(child, &status, 0) < 0) {
        }
        failed += status != 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d children failed\n", failed);
    return 0;
}
