#include "runtime/session/device.h"

#include <string.h>

static const sc_device *const devices[] = {&sc_device_cpu, &sc_device_cuda};

const sc_device *sc_device_find(const char *target, shardc_error *error)
{
    size_t length = strcspn(target, ":");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (strlen(devices[i]->name) == length && strncmp(devices[i]->name, target, length) == 0)
            return devices[i];
    }
    sc_fail(error, SHARDC_ERROR_UNAVAILABLE, "the program is for target '%s', this library runs 'cpu' and 'cuda'", target);
    return NULL;
}
