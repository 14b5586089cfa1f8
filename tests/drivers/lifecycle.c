/* Constructors, loaded libraries, thread creation and exit, process exit. */
#include "driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <sys/wait.h>

static pthread_mutex_t early_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t early_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t early_cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t early_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int early_score;

static void *early_thread(void *unused) {
    if (pthread_mutex_lock(&early_mutex) == 0) {
        early_score++;
        pthread_cond_signal(&early_cond);
        pthread_mutex_unlock(&early_mutex);
    }
    return unused;
}

/* The earliest a program may ask for; locks stay held until main. */
__attribute__((constructor(101))) static void first_constructor(void) {
    pthread_t thread;
    bool good = pthread_mutex_lock(&early_mutex) == 0 && pthread_create(&thread, NULL, early_thread, NULL) == 0;
    while (good && early_score == 0)
        good = pthread_cond_wait(&early_cond, &early_mutex) == 0;
    good = good && pthread_join(thread, NULL) == 0 && pthread_rwlock_wrlock(&early_rwlock) == 0;
    good = good && pthread_mutex_lock(&early_recursive) == 0 && pthread_mutex_lock(&early_recursive) == 0;
    early_score = good ? 100 : -1000;
}

static void constructors(void) {
    CHECK(early_score == 100);
    RC(trylock_elsewhere(&early_mutex), EBUSY);
    OK(pthread_mutex_unlock(&early_mutex));
    OK(trylock_elsewhere(&early_mutex));
    RC(trylock_elsewhere(&early_recursive), EBUSY);
    OK(pthread_mutex_unlock(&early_recursive));
    RC(trylock_elsewhere(&early_recursive), EBUSY);
    OK(pthread_mutex_unlock(&early_recursive));
    RC(pthread_mutex_unlock(&early_recursive), EPERM);
    RC(pthread_rwlock_rdlock(&early_rwlock), EDEADLK);
    OK(pthread_rwlock_unlock(&early_rwlock));
}

static void *open_plugin(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(length > 0);
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, "driver-plugin.so");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fail_at(__FILE__, __LINE__, "%s", dlerror());
    return handle;
}

/* The function type through an integer: ISO C has no cast from object to function pointers. */
static int call_plugin(void *handle, const char *name) {
    int (*function)(void) = (int (*)(void))(uintptr_t)dlsym(handle, name);
    CHECK(function);
    return function();
}

static void loaded_library(void) {
    for (int i = 0; i < 20; i++) {
        void *handle = open_plugin();
        OK(call_plugin(handle, "plugin_constructed"));
        OK(call_plugin(handle, "plugin_exercise"));
        CHECK(dlclose(handle) == 0);
    }
}

static atomic_bool load_over;
static pthread_mutex_t loaded_mutex = PTHREAD_MUTEX_INITIALIZER;
static long loaded_counter;

static void *lock_meanwhile(void *unused) {
    long mine = 0;
    while (!atomic_load(&load_over)) {
        OK(pthread_mutex_lock(&loaded_mutex));
        loaded_counter++;
        mine++;
        OK(pthread_mutex_unlock(&loaded_mutex));
    }
    (void)unused;
    return (void *)mine;
}

static void *load_meanwhile(void *unused) {
    for (int i = 0; i < 25; i++) {
        OK(pthread_mutex_lock(&loaded_mutex));
        void *handle = open_plugin(); /* its constructor locks while we hold a lock and the loader's */
        OK(pthread_mutex_unlock(&loaded_mutex));
        OK(call_plugin(handle, "plugin_exercise"));
        CHECK(dlclose(handle) == 0);
    }
    return unused;
}

static void loaded_under_load(void) {
    pthread_t lockers[2] = {spawn(lock_meanwhile, NULL), spawn(lock_meanwhile, NULL)};
    pthread_t loaders[2] = {spawn(load_meanwhile, NULL), spawn(load_meanwhile, NULL)};
    join(loaders[0]);
    join(loaders[1]);
    atomic_store(&load_over, true);
    long sum = (long)join(lockers[0]);
    sum += (long)join(lockers[1]);
    CHECK(sum == loaded_counter);
}

