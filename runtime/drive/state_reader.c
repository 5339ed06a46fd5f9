#include "runtime/drive/state_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/durable.h"
#include "runtime/files/rows.h"
#include "support/checksum.h"
#include "support/none.h"

enum {
    BLOCK = SC_DURABLE_BLOCK,
    OPEN_FILES = 16,
    /* between rows that are so far apart nothing is read */
    PAGE = 4096,
    CONVERTED = 1 << 16, /* bytes converted at a time */
};

/* A file read in blocks, because rows of a shard are often shorter. */
typedef struct open_state_file {
    uint32_t index; /* among the checkpoint's files */
    int file;       /* -1: not open */
    uint64_t data;  /* where the tensors' data begin */
    uint64_t held;  /* number of the block in memory; UINT64_MAX: none */
    char *block;
} open_state_file;

enum { UNREAD, PARTLY_READ, CHECKED }; /* states of a block */

struct sc_state_reader {
    sc_context *context;
    const char *path;
    const sc_saved_index *index;
    open_state_file files[OPEN_FILES]; /* by file number modulo OPEN_FILES */
    uint8_t **blocks;                  /* by file and block: block_state */
    uint64_t bytes, check_bytes;
    const char *wrong; /* why the last call failed, and in which file */
    uint32_t wrong_file;
    char row[CONVERTED];
};

static bool fail(sc_state_reader *r, uint32_t file, const char *wrong)
{
    r->wrong = wrong;
    r->wrong_file = file;
    return false;
}

static bool report(const sc_state_reader *r)
{
    const sc_saved_file *about = &r->index->files.data[r->wrong_file];
    return sc_state_refuse(
        r->context, sc_arena_printf(&r->context->arena, "%s/%s", r->path, about->name), r->wrong);
}

/* ---- files ---- */

