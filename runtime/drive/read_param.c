/* A box of a parameter is cut into units: some rows of a plane, the two dims whose elements are
 * nearest in the file. A unit is read into a window in file order, converted, and stored at its
 * place. Where rows become columns, this is done in tiles of one cache line by one, each line of
 * the window and of the destination complete at a time: lines that are powers of two apart would
 * evict each other. Units are independent of each other. A row that is stored as it is in the file
 * is read to its place directly. */
#include "runtime/drive/read_param.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 1 << 20, /* of a unit, and of its elements once converted */
    /* of a unit whose rows become columns: pieces of columns are the longer */
    TURNED_BYTES = 1 << 22,
    PAGE = 4096,      /* gaps of at most so many bytes are read, too */
    DIRECT = 1 << 16, /* bytes of a row that is worth a read of its own */
    LINE = 64,        /* bytes of a tile's rows and columns */
};

/* A dim of the box: its size, and the distance of its elements in the file and in memory. */
typedef struct axis {
    int64_t size, stride, step;
    bool is_indexed; /* one tensor per index */
    uint32_t dim;
} axis;

typedef struct reading {
    const sc_safetensors *file;
    const sc_fact_param *param;
    const sc_safetensor *const *tensors;
    const sc_shard_place *place;
    size_t from_size; /* of the largest element of the tensors */
    sc_element element;
    char *local;
    axis axes[SC_ARRAY_MAX_RANK + 2]; /* in the order of the file; the last two are the plane */
    uint32_t outer;                   /* number of axes before the plane */
    int64_t row_span;                 /* elements from a piece of a row's first to its last */
    int64_t columns, rows;            /* of a unit */
    int64_t column_units, row_units;
    bool is_dense; /* rows of a unit are read together */
    bool is_row;   /* a row of the file is one in memory */
    size_t window_bytes;
    atomic_bool has_failed;
    sc_read_failure *failure;
} reading;

/* ---- cutting ---- */

static bool comes_before(const axis *a, const axis *b)
{
    if (a->is_indexed != b->is_indexed)
        return a->is_indexed;
    return !a->is_indexed && a->stride > b->stride;
}

/* Merges an axis with the one after it if they are as one in the file and in memory. */
static uint32_t merge_axes(axis *axes, uint32_t count)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < count; i++) {
        axis *before = &axes[last];
        const axis *after = &axes[i];
        if (!before->is_indexed && before->stride == after->size * after->stride &&
            before->step == after->size * after->step)
            *before = (axis){
                .size = before->size * after->size, .stride = after->stride, .step = after->step};
        else
            axes[++last] = *after;
    }
    return count == 0 ? 0 : last + 1;
}

static void order_axes(reading *r)
{
    const sc_weight_layout *layout = &r->param->layout;
    uint32_t count = 0, indexed = 0;
    int64_t step = 1;
    axis axes[SC_ARRAY_MAX_RANK];
    for (uint32_t d = r->place->rank; d-- > 0;) {
        axis one = {.size = r->place->sizes[d],
                    .stride = layout->strides[d],
                    .step = step,
                    .is_indexed = layout->indexed[d],
                    .dim = d};
        step *= r->place->local[d];
        if (one.size == 1 && !one.is_indexed)
            continue;
        uint32_t at = count++;
        for (; at > 0 && comes_before(&one, &axes[at - 1]); at--)
            axes[at] = axes[at - 1];
        axes[at] = one;
        indexed += one.is_indexed;
    }
    count = indexed + merge_axes(axes + indexed, count - indexed);
    uint32_t plane = count - indexed < 2 ? count - indexed : 2;
    r->outer = count - plane;
    memcpy(r->axes, axes, count * sizeof *axes);
    axis *last = &r->axes[r->outer];
    if (plane == 1)
        last[1] = last[0];
    if (plane == 0)
        last[1] = (axis){.size = 1, .stride = 1, .step = 1};
    if (plane < 2)
        last[0] = (axis){.size = 1, .stride = 1, .step = 1};
}

static int64_t at_least_one(int64_t number)
{
    return number < 1 ? 1 : number;
}

static void cut_plane(reading *r)
{
    const axis *row = &r->axes[r->outer], *column = row + 1;
    size_t size = r->from_size, out = sc_element_size(r->element);
    r->is_row = column->stride == 1 && column->step == 1;
    r->window_bytes = r->is_row ? WINDOW_BYTES : TURNED_BYTES;
    int64_t bytes = (int64_t)size,
            most = (int64_t)r->window_bytes / (int64_t)(size > out ? size : out);
    bool is_sparse = (column->stride - 1) * bytes > PAGE;
    r->columns = is_sparse ? 1 : at_least_one((most - 1) / column->stride + 1);
    r->columns = r->columns < column->size ? r->columns : column->size;
    r->row_span = (r->columns - 1) * column->stride + 1;
    r->is_dense = r->columns == column->size && (row->stride - r->row_span) * bytes <= PAGE &&
                  row->stride >= r->row_span;
    r->rows = r->is_dense ? (most - r->row_span) / row->stride + 1 : most / r->row_span;
    r->rows = at_least_one(r->rows < row->size ? r->rows : row->size);
    r->column_units = (column->size + r->columns - 1) / r->columns;
    r->row_units = (row->size + r->rows - 1) / r->rows;
}

