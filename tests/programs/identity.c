/* Locks a mutex and says who the process is and whose pthread_mutex_lock it called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
    Dl_info info = {0};
    dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"), &info);
    int error = pthread_mutex_lock(&mutex);
    printf("user %d, effective %d, error %d, %s\n", getuid(), geteuid(), error, info.dli_fname);
    return pthread_mutex_unlock(&mutex);
}
