/* Any bytes are either refused with a reason or are tensors whose every element can be read. */
#include "runtime/files/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    sc_safetensors_error error = {0};
    sc_safetensors *tensors = sc_safetensors_open_memory(bytes, size, "fuzz", &error);
    if ((tensors == NULL) != (error.count > 0))
        abort();
    if (tensors == NULL)
        return 0;
    volatile double sum = 0; /* so that the reads are not optimised away */
    double value;
    const char *reason;
    for (size_t i = 0; i < sc_safetensors_count(tensors); i++) {
        const sc_safetensor *tensor = sc_safetensors_at(tensors, i);
        if (sc_safetensors_find(tensors, tensor->name) != tensor)
            abort();
        for (uint64_t j = 0; j < tensor->count; j++) {
            if (!sc_safetensors_read(tensors, tensor, j, 1, &value, &reason))
                abort();
            sum = sum + value;
        }
    }
    sc_safetensors_close(tensors);
    return 0;
}
