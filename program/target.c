#include "program/target.h"

#include <string.h>

#include "support/diag.h"

const sc_target sc_targets[] = {
#define TARGET(name, architecture, capability, shared_kib)                                         \
    {name, architecture, "compute_" #capability, capability, (shared_kib)*1024u},
#include "program/target.def"
#undef TARGET
};
enum { TARGET_COUNT = sizeof sc_targets / sizeof *sc_targets };
const size_t sc_target_count = TARGET_COUNT;

const sc_target *sc_target_find(const char *name)
{
    for (size_t i = 0; i < TARGET_COUNT; i++) {
        if (strcmp(sc_targets[i].name, name) == 0)
            return &sc_targets[i];
    }
    return NULL;
}

const char *sc_target_nearest(const char *name)
{
    const char *names[TARGET_COUNT];
    for (size_t i = 0; i < TARGET_COUNT; i++)
        names[i] = sc_targets[i].name;
    return sc_nearest(name, names, TARGET_COUNT);
}

bool sc_target_is_cuda(const sc_target *target)
{
    return target->architecture[0] != 0;
}

bool sc_target_is_virtual(const sc_target *target)
{
    return strncmp(target->architecture, "compute_", strlen("compute_")) == 0;
}

bool sc_target_is_special(const sc_target *target)
{
    size_t length = strlen(target->architecture);
    return length > 0 && target->architecture[length - 1] == 'a';
}
