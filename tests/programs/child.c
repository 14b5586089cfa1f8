/* A program that others start: says how it was built and what its environment would preload, and ends with status
   3. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(int argc, char **argv) {
    char *preloads = getenv("LD_PRELOAD");
    int error = pthread_mutex_lock(&mutex);
    printf("%s, %d arguments, lock %d, lockswap %s, other %s\n", KIND, argc - 1, error,
           preloads && strstr(preloads, "liblockswap") ? "yes" : "no",
           preloads && strstr(preloads, "other.so") ? "yes" : "no");
    (void)argv;
    return 3;
}
