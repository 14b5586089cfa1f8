/* SQLite with the mix of LibASL's paper (PPoPP 2022, section 4.2): each operation is a deferred transaction with, a
 * third of the time each, an insert, a query for one row by an indexed column, or a query for a range of an indexed
 * column with a condition on another one; every 1000th scans a whole table of 100,000 rows. Each thread has a
 * connection; a transaction that finds the database busy is made again, in the same operation. Nothing is synchronised
 * to the disk. */
#include "frame.h"

#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mixes[] = {"thirds", "half", NULL};

enum { SCANNED_ROWS = 100000, SCAN_EVERY = 1000, RANGE = 100 };
enum statement { BEGIN, COMMIT, ROLLBACK, INSERT, POINT, RANGE_WITH_FILTER, SCAN, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    "BEGIN DEFERRED",
    "COMMIT",
    "ROLLBACK",
    "INSERT INTO item (indexed, plain) VALUES (?1, ?1 % 10)",
    "SELECT count(*), min(indexed), max(indexed) FROM item WHERE indexed = ?1 AND id <= ?2",
    "SELECT count(*), min(indexed), max(indexed) FROM item WHERE indexed BETWEEN ?1 AND ?1 + ?2 AND plain = 3",
    "SELECT count(*), 0, 0 FROM large WHERE plain < 10",
};

struct connection {
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENTS];
    uint64_t operations;
};

static void run(sqlite3 *database, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK)
        fail("sqlite", error);
}

static void *connect(void) {
    struct connection *own = calloc(1, sizeof *own);
    if (!own || sqlite3_open(settings.path, &own->database) != SQLITE_OK)
        fail("sqlite", "cannot be opened");
    sqlite3_busy_timeout(own->database, 60000);
    run(own->database, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    sqlite3_busy_timeout(own->database, 0);
    return own;
}

void open_database(void) {
    char sql[256];
    if (!settings.path)
        settings.path = "/dev/shm/lockswap-study.sqlite";
    remove(settings.path);
    struct connection *own = connect();
    run(own->database, "CREATE TABLE item (id INTEGER PRIMARY KEY, indexed INTEGER, plain INTEGER);"
                       "CREATE INDEX by_indexed ON item (indexed);"
                       "CREATE TABLE large (id INTEGER PRIMARY KEY, plain INTEGER)");
    /* Numbers from 0 up, both in the indexed column and as id less one. */
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(x) AS (VALUES (0) UNION ALL SELECT x + 1 FROM n LIMIT %llu)"
             " INSERT INTO item (indexed, plain) SELECT x, x %% 10 FROM n",
             (unsigned long long)settings.keys);
    run(own->database, sql);
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(x) AS (VALUES (0) UNION ALL SELECT x + 1 FROM n LIMIT %d)"
             " INSERT INTO large (plain) SELECT x %% 100 FROM n",
             SCANNED_ROWS);
    run(own->database, sql);
    close_thread(own);
}

void *open_thread(void) {
    struct connection *own = connect();
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v2(own->database, texts[i], -1, &own->statements[i], NULL) != SQLITE_OK)
            fail("sqlite", sqlite3_errmsg(own->database));
    return own;
}

static void check(int is_right) {
    if (!is_right)
        fail("sqlite", "a query has a wrong result");
}

/* Makes a step of a statement; 0 if the database is busy. Results are checked as far as others' inserts allow. */
static int step(struct connection *own, enum statement which, uint64_t value) {
    sqlite3_stmt *statement = own->statements[which];
    int parameters = sqlite3_bind_parameter_count(statement);
    if (parameters > 0)
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)value);
    if (parameters > 1)
        sqlite3_bind_int64(statement, 2, which == POINT ? (sqlite3_int64)settings.keys : RANGE);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        sqlite3_int64 count = sqlite3_column_int64(statement, 0), least = sqlite3_column_int64(statement, 1);
        sqlite3_int64 most = sqlite3_column_int64(statement, 2), wanted = (sqlite3_int64)value;
        check(which != POINT || (count == 1 && least == wanted && most == wanted));
        check(which != RANGE_WITH_FILTER || count == 0 || (least >= wanted && most <= wanted + RANGE));
        check(which != SCAN || count == SCANNED_ROWS / 10);
        code = SQLITE_OK;
    }
    sqlite3_reset(statement);
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_BUSY && code != SQLITE_LOCKED)
        fail("sqlite", sqlite3_errmsg(own->database));
    return code == SQLITE_OK || code == SQLITE_DONE;
}

void operate(void *argument, uint64_t *random) {
    struct connection *own = argument;
    enum statement which = is_mix("half") ? (draw(random, 2) ? INSERT : POINT) : INSERT + (int)draw(random, 3);
    uint64_t value = draw(random, settings.keys);
    if (++own->operations % SCAN_EVERY == 0 && is_mix("thirds"))
        which = SCAN;
    step(own, BEGIN, 0);
    while (!step(own, which, value) || !step(own, COMMIT, 0)) {
        step(own, ROLLBACK, 0);
        count_retry();
        sched_yield();
        step(own, BEGIN, 0);
    }
}

void close_thread(void *argument) {
    struct connection *own = argument;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(own->statements[i]);
    sqlite3_close(own->database);
    free(own);
}

void close_database(void) {
    remove(settings.path);
}