/* ---- one unit ---- */

static const char too_narrow[] = "it has a value that the parameter's dtype cannot hold";

static bool fail(reading *r, const sc_safetensor *tensor, const char *reason)
{
    if (!atomic_exchange(&r->has_failed, true)) /* the first is reported, when all have ended */
        *r->failure = (sc_read_failure){tensor, reason};
    return false;
}

static bool read_elements(reading *r, const sc_safetensor *tensor, int64_t first, int64_t count,
                          void *to)
{
    const char *reason;
    return sc_safetensors_read_stored(r->file, tensor, (uint64_t)first, (uint64_t)count, to,
                                      &reason) ||
           fail(r, tensor, reason);
}

/* One tile: rows and columns are at most a cache line. Called with constant bounds for whole tiles,
 * which are most, so that compilers unroll and vectorize them. */
#define TURN(type, name)                                                                           \
    static inline __attribute__((always_inline)) void name##_part(                                 \
        const char *from, int64_t pitch, char *to, int64_t step, int64_t rows, int64_t columns)    \
    {                                                                                              \
        type tile[LINE / sizeof(type)][LINE / sizeof(type)], turned[LINE / sizeof(type)];          \
        for (int64_t i = 0; i < rows; i++)                                                         \
            memcpy(tile[i], from + i * pitch * (int64_t)sizeof(type),                              \
                   (size_t)columns * sizeof(type));                                                \
        for (int64_t j = 0; j < columns; j++) {                                                    \
            for (int64_t i = 0; i < rows; i++)                                                     \
                turned[i] = tile[i][j];                                                            \
            memcpy(to + j * step * (int64_t)sizeof(type), turned, (size_t)rows * sizeof(type));    \
        }                                                                                          \
    }                                                                                              \
    static void name(const char *from, int64_t pitch, char *to, int64_t step, int64_t rows,        \
                     int64_t columns)                                                              \
    {                                                                                              \
        enum { SIDE = LINE / sizeof(type) };                                                       \
        if (rows == SIDE && columns == SIDE)                                                       \
            name##_part(from, pitch, to, step, SIDE, SIDE);                                        \
        else                                                                                       \
            name##_part(from, pitch, to, step, rows, columns);                                     \
    }

TURN(uint64_t, turn_eights)
TURN(uint32_t, turn_fours)
TURN(uint16_t, turn_twos)
TURN(uint8_t, turn_ones)

/* Rows of the window, `pitch` elements apart, become columns that are `step` elements apart. */
static void turn_tile(size_t size, const char *from, int64_t pitch, char *to, int64_t step,
                      int64_t rows, int64_t columns)
{
    if (size == 4)
        turn_fours(from, pitch, to, step, rows, columns);
    else if (size == 2)
        turn_twos(from, pitch, to, step, rows, columns);
    else if (size == 8)
        turn_eights(from, pitch, to, step, rows, columns);
    else
        turn_ones(from, pitch, to, step, rows, columns);
}

static void turn_window(const reading *r, const char *window, int64_t pitch, char *to, int64_t rows,
                        int64_t columns)
{
    size_t size = sc_element_size(r->element);
    int64_t bytes = (int64_t)size, side = LINE / bytes, step = r->axes[r->outer + 1].step;
    for (int64_t j = 0; j < columns; j += side) {
        for (int64_t i = 0; i < rows; i += side)
            turn_tile(size, window + (i * pitch + j) * bytes, pitch, to + (i + j * step) * bytes,
                      step, rows - i < side ? rows - i : side,
                      columns - j < side ? columns - j : side);
    }
}

