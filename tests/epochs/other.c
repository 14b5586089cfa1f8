/* A second translation unit of the program, and the plugin. */
#include "../../include/lockswap.h"

#ifdef __cplusplus
extern "C" {
#endif
void epochs_of_other_file(int runs);
int epochs_of_plugin(int runs);

void epochs_of_other_file(int runs) {
    int i;
    for (i = 0; i < runs; i++) {
        lockswap_epoch_start(5);
        lockswap_epoch_end(5, 1000000000);
    }
}

int epochs_of_plugin(int runs) {
    epochs_of_other_file(runs);
    return lockswap_is_preloaded();
}
#ifdef __cplusplus
}
#endif
