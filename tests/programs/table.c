/* Prints the line of /proc/self/maps with the word that the jump of pthread_mutex_lock is read from, and calls
   the function before and after. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    const unsigned char *code = dlsym(RTLD_DEFAULT, "pthread_mutex_lock");
    /* jmp [rip + displacement] */
    if (code[0] != 0xff || code[1] != 0x25) {
        printf("no jump: %02x %02x\n", code[0], code[1]);
        return EXIT_FAILURE;
    }
    int32_t displacement;
    memcpy(&displacement, code + 2, sizeof displacement);
    uintptr_t word = (uintptr_t)code + 6 + displacement;
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t begin, end;
        if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && begin <= word && word < end)
            fputs(line, stdout);
    }
    return pthread_mutex_lock(&mutex);
}