/* Stores a window of rows that are `pitch` elements apart. */
static void store_window(const reading *r, const char *window, int64_t pitch, char *to,
                         int64_t rows, int64_t columns)
{
    const axis *row = &r->axes[r->outer], *column = row + 1;
    size_t size = sc_element_size(r->element);
    int64_t bytes = (int64_t)size;
    if (column->stride == 1 && row->step == 1) {
        turn_window(r, window, pitch, to, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            memcpy(to + (i * row->step + j * column->step) * bytes,
                   window + (i * pitch + j * column->stride) * bytes, size);
    }
}

static bool read_window(reading *r, const sc_safetensor *tensor, int64_t first, int64_t rows,
                        int64_t span, char *window, int64_t *pitch)
{
    const axis *row = &r->axes[r->outer];
    *pitch = r->is_dense ? row->stride : span;
    if (r->is_dense)
        return read_elements(r, tensor, first, (rows - 1) * row->stride + span, window);
    for (int64_t i = 0; i < rows; i++) {
        if (!read_elements(r, tensor, first + i * row->stride, span,
                           window + (size_t)(i * span) * sc_element_size(tensor->element)))
            return false;
    }
    return true;
}

/* Reads rows that are rows in memory, too. */
static bool read_rows(reading *r, const sc_safetensor *tensor, int64_t first, char *to,
                      int64_t rows, int64_t columns, char *window)
{
    const axis *row = &r->axes[r->outer];
    size_t size = sc_element_size(r->element), from_size = sc_element_size(tensor->element);
    bool is_direct = tensor->element == r->element &&
                     ((size_t)columns * size >= DIRECT || (rows == 1 && r->column_units == 1));
    int64_t pitch = 0;
    bool ok = is_direct || read_window(r, tensor, first, rows, columns, window, &pitch);
    for (int64_t i = 0; i < rows; i++) {
        char *there = to + i * row->step * (int64_t)size;
        if (ok && is_direct)
            ok = read_elements(r, tensor, first + i * row->stride, columns, there);
        else if (ok &&
                 !sc_element_convert(tensor->element, window + (size_t)(i * pitch) * from_size,
                                     r->element, there, (uint64_t)columns))
            ok = fail(r, tensor, too_narrow);
    }
    return ok;
}

/* `windows`: two of r->window_bytes. */
static bool read_plane(reading *r, const sc_safetensor *tensor, int64_t first, char *to,
                       int64_t rows, int64_t columns, char *windows)
{
    const axis *column = &r->axes[r->outer + 1];
    int64_t pitch, span = (columns - 1) * column->stride + 1;
    char *converted = windows + r->window_bytes;
    bool is_same = tensor->element == r->element;
    if (r->is_row)
        return read_rows(r, tensor, first, to, rows, columns, windows);
    if (!read_window(r, tensor, first, rows, span, windows, &pitch))
        return false;
    uint64_t count = (uint64_t)((rows - 1) * pitch + span);
    if (!is_same && !sc_element_convert(tensor->element, windows, r->element, converted, count))
        return fail(r, tensor, too_narrow);
    store_window(r, is_same ? windows : converted, pitch, to, rows, columns);
    return true;
}

static bool read_unit(reading *r, int64_t unit, char *windows)
{
    const axis *row = &r->axes[r->outer], *column = row + 1;
    int64_t j = unit % r->column_units * r->columns, i,
            first = sc_weight_element(&r->param->layout, &(sc_weight_place){{0}}), to = 0;
    sc_weight_place place = {{0}};
    unit /= r->column_units;
    i = unit % r->row_units * r->rows;
    unit /= r->row_units;
    for (uint32_t d = 0; d < r->place->rank; d++) {
        place.index[d] = r->place->first[d];
        first += r->place->first[d] * r->param->layout.strides[d];
    }
    for (uint32_t a = r->outer; a-- > 0;) {
        const axis *one = &r->axes[a];
        int64_t index = unit % one->size;
        unit /= one->size;
        first += index * one->stride;
        to += index * one->step;
        if (one->is_indexed)
            place.index[one->dim] += index;
    }
    first += i * row->stride + j * column->stride;
    to += i * row->step + j * column->step;
    const sc_safetensor *tensor =
        r->tensors[sc_weight_tensor(&r->param->layout, r->param->sizes, &place)];
    return read_plane(r, tensor, first, r->local + (size_t)to * sc_element_size(r->element),
                      row->size - i < r->rows ? row->size - i : r->rows,
                      column->size - j < r->columns ? column->size - j : r->columns, windows);
}

/* ---- the box ---- */

static void read_units(reading *r, int64_t count)
{
#pragma omp parallel if (count > 1)
    {
        char *windows = malloc(2 * r->window_bytes);
        if (windows == NULL)
            fail(r, r->tensors[0], "there is not enough memory to read it");
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < count; unit++) {
            if (!atomic_load(&r->has_failed))
                (void)read_unit(r, unit, windows);
        }
        free(windows);
    }
}

bool sc_param_read(const sc_safetensors *file, const sc_fact_param *param,
                   const sc_safetensor *const *tensors, const sc_shard_place *place,
                   sc_element element, void *local, sc_read_failure *failure)
{
    reading r = {.file = file,
                 .param = param,
                 .tensors = tensors,
                 .place = place,
                 .element = element,
                 .local = local,
                 .failure = failure};
    for (uint32_t d = 0; d < place->rank; d++) {
        if (place->sizes[d] <= 0)
            return true;
    }
    for (uint32_t t = 0; t < param->tensor_count; t++) {
        size_t size = sc_element_size(tensors[t]->element);
        r.from_size = size > r.from_size ? size : r.from_size;
    }
    order_axes(&r);
    cut_plane(&r);
    int64_t count = r.column_units * r.row_units;
    for (uint32_t a = 0; a < r.outer; a++)
        count *= r.axes[a].size;
    read_units(&r, count);
    return !atomic_load(&r.has_failed);
}

void sc_place_whole(uint32_t rank, const int64_t *sizes, sc_shard_place *out)
{
    *out = (sc_shard_place){.rank = rank, .is_held = true, .is_given = true};
    for (uint32_t d = 0; d < rank; d++)
        out->sizes[d] = out->local[d] = sizes[d];
}
