/* Any body under a right header is refused with a reason, or is an image that is written the same
 * way again and can be printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/bytes.h"
#include "support/hash.h"

enum { HEADER = 44 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void no_memory(void *user)
{
    (void)user;
    fputs("no memory\n", stderr);
    abort();
}

static void put_word(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *body, size_t size)
{
    sc_arena arena;
    shardc_error error = {0};
    sc_strbuf again, dump;
    uint8_t *bytes = malloc(HEADER + size + 1);
    if (bytes == NULL)
        abort();
    memcpy(bytes, "shardc\x1a\n", 8);
    put_word(bytes + 8, SC_IMAGE_VERSION);
    put_word(bytes + 12, size);
    put_word(bytes + 20, sc_fnv1a64(body, size));
    bytes[HEADER + size] = 0; /* the code: of no CPU, and empty */
    put_word(bytes + 28, 1);
    put_word(bytes + 36, sc_fnv1a64(bytes + HEADER + size, 1));
    if (size > 0)
        memcpy(bytes + HEADER, body, size);
    sc_arena_init(&arena, no_memory, NULL);
    sc_image *image = sc_image_read(bytes, HEADER + size + 1, &arena, &error);
    if ((image == NULL) != (error.status == SHARDC_ERROR_DATA) ||
        (image == NULL) != (error.text[0] != 0))
        abort();
    if (image != NULL) {
        sc_strbuf_init(&again, &arena);
        sc_image_write(image, &again);
        if (again.length != HEADER + size + 1 || memcmp(again.data, bytes, again.length) != 0)
            abort();
        sc_strbuf_init(&dump, &arena);
        sc_image_dump(image, &dump);
    }
    sc_arena_free(&arena);
    free(bytes);
    return 0;
}
