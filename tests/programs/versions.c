/* For each function named in the arguments and each version of it that the C library has, says which file the
   program gets it from: a line "FUNCTION VERSION FILE", with "-" for a search without a version. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char *versions[] = {"GLIBC_2.2.5", "GLIBC_2.3.2", "GLIBC_2.4",  "GLIBC_2.11", "GLIBC_2.12", "GLIBC_2.15",
                                 "GLIBC_2.17",  "GLIBC_2.28",  "GLIBC_2.30", "GLIBC_2.34", NULL};

static void *find(void *where, const char *name, const char *version) {
    return version ? dlvsym(where, name, version) : dlsym(where, name);
}

int main(int argc, char **argv) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (!libc) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++) {
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++) {
            Dl_info info;
            if (!find(libc, argv[i], versions[v]))
                continue;
            void *found = find(RTLD_DEFAULT, argv[i], versions[v]);
            printf("%s %s %s\n", argv[i], versions[v] ? versions[v] : "-",
                   found && dladdr(found, &info) ? info.dli_fname : "nowhere");
        }
    }
    return EXIT_SUCCESS;
}
