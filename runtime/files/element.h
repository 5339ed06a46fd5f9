/* Elements of stored tensors: names, sizes, and conversion from and to double. Little-endian, at
 * any alignment. */
#ifndef SHARDC_RUNTIME_FILES_ELEMENT_H
#define SHARDC_RUNTIME_FILES_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sc_element {
#define ELEMENT(name, size, low, high) SC_ELEMENT_##name,
#include "runtime/files/element.def"
#undef ELEMENT
    SC_ELEMENT_COUNT
} sc_element;

const char *sc_element_name(sc_element element);
size_t sc_element_size(sc_element element);
bool sc_element_from_name(const char *name, sc_element *out_element);

/* Returns element `index`. 64-bit integers beyond 2^53 are rounded to the nearest double. */
double sc_element_load(sc_element element, const void *array, uint64_t index);

/* Stores a value, rounded to nearest even directly from the double. False, with nothing written, if
 * an integer type cannot represent the value. Floats overflow to infinity as in IEEE 754. */
bool sc_element_store(sc_element element, void *array, uint64_t index, double value);

/* Stores `count` elements of one array as elements of another, each rounded as above. The arrays do
 * not overlap. */
bool sc_element_convert(sc_element from, const void *source, sc_element to, void *destination,
                        uint64_t count);

#endif