static pthread_mutex_t life_mutex = PTHREAD_MUTEX_INITIALIZER;
static int life_counter;

static void *live_briefly(void *own) {
    pthread_mutex_t *m = own;
    OK(pthread_mutex_lock(&life_mutex));
    OK(pthread_mutex_lock(m));
    life_counter++;
    OK(pthread_mutex_unlock(m));
    OK(pthread_mutex_unlock(&life_mutex));
    return NULL;
}

static void threads_20000(void) {
    enum { AT_ONCE = 20, ROUNDS = 1000 };
    static pthread_mutex_t own[AT_ONCE];
    pthread_t threads[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        init_kind(&own[i], kinds[i % 4].type);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            threads[i] = spawn(live_briefly, &own[i]);
        for (int i = 0; i < AT_ONCE; i++)
            join(threads[i]);
    }
    CHECK(life_counter == AT_ONCE * ROUNDS);
}

static pthread_barrier_t start;

static void *contend_briefly(void *unused) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < 3; i++) {
        OK(pthread_mutex_lock(&life_mutex));
        life_counter++;
        OK(pthread_mutex_unlock(&life_mutex));
    }
    return unused;
}

static void threads_1000_contend(void) {
    enum { THREADS = 1000 };
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    OK(pthread_attr_init(&small));
    OK(pthread_attr_setstacksize(&small, 128 * 1024));
    OK(pthread_barrier_init(&start, NULL, THREADS));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], &small, contend_briefly, NULL));
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    CHECK(life_counter == 3 * THREADS);
}

static void *hold_and_exit(void *argument) {
    pthread_mutex_t *mutexes = argument;
    for (int i = 0; i < 4; i++)
        OK(pthread_mutex_lock(&mutexes[i]));
    pthread_exit(NULL);
}

/* Abandoned locks stay locked, and the thread's other memory is recycled around them. */
static void exit_holding(void) {
    static pthread_mutex_t mutexes[200][4];
    for (int i = 0; i < 200; i++)
        join(spawn(hold_and_exit, mutexes[i]));
    for (int i = 0; i < 2000; i++)
        join(spawn(live_briefly, &(pthread_mutex_t){0}));
    for (int i = 0; i < 200; i++)
        for (int j = 0; j < 4; j++) {
            RC(pthread_mutex_trylock(&mutexes[i][j]), EBUSY);
            OK(pthread_mutex_unlock(&mutexes[i][j])); /* a normal mutex: anyone may */
            OK(pthread_mutex_lock(&mutexes[i][j]));
            OK(pthread_mutex_unlock(&mutexes[i][j]));
        }
}

static void *wait_behind(void *argument) {
    pthread_mutex_t *mutexes = argument;
    OK(pthread_mutex_lock(&mutexes[0]));
    OK(pthread_mutex_unlock(&mutexes[0]));
    return NULL;
}

/* Waiters queue behind a holder whose thread is gone, then another thread unlocks. */
static void exit_holding_with_waiters(void) {
    static pthread_mutex_t mutexes[4];
    for (int round = 0; round < 10; round++) {
        join(spawn(hold_and_exit, mutexes));
        pthread_t waiters[2] = {spawn(wait_behind, mutexes), spawn(wait_behind, mutexes)};
        settle();
        for (int i = 0; i < 4; i++)
            OK(unlock_elsewhere(&mutexes[i]));
        join(waiters[0]);
        join(waiters[1]);
    }
}

static pthread_key_t keys[3];
static pthread_mutex_t key_mutex = PTHREAD_MUTEX_INITIALIZER;
static int key_calls;

