/* Marks 1000 runs of epoch 5, and the percentile of it, and says whether the library is there: for builds of all sorts,
 * as C and as C++. The first epoch is in a constructor. */
#include "../../include/lockswap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
void epochs_of_other_file(int runs);

__attribute__((constructor)) static void before_main(void) {
    lockswap_epoch_start(5);
    lockswap_epoch_end(5, 1000000000);
}

int main(int argc, char **argv) {
    int preloaded, i;
    if (argc > 1) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        void *symbol = plugin ? dlsym(plugin, "epochs_of_plugin") : 0;
        int (*call)(int);
        if (!symbol) {
            printf("%s\n", dlerror());
            return 1;
        }
        memcpy(&call, &symbol, sizeof call);
        preloaded = call(499);
    } else {
        lockswap_epoch_percentile(5, 95);
        for (i = 0; i < 499; i++) {
            lockswap_epoch_start(5);
            lockswap_epoch_end(5, 1000000000);
        }
        preloaded = lockswap_is_preloaded();
    }
    epochs_of_other_file(500);
    /* The look-ups of the marks must not leave a message behind. */
    if (dlerror()) {
        printf("a message is left\n");
        return 1;
    }
    printf("preloaded=%d\n", preloaded);
    return 0;
}
