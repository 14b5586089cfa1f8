/* Mutexes of every sort that rules of a profile tell apart. Says for each the number of its lock, which stands in byte 20,
 * or that it is glibc's, after threads have competed for it, in a process and in its child; then what went wrong. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pthread_mutex_t hot_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t rows[8];
pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t first_locked, elsewhere, waited_with;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

struct table {
    long size;
    pthread_mutex_t mutex;
};

/* A wrapper, as every portable program has one: its caller is what tells mutexes apart. */
__attribute__((noinline)) static void make(pthread_mutex_t *mutex) {
    if (pthread_mutex_init(mutex, NULL) != 0)
        abort();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) struct table *open_table(void) {
    struct table *table = malloc(sizeof *table);
    make(&table->mutex); /* this is the call of the table */
    __asm__ volatile("" ::: "memory");
    return table;
}

__attribute__((noinline)) static struct table *open_index(void) {
    struct table *table = malloc(sizeof *table);
    table->size = 1; /* not the same code as above, which a compiler would keep once */
    make(&table->mutex);
    __asm__ volatile("" ::: "memory");
    return table;
}

__attribute__((noinline)) void use_first(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    __asm__ volatile("" ::: "memory");
    pthread_mutex_unlock(mutex);
}

static long counter;

static void *work(void *mutex) {
    for (int i = 0; i < 2000; i++) {
        if (i % 7 == 0 && pthread_mutex_trylock(mutex) == 0) {
        } else if (pthread_mutex_lock(mutex) != 0)
            abort();
        counter++;
        if (pthread_mutex_unlock(mutex) != 0)
            abort();
    }
    return NULL;
}

static int compete(pthread_mutex_t *mutex) {
    pthread_t threads[3];
    counter = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, mutex);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (counter != 6000)
        printf("lost: %ld of 6000\n", 6000 - counter);
    return counter == 6000;
}

static int turn;

/* Two threads take turns, one with each mutex, and a third mutex protects whose turn it is. */
static void *alternate(void *own) {
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(own);
        pthread_mutex_lock(&waited_with);
        while (turn != (own == &hot_lock))
            pthread_cond_wait(&condition, &waited_with);
        turn = !turn;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&waited_with);
        pthread_mutex_unlock(own);
    }
    return NULL;
}

static void say(const char *name, pthread_mutex_t *mutex) {
    unsigned kind;
    memcpy(&kind, (char *)mutex + 16, sizeof kind);
    if (kind >> 30)
        printf("%s glibc\n", name);
    else
        printf("%s %d\n", name, ((unsigned char *)mutex)[20]);
}

int main(void) {
    use_first(&first_locked);
    pthread_mutex_lock(&elsewhere);
    pthread_mutex_unlock(&elsewhere);
    struct table *table = open_table(), *index = open_index();
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    struct {
        const char *name;
        pthread_mutex_t *mutex;
    } all[] = {{"hot", &hot_lock},
               {"row", &rows[5]},
               {"recursive", &recursive},
               {"adaptive", &adaptive},
               {"table", &table->mutex},
               {"index", &index->mutex},
               {"first_locked", &first_locked},
               {"elsewhere", &elsewhere},
               {"waited_with", &waited_with}};
    int count = sizeof all / sizeof all[0];
    for (int i = 0; i < count; i++)
        compete(all[i].mutex);
    pthread_t one, other;
    pthread_create(&one, NULL, alternate, &hot_lock);
    pthread_create(&other, NULL, alternate, &rows[5]);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    for (int i = 0; i < count; i++)
        say(all[i].name, all[i].mutex);
    /* Held mutexes stay held in the child, where their holder releases them; all others are free there. */
    for (int i = 0; i < count; i += 2)
        pthread_mutex_lock(all[i].mutex);
    fflush(stdout);
    pid_t child = fork();
    for (int i = 0; i < count; i += 2)
        pthread_mutex_unlock(all[i].mutex);
    if (child == 0) {
        int good = compete(&rows[1]);
        for (int i = 0; i < count; i++)
            good &= compete(all[i].mutex);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    for (int i = 0; i < count; i++)
        compete(all[i].mutex);
    /* Another mutex at the same place. */
    pthread_mutex_destroy(&table->mutex);
    memset(&table->mutex, 0, sizeof table->mutex);
    use_first(&table->mutex);
    say("table_again", &table->mutex);
    printf("child %d\n", status);
    return 0;
}
