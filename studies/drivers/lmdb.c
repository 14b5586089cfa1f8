/* LMDB with the mix of LibASL's paper (PPoPP 2022, section 4.2): each operation writes or reads one item, half of
 * either, in a transaction of its own. Nothing is synchronised to the disk. */
#include "frame.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

const char *const mixes[] = {"half", NULL};

static MDB_env *environment;
static MDB_dbi database;

/* LMDB makes its mutexes robust and shares them between processes, and such mutexes stay glibc's under lockswap. Only
 * this process uses the database, so they may be ordinary ones: `build` has the linker put these functions in the
 * place of glibc's (--wrap). */
int __wrap_pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared);
int __wrap_pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robust);

int __wrap_pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared) {
    (void)attributes, (void)shared;
    return 0;
}

int __wrap_pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robust) {
    (void)attributes, (void)robust;
    return 0;
}

static void check(int code) {
    if (code != 0)
        fail("lmdb", mdb_strerror(code));
}

static void put(MDB_txn *transaction, uint64_t number) {
    char key[KEY_BYTES + 1], value[VALUE_BYTES + 1];
    write_key(key, number);
    write_value(value, number);
    MDB_val name = {KEY_BYTES, key}, data = {VALUE_BYTES, value};
    check(mdb_put(transaction, database, &name, &data, 0));
}

static void remove_files(void) {
    char lock[4096];
    snprintf(lock, sizeof lock, "%s-lock", settings.path);
    remove(settings.path);
    remove(lock);
}

void open_database(void) {
    MDB_txn *transaction;
    if (!settings.path)
        settings.path = "/dev/shm/lockswap-study.lmdb";
    remove_files();
    check(mdb_env_create(&environment));
    check(mdb_env_set_mapsize(environment, (size_t)4 << 30));
    check(mdb_env_set_maxreaders(environment, (unsigned)settings.threads + 8));
    check(mdb_env_open(environment, settings.path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP, 0600));
    check(mdb_txn_begin(environment, NULL, 0, &transaction));
    check(mdb_dbi_open(transaction, NULL, 0, &database));
    for (uint64_t key = 0; key < settings.keys; key++)
        put(transaction, key);
    check(mdb_txn_commit(transaction));
}

void *open_thread(void) {
    return NULL;
}

void operate(void *own, uint64_t *random) {
    (void)own;
    MDB_txn *transaction;
    int writes = draw(random, 2) == 0;
    uint64_t number = draw(random, settings.keys);
    check(mdb_txn_begin(environment, NULL, writes ? 0 : MDB_RDONLY, &transaction));
    if (writes) {
        put(transaction, number);
        check(mdb_txn_commit(transaction));
        return;
    }
    char key[KEY_BYTES + 1];
    write_key(key, number);
    MDB_val name = {KEY_BYTES, key}, data;
    check(mdb_get(transaction, database, &name, &data));
    check_value(data.mv_data, data.mv_size, number);
    mdb_txn_abort(transaction);
}

void close_thread(void *own) {
    (void)own;
}

void close_database(void) {
    mdb_env_close(environment);
    remove_files();
}
