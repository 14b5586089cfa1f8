/* Starts the program of the second argument in the way that the first names, with the rest of the arguments, and
   ends as it does. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start(const char *way, char **arguments) {
    const char *program = arguments[0];
    pid_t child = -1;
    if (!strcmp(way, "posix_spawn"))
        return posix_spawn(&child, program, NULL, NULL, arguments, environ) ? -1 : child;
    if (!strcmp(way, "posix_spawnp"))
        return posix_spawnp(&child, program, NULL, NULL, arguments, environ) ? -1 : child;
    if (!strcmp(way, "vfork")) {
        child = vfork();
        if (child == 0) {
            execve(program, arguments, environ);
            _exit(126);
        }
        return child;
    }
    child = fork();
    if (child == 0) {
        if (!strcmp(way, "execv"))
            execv(program, arguments);
        else if (!strcmp(way, "execvp"))
            execvp(program, arguments);
        else if (!strcmp(way, "execvpe"))
            execvpe(program, arguments, environ);
        _exit(126);
    }
    return child;
}

int main(int argc, char **argv) {
    int status;
    if (argc < 3)
        return 2;
    pid_t child = start(argv[1], argv + 2);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 125;
    return WEXITSTATUS(status);
}