/* Sets itself again until glibc gives up after PTHREAD_DESTRUCTOR_ITERATIONS rounds; locks in each of them. */
static void lock_in_destructor(void *value) {
    pthread_mutex_t own, *many = malloc(50 * sizeof *many);
    init_kind(&own, PTHREAD_MUTEX_RECURSIVE);
    OK(pthread_mutex_lock(&own));
    OK(pthread_mutex_lock(&key_mutex));
    key_calls++;
    for (int i = 0; i < 50; i++) {
        OK(pthread_mutex_init(&many[i], NULL));
        OK(pthread_mutex_lock(&many[i]));
    }
    for (int i = 0; i < 50; i++)
        OK(pthread_mutex_unlock(&many[i]));
    OK(pthread_mutex_unlock(&key_mutex));
    OK(pthread_mutex_unlock(&own));
    OK(pthread_mutex_destroy(&own));
    free(many);
    OK(pthread_setspecific(*(pthread_key_t *)value, value));
}

static void *leave_with_keys(void *unused) {
    for (int i = 0; i < 3; i++)
        OK(pthread_setspecific(keys[i], &keys[i]));
    return unused;
}

static void key_destructors(void) {
    for (int i = 0; i < 3; i++)
        OK(pthread_key_create(&keys[i], lock_in_destructor));
    for (int round = 0; round < 100; round++) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            threads[i] = spawn(leave_with_keys, NULL);
        for (int i = 0; i < 3; i++)
            join(threads[i]);
    }
    CHECK(key_calls == 100 * 3 * 3 * PTHREAD_DESTRUCTOR_ITERATIONS);
}

static pthread_mutex_t exit_mutex = PTHREAD_MUTEX_INITIALIZER, exit_held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t exit_cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t exit_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int exit_ready;

static void lock_at_exit(void) {
    OK(pthread_mutex_lock(&exit_mutex));
    OK(pthread_cond_broadcast(&exit_cond));
    OK(pthread_mutex_unlock(&exit_mutex));
}

static void *hold_for_ever(void *unused) {
    OK(pthread_mutex_lock(&exit_held));
    OK(pthread_rwlock_wrlock(&exit_rwlock));
    atomic_fetch_add(&exit_ready, 1);
    for (;;)
        pause();
    return unused;
}

static void *wait_for_ever(void *what) {
    await(&exit_ready, 1);
    atomic_fetch_add(&exit_ready, 1);
    switch ((uintptr_t)what) {
    case 0: pthread_mutex_lock(&exit_held); break;
    case 1: pthread_rwlock_rdlock(&exit_rwlock); break;
    case 2:
        pthread_mutex_lock(&exit_mutex);
        for (;;)
            pthread_cond_wait(&exit_cond, &exit_mutex);
    default:
        for (;;) {
            pthread_mutex_lock(&exit_mutex);
            pthread_mutex_unlock(&exit_mutex);
        }
    }
    return NULL;
}

static void exit_while_held(void) {
    for (int round = 0; round < 10; round++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            atexit(lock_at_exit);
            spawn(hold_for_ever, NULL);
            for (uintptr_t i = 0; i < 4; i++)
                spawn(wait_for_ever, (void *)i);
            await(&exit_ready, 5);
            nap_ms(2);
            exit(0);
        }
        wait_child(pid);
    }
}

/* The main thread leaves, the others go on and end the process. */
static void *outlive_main(void *unused) {
    nap_ms(10);
    for (int i = 0; i < 100; i++)
        live_briefly(&early_mutex);
    exit(life_counter == 100 ? 0 : 1);
    return unused;
}

static void main_leaves_first(void) {
    pid_t pid = fork_child();
    if (pid == 0) {
        OK(pthread_mutex_unlock(&early_mutex)); /* held since the constructor */
        spawn(outlive_main, NULL);
        pthread_exit(NULL);
    }
    wait_child(pid);
}

const struct subtest lifecycle_tests[] = {
    {"life_constructors", constructors},
    {"life_loaded_library", loaded_library},
    {"life_loaded_under_load", loaded_under_load},
    {"life_20000_threads", threads_20000},
    {"life_1000_threads_contend", threads_1000_contend},
    {"life_exit_holding", exit_holding},
    {"life_exit_holding_with_waiters", exit_holding_with_waiters},
    {"life_key_destructors", key_destructors},
    {"life_exit_while_held", exit_while_held},
    {"life_main_leaves_first", main_leaves_first},
    {NULL, NULL},
};
