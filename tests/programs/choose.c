/* A program that gives its mutexes locks itself, with lockswap.h; says what came of it. */
#include "lockswap.h"

#include <stdio.h>
#include <string.h>

static pthread_mutex_t mutexes[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                     PTHREAD_MUTEX_INITIALIZER};
static long counter;

static void *work(void *mutex) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(mutex);
        counter++;
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

static const char *competed(pthread_mutex_t *mutex) {
    pthread_t threads[3];
    counter = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, mutex);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return counter == 6000 ? "" : " lost";
}

static void say(const char *what, int result) {
    printf("%s %s\n", what, result == 0 ? "0" : strerrorname_np(result));
}

int main(void) {
    static const char *const locks[] = {"mcs_stp", "hmcs", "pthread", "auto"};
    pthread_mutex_t robust;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    say("robust", lockswap_mutex_choose(&robust, "mcs_stp"));
    say("unknown", lockswap_mutex_choose(&mutexes[0], "nonsense"));
    say("not_named", lockswap_mutex_choose(&mutexes[0], "ticket"));
    say("other_parameter", lockswap_mutex_choose(&mutexes[0], "mcs_stp:spin=7"));
    /* Any mutex from any lock to any other, used in between and not. */
    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 4; to++) {
            for (int i = 0; i < 3; i++) {
                int first = lockswap_mutex_choose(&mutexes[i], locks[from]);
                const char *lost = i == 2 ? "" : competed(&mutexes[i]);
                int second = lockswap_mutex_choose(&mutexes[i], locks[to]);
                pthread_mutex_lock(&mutexes[i]);
                int held = lockswap_mutex_choose(&mutexes[i], locks[from]);
                pthread_mutex_unlock(&mutexes[i]);
                if (first != 0 || second != 0 || held != EBUSY || *lost || *competed(&mutexes[i]))
                    printf("%s to %s, %d: %d %d %d%s\n", locks[from], locks[to], i, first, second, held, lost);
            }
        }
    }
    pthread_mutex_lock(&mutexes[1]);
    say("recursive", pthread_mutex_lock(&mutexes[1]));
    pthread_mutex_unlock(&mutexes[1]);
    pthread_mutex_unlock(&mutexes[1]);
    say("chosen", lockswap_mutex_choose(&mutexes[0], "hmcs"));
    return 0;
}
