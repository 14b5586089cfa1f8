// SPDX-License-Identifier: GPL-2.0
/*
 * bench WORKLOAD THREADS OPERATIONS: so many threads of one process do so many operations each that contend for the
 * kernel's spinlocks, and each result is checked. The workloads are those that CNA's and RON's papers measure kernels
 * with; there is no throughput here, since the program is for an emulator.
 *
 *	lock1	locks and unlocks a file of the thread's own	(files_struct::file_lock)
 *	lock2	the same with a file that all share, each thread a byte of it	(and file_lock_context::flc_lock)
 *	open1	opens and closes a file of the thread's own	(file_lock, the directory's lockref)
 *	open2	the same with a file that all share	(and the file's lockref)
 *	memory	mmap, mprotect, munmap and clone	(the memory map's rwsem, page tables, zones, the list of tasks)
 *
 * Ends with 0 only if all did what they should.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define MAX_THREADS 256

struct worker {
	pthread_t thread;
	int number;
	long done;
};

static struct workload {
	const char *name;
	void (*operation)(struct worker *me);
	int shared;	/* do all threads use one file? */
} *workload;

static int files[MAX_THREADS];
static ino_t inodes[MAX_THREADS];
static long operations;
static pthread_barrier_t start;

static int file_of(const struct worker *me)
{
	return workload->shared ? 0 : me->number;
}

static const char *path_of(int file, char *path, size_t size)
{
	snprintf(path, size, "/tmp/bench.%d", file);
	return path;
}

static void set_lock(int fd, short type, off_t byte)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	if (fcntl(fd, F_SETLK, &lock))
		err(1, "fcntl");
}

/* Locks of one process never conflict, so each thread works on a range of its own: they are separate entries. */
static void lock_file(struct worker *me)
{
	int fd = files[file_of(me)];

	set_lock(fd, F_WRLCK, 2 * me->number);
	set_lock(fd, F_UNLCK, 2 * me->number);
}

static void open_file(struct worker *me)
{
	struct stat stat;
	char path[32];
	int file = file_of(me);
	int fd = open(path_of(file, path, sizeof(path)), O_RDWR);

	if (fd < 0)
		err(1, "open %s", path);
	if (fstat(fd, &stat) || stat.st_ino != inodes[file])
		errx(1, "%s is another file", path);
	if (close(fd))
		err(1, "close");
}

static void *add_one(void *count)
{
	++*(long *)count;
	return NULL;
}

static void use_memory(struct worker *me)
{
	size_t size = 4 * PAGE;
	long count = me->done;
	pthread_t child;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < size; i += PAGE)
		memory[i] = me->number + i / PAGE;
	if (mprotect(memory, PAGE, PROT_READ))
		err(1, "mprotect");
	for (size_t i = 0; i < size; i += PAGE)
		if (memory[i] != (char)(me->number + i / PAGE))
			errx(1, "page %zu has lost what was written", i / PAGE);
	if (munmap(memory, size))
		err(1, "munmap");
	if (pthread_create(&child, NULL, add_one, &count) || pthread_join(child, NULL))
		errx(1, "no thread");
	if (count != me->done + 1)
		errx(1, "a thread did not run");
}

static struct workload workloads[] = {
	{ "lock1", lock_file, 0 },
	{ "lock2", lock_file, 1 },
	{ "open1", open_file, 0 },
	{ "open2", open_file, 1 },
	{ "memory", use_memory, 0 },
	{ NULL, NULL, 0 }
};

static void *work(void *arg)
{
	struct worker *me = arg;

	pthread_barrier_wait(&start);
	for (; me->done < operations; me->done++)
		workload->operation(me);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	int threads = argc == 4 ? atoi(argv[2]) : 0;
	long done = 0;

	operations = argc == 4 ? atol(argv[3]) : 0;
	for (workload = workloads; workload->name && argc == 4 && strcmp(workload->name, argv[1]); workload++)
		;
	if (!workload->name || threads < 1 || threads > MAX_THREADS || operations < 1)
		errx(2, "usage: bench lock1|lock2|open1|open2|memory THREADS OPERATIONS, at most %d threads", MAX_THREADS);

	for (int i = 0; i < threads; i++) {
		struct stat stat;
		char path[32];

		files[i] = open(path_of(i, path, sizeof(path)), O_RDWR | O_CREAT, 0600);
		if (files[i] < 0 || fstat(files[i], &stat))
			err(1, "%s", path);
		inodes[i] = stat.st_ino;
	}

	pthread_barrier_init(&start, NULL, threads);
	for (int i = 0; i < threads; i++) {
		workers[i].number = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			errx(1, "no thread");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].done;
	}
	for (int i = 0; i < threads; i++) {
		char path[32];

		unlink(path_of(i, path, sizeof(path)));
	}
	if (done != threads * operations)
		errx(1, "%ld operations, not %ld", done, threads * operations);
	printf("bench: %s: %d threads did %ld operations\n", workload->name, threads, done);
	return 0;
}
