/* Reads and writes safetensors files, https://huggingface.co/docs/safetensors: 8 bytes of header
 * length, JSON header, data.
 *
 * Files are not trusted: every length and offset is checked before use, the tensors must cover the
 * data section exactly, and all problems are listed, not only the first. Nothing here prints, exits
 * or uses globals. An open file may be read by many threads at once. */
#ifndef SHARDC_RUNTIME_FILES_SAFETENSORS_H
#define SHARDC_RUNTIME_FILES_SAFETENSORS_H

#include "runtime/files/durable.h"
#include "runtime/files/element.h"

typedef struct sc_safetensors sc_safetensors;

/* One tensor: row-major, `bytes` bytes starting at byte `begin` of its file. Owned by its
 * sc_safetensors. */
typedef struct sc_safetensor {
    const char *name;
    sc_element element;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t count; /* elements: the product of the shape */
    uint64_t begin, bytes;
    uint32_t file; /* sc_safetensors_label */
} sc_safetensor;

/* Problems, one per line. Owned by the caller, who zeroes it first. The last line counts those that
 * did not fit. */
typedef struct sc_safetensors_error {
    uint32_t count;   /* problems found */
    uint32_t omitted; /* of these, the number without a line */
    size_t length;
    char text[4096]; /* 0-terminated */
} sc_safetensors_error;

/* First bytes of every file written here, for sc_replacement_begin. */
#define SC_SAFETENSORS_BEGIN "{\""
enum { SC_SAFETENSORS_BEGIN_AT = 8 };

enum { SC_SAFETENSORS_HEADER_LIMIT = 100 * 1000 * 1000 }; /* bytes; the format's limit */

/* Opens a file or a folder. In a folder (or given its path) model.safetensors.index.json says which
 * tensor is in which file, and hides tensors that it does not name; without it model.safetensors
 * is read, or, if there is none, all *.safetensors files. Files stay open, and values are read on
 * request. Returns NULL with `error` filled; the caller closes the result. */
sc_safetensors *sc_safetensors_open(const char *path, sc_safetensors_error *error);

/* Opens a file in memory. `bytes`, and `label`, its name in messages, stay the caller's and must
 * outlive the result. */
sc_safetensors *sc_safetensors_open_memory(const void *bytes, size_t size, const char *label,
                                           sc_safetensors_error *error);

void sc_safetensors_close(sc_safetensors *tensors); /* NULL is allowed */

/* Tensors are ordered by file name, then by data offset. */
size_t sc_safetensors_count(const sc_safetensors *tensors);
const sc_safetensor *sc_safetensors_at(const sc_safetensors *tensors, size_t index);
/* NULL when there is none */
const sc_safetensor *sc_safetensors_find(const sc_safetensors *tensors, const char *name);

/* Returns the value of a __metadata__ key from the first file that has it, or NULL. */
const char *sc_safetensors_metadata(const sc_safetensors *tensors, const char *key);

/* Returns the path of the tensor's file. */
const char *sc_safetensors_label(const sc_safetensors *tensors, const sc_safetensor *tensor);

/* Read `count` elements from `first` on (row-major), as doubles or as stored. False with *reason:
 * the file is unreadable, or was truncated since it was opened. */
bool sc_safetensors_read(const sc_safetensors *tensors, const sc_safetensor *tensor, uint64_t first,
                         uint64_t count, double *out, const char **reason);
bool sc_safetensors_read_stored(const sc_safetensors *tensors, const sc_safetensor *tensor,
                                uint64_t first, uint64_t count, void *out, const char **reason);

/* A tensor to write. Exactly one of `values` (converted, see sc_element_store) and `raw` (already
 * in `element`) is set; both may be NULL if the shape has a 0. */
typedef struct sc_safetensors_item {
    const char *name;
    sc_element element;
    uint32_t rank;
    const uint64_t *shape;
    const double *values;
    const void *raw;
} sc_safetensors_item;

typedef struct sc_safetensors_pair {
    const char *key, *value;
} sc_safetensors_pair;

/* Writes the items in order, and `metadata`, if any, as __metadata__. The file appears at `path`
 * complete or not at all (sc_replacement). The header is padded so that data start at a multiple of
 * 8. False with `error` filled; an existing file at `path` is then unchanged. */
bool sc_safetensors_write(const char *path, const sc_safetensors_item *items, size_t item_count,
                          const sc_safetensors_pair *metadata, size_t metadata_count,
                          sc_safetensors_error *error);

/* Writes one tensor at a time, for values not in memory together: create, add for each item,
 * end. */
typedef struct sc_safetensors_writer {
    sc_replacement file;
    const char *path;
    const sc_safetensors_item *items;
    size_t next;
    bool good;
    sc_safetensors_error *error;
} sc_safetensors_writer;

/* Items, path and error must outlive the writer. False: do not call sc_safetensors_end. */
bool sc_safetensors_create(sc_safetensors_writer *out, const char *path,
                           const sc_safetensors_item *items, size_t item_count,
                           const sc_safetensors_pair *metadata, size_t metadata_count,
                           sc_safetensors_error *error);
/* Writes the next item from its bytes; `raw` NULL: from its `values`. */
void sc_safetensors_add(sc_safetensors_writer *writer, const void *raw);
/* `keep`: every item was added; false discards the file. */
bool sc_safetensors_end(sc_safetensors_writer *writer, bool keep);

/* Returns everything before the tensors' bytes, which follow in the order of the items;
 * malloc'd. */
char *sc_safetensors_header(const sc_safetensors_item *items, size_t item_count,
                            const sc_safetensors_pair *metadata, size_t metadata_count,
                            size_t *out_length, sc_safetensors_error *error);

#endif
