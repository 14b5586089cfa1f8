/* Locks a mutex while the dynamic linker still relocates the program: it calls the resolver of an indirect
   function then, before the C library has set `environ`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int locked, released, had_environment;

static int answer(void) { return 42; }

static int (*choose(void))(void) {
    had_environment = environ != NULL;
    locked = pthread_mutex_lock(&mutex);
    released = pthread_mutex_unlock(&mutex);
    return answer;
}

int chosen(void) __attribute__((ifunc("choose")));

int main(void) {
    printf("environment %d, lock %d, unlock %d, answer %d\n", had_environment, locked, released, chosen());
    return EXIT_SUCCESS;
}