/* Reads bytes at offset `at`. */
static bool read_at(sc_state_reader *r, const open_state_file *file, void *to, size_t length,
                    uint64_t at)
{
    r->bytes += length;
    for (char *next = to; length > 0;) {
        errno = 0;
        ssize_t got = pread(file->file, next, length, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(r, file->index, sc_arena_printf(&r->context->arena, "%s", strerror(errno)));
        if (got == 0)
            return fail(r, file->index, "it is truncated");
        next += got;
        at += (uint64_t)got;
        length -= (size_t)got;
    }
    return true;
}

/* Explains a wrong checksum: the file may begin with another checkpoint's id. */
static const char *mismatch(int file, const char *id)
{
    char begin[sizeof SC_STATE_SHARDS_BEGIN + SC_STATE_ID];
    size_t length = strlen(SC_STATE_SHARDS_BEGIN);
    ssize_t got = pread(file, begin, length + SC_STATE_ID, SC_STATE_SHARDS_AT);
    bool is_shards =
        got == (ssize_t)(length + SC_STATE_ID) && memcmp(begin, SC_STATE_SHARDS_BEGIN, length) == 0;
    if (is_shards && memcmp(begin + length, id, SC_STATE_ID) != 0)
        return "it belongs to another state than its index";
    return "its checksum is wrong: it is damaged";
}

static uint64_t block_bytes(const sc_saved_file *about, uint64_t block)
{
    uint64_t left = about->bytes - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

/* Compares a complete block with its checksum, once. */
static bool check_block(sc_state_reader *r, const open_state_file *file, uint64_t block,
                        const void *bytes)
{
    const sc_saved_file *about = &r->index->files.data[file->index];
    if (r->blocks[file->index][block] == CHECKED)
        return true;
    if (sc_checksum_of(bytes, block_bytes(about, block)) != about->sums[block])
        return fail(r, file->index, mismatch(file->file, r->index->id));
    r->blocks[file->index][block] = CHECKED;
    return true;
}

static bool hold_block(sc_state_reader *r, open_state_file *file, uint64_t block)
{
    if (file->held == block)
        return true;
    file->held = UINT64_MAX;
    if (!read_at(r, file, file->block, block_bytes(&r->index->files.data[file->index], block),
                 block * BLOCK) ||
        !check_block(r, file, block, file->block))
        return false;
    file->held = block;
    return true;
}

static const char *open_problem(sc_state_reader *r, open_state_file *file)
{
    const sc_saved_file *about = &r->index->files.data[file->index];
    struct stat found;
    file->file = open(sc_arena_printf(&r->context->arena, "%s/%s", r->path, about->name),
                      O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file->file < 0 || fstat(file->file, &found) != 0)
        return sc_arena_printf(&r->context->arena, "%s", strerror(errno));
    if (!S_ISREG(found.st_mode))
        return "it is not a regular file";
    if ((uint64_t)found.st_size != about->bytes)
        return sc_arena_printf(&r->context->arena, "it has %lld bytes, and its index says %" PRIu64,
                               (long long)found.st_size, about->bytes);
    return NULL;
}

/* Returns the open file, or NULL. */
static open_state_file *open_file(sc_state_reader *r, uint32_t index)
{
    open_state_file *file = &r->files[index % OPEN_FILES];
    if (file->file >= 0 && file->index == index)
        return file;
    if (file->file >= 0)
        close(file->file);
    if (file->block == NULL)
        file->block = malloc(BLOCK);
    *file = (open_state_file){.index = index, .file = -1, .held = UINT64_MAX, .block = file->block};
    const char *wrong =
        file->block == NULL ? "there is not enough memory to read it" : open_problem(r, file);
    if (wrong == NULL)
        return file;
    fail(r, index, wrong);
    if (file->file >= 0)
        close(file->file);
    file->file = -1;
    return NULL;
}

/* Finds where the data begin. */
static bool find_data(sc_state_reader *r, open_state_file *file)
{
    const sc_saved_file *about = &r->index->files.data[file->index];
    uint64_t header;
    if (file->data > 0)
        return true;
    if (about->bytes < sizeof header || !hold_block(r, file, 0))
        return about->bytes < sizeof header ? fail(r, file->index, "its header is wrong") : false;
    memcpy(&header, file->block, sizeof header);
    if (header > about->bytes - sizeof header)
        return fail(r, file->index, "its header is wrong");
    file->data = sizeof header + header;
    return true;
}

/* ---- values ---- */

/* Reads bytes of a file's data. `is_alone`: nothing near them is needed. */
static bool read_bytes(sc_state_reader *r, uint32_t index, uint64_t at, size_t length,
                       bool is_alone, char *to)
{
    const sc_saved_file *about = &r->index->files.data[index];
    open_state_file *file = open_file(r, index);
    if (file == NULL || !find_data(r, file))
        return false;
    at += file->data;
    if (at > about->bytes || length > about->bytes - at)
        return fail(r, index, "its header is wrong");
    while (length > 0) {
        uint64_t block = at / BLOCK, from = at % BLOCK, whole = block_bytes(about, block);
        size_t now = whole - from < length ? (size_t)(whole - from) : length;
        bool is_whole = now == whole, is_held = file->held == block;
        if (is_held || (!is_whole && !is_alone)) {
            if (!hold_block(r, file, block))
                return false;
            memcpy(to, file->block + from, now);
        } else if (!read_at(r, file, to, now, at) ||
                   (is_whole && !check_block(r, file, block, to))) {
            return false;
        } else if (r->blocks[index][block] == UNREAD) {
            r->blocks[index][block] = PARTLY_READ;
        }
        at += now;
        to += now;
        length -= now;
    }
    return true;
}

typedef struct part {
    const sc_saved_tensor *tensor;
    const sc_saved_shard *shard;
    sc_element element; /* of `local` */
    char *local;
    bool is_alone;
} part;

/* Reads `count` elements from element `from` of the shard to element `to`. */
static bool read_row(sc_state_reader *r, const part *p, int64_t from, int64_t to, int64_t count)
{
    size_t size = sc_element_size(p->tensor->element), out_size = sc_element_size(p->element);
    uint64_t at = p->shard->begin + (uint64_t)from * size;
    if (p->element == p->tensor->element)
        return read_bytes(r, p->shard->file, at, (size_t)count * size, p->is_alone,
                          p->local + (size_t)to * size);
    for (int64_t done = 0; done < count;) {
        int64_t most = (int64_t)(CONVERTED / size), now = count - done < most ? count - done : most;
        if (!read_bytes(r, p->shard->file, at + (uint64_t)done * size, (size_t)now * size,
                        p->is_alone, r->row))
            return false;
        if (!sc_element_convert(p->tensor->element, r->row, p->element,
                                p->local + (size_t)(to + done) * out_size, (uint64_t)now))
            return fail(r, p->shard->file, "it has a value that the program's dtype cannot hold");
        done += now;
    }
    return true;
}

/* Reads the part of a saved shard that belongs to the box. */
static bool read_part(sc_state_reader *r, part *p, const sc_shard_place *place)
{
    int64_t sizes[SHARDC_TENSOR_MAX_RANK], from[SHARDC_TENSOR_MAX_RANK], to[SHARDC_TENSOR_MAX_RANK];
    const sc_saved_shard *shard = p->shard;
    for (uint32_t d = 0; d < place->rank; d++) {
        int64_t first = shard->first[d] > place->first[d] ? shard->first[d] : place->first[d];
        int64_t shard_end = shard->first[d] + shard->sizes[d],
                end = place->first[d] + place->sizes[d];
        sizes[d] = (shard_end < end ? shard_end : end) - first;
        from[d] = first - shard->first[d];
        to[d] = first - place->first[d];
        if (sizes[d] <= 0)
            return true;
    }
    sc_rows rows = sc_rows_begin(place->rank, sizes, (sc_rows_place){shard->sizes, from},
                                 (sc_rows_place){place->local, to});
    int64_t gap = rows.rank == 0 ? 0 : rows.a_strides[rows.rank - 1] - rows.length;
    p->is_alone = gap * (int64_t)sc_element_size(p->tensor->element) >= PAGE;
    for (; !rows.is_done; sc_rows_next(&rows)) {
        if (!read_row(r, p, rows.a_at, rows.b_at, rows.length))
            return false;
    }
    return true;
}

bool sc_state_reader_box(sc_state_reader *r, const sc_saved_tensor *tensor,
                         const sc_shard_place *place, sc_element element, void *local)
{
    for (uint32_t i = 0; i < tensor->shards.count; i++) {
        part p = {tensor, &tensor->shards.data[i], element, local, false};
        if (!read_part(r, &p, place))
            return report(r);
    }
    return true;
}

/* ---- blocks that nobody read completely ---- */

static bool check_one(sc_state_reader *r, uint32_t index, uint64_t block)
{
    open_state_file *file = open_file(r, index);
    uint64_t before = r->bytes;
    bool ok = file != NULL && hold_block(r, file, block);
    r->check_bytes += r->bytes - before;
    return ok;
}

/* How processes have read the blocks, one after the other, as numbers that can be summed. */
enum { ONE_CHECKED = 1 << 20 }; /* more than there are processes; one that read a part counts 1 */

static int64_t *count_reads(const sc_state_reader *r, uint64_t *count)
{
    *count = 0;
    for (uint32_t f = 0; f < r->index->files.count; f++)
        *count += sc_durable_blocks(r->index->files.data[f].bytes);
    int64_t *reads = *count > UINT32_MAX ? NULL : calloc(*count + 1, sizeof *reads);
    uint64_t number = 0;
    for (uint32_t f = 0; f < r->index->files.count; f++) {
        if (reads == NULL)
            break;
        for (uint64_t b = 0; b < sc_durable_blocks(r->index->files.data[f].bytes); b++) {
            uint8_t state = r->blocks[f][b];
            reads[number++] = state == CHECKED ? ONE_CHECKED : state == PARTLY_READ;
        }
    }
    return reads;
}

/* Checks the blocks that some process has read and none has checked: every `of`-th of them. */
static bool check_blocks(sc_state_reader *r, const int64_t *reads, uint64_t mine, uint64_t of)
{
    uint64_t number = 0, left = 0;
    for (uint32_t f = 0; f < r->index->files.count; f++) {
        for (uint64_t b = 0; b < sc_durable_blocks(r->index->files.data[f].bytes); b++, number++) {
            bool is_open = reads[number] > 0 && reads[number] < ONE_CHECKED;
            if (is_open && left++ % of == mine && !check_one(r, f, b))
                return false;
        }
    }
    return true;
}

bool sc_state_reader_check(sc_state_reader *r, const sc_executor *executor)
{
    uint64_t count, mine = 0, of = 1;
    int64_t *reads = count_reads(r, &count);
    shardc_error error = {.text = "there is not enough memory to check it"};
    bool ok = reads != NULL;
    if (ok && executor != NULL && executor->verbs->sum != NULL) {
        ok = executor->verbs->sum(executor->self, reads, (uint32_t)count,
                                  "which parts of a state are checked", &error);
        mine = executor->first_rank / executor->local_ranks;
        of = executor->rank_count / executor->local_ranks;
    }
    if (!ok)
        sc_state_refuse(r->context, r->path, sc_arena_printf(&r->context->arena, "%s", error.text));
    ok = ok && (check_blocks(r, reads, mine, of) || report(r));
    free(reads);
    return ok;
}

bool sc_saved_files_are_whole(sc_context *context, const char *path, const sc_saved_index *index)
{
    sc_state_reader *r = sc_state_reader_new(context, path, index);
    bool ok = r != NULL;
    for (uint32_t f = 0; f < index->files.count; f++) {
        for (uint64_t b = 0; b < sc_durable_blocks(index->files.data[f].bytes); b++) {
            if (ok)
                ok = check_one(r, f, b);
        }
    }
    sc_state_reader_free(r);
    return ok;
}

uint64_t sc_state_reader_bytes(const sc_state_reader *r)
{
    return r->bytes;
}

uint64_t sc_state_reader_check_bytes(const sc_state_reader *r)
{
    return r->check_bytes;
}

/* ---- creation and destruction ---- */

sc_state_reader *sc_state_reader_new(sc_context *context, const char *path,
                                     const sc_saved_index *index)
{
    sc_state_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->context = context;
    r->path = path;
    r->index = index;
    for (uint32_t i = 0; i < OPEN_FILES; i++)
        r->files[i].file = -1;
    r->blocks = calloc(index->files.count + 1u, sizeof *r->blocks);
    bool ok = r->blocks != NULL;
    for (uint32_t f = 0; f < index->files.count; f++) {
        if (!ok)
            break;
        r->blocks[f] =
            calloc(sc_durable_blocks(index->files.data[f].bytes) + 1, sizeof **r->blocks);
        ok = r->blocks[f] != NULL;
    }
    if (ok)
        return r;
    sc_state_reader_free(r);
    return NULL;
}

void sc_state_reader_free(sc_state_reader *r)
{
    if (r == NULL)
        return;
    uint32_t count = r->blocks == NULL ? 0 : r->index->files.count;
    for (uint32_t f = 0; f < count; f++)
        free(r->blocks[f]);
    free(r->blocks);
    for (uint32_t i = 0; i < OPEN_FILES; i++) {
        if (r->files[i].file >= 0)
            close(r->files[i].file);
        free(r->files[i].block);
    }
    free(r);
}
