/* Parameters larger than what is read at once, in every order of their dims, interleaved, spread
 * and over several tensors: each value is the element that the layout says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/drive/read_param.h"

typedef struct layout_row {
    const char *what;
    uint32_t rank;
    int64_t sizes[3], strides[3];
    int64_t offset, elements;
    bool indexed[3];
} layout_row;

static const layout_row rows[] = {
    {"as it lies", 2, {300, 200}, {200, 1}, 0, 60000, {false}},
    {"transposed", 2, {300, 200}, {1, 300}, 0, 60000, {false}},
    {"two of five parts", 2, {300, 200}, {500, 1}, 100, 150000, {false}},
    {"every third", 2, {100, 200}, {600, 3}, 2, 60000, {false}},
    {"a column, far apart", 1, {90}, {5000}, 77, 450000, {false}},
    {"columns, far apart", 2, {3, 90}, {1, 5000}, 4000, 450000, {false}},
    {"the middle first", 3, {40, 50, 60}, {60, 2400, 1}, 0, 120000, {false}},
    {"a tensor an index", 3, {2, 150, 130}, {0, 1, 150}, 0, 19500, {true, false, false}},
    {"a tensor an index of the last dim", 2, {150, 3}, {1, 0}, 0, 150, {false, true}},
    {"a scalar", 0, {0}, {0}, 3, 8, {false}},
    {"a dim of one", 2, {1, 70000}, {9, 1}, 0, 70000, {false}},
    {"rows longer than a window", 2, {3, 400000}, {400000, 1}, 0, 1200000, {false}},
    {"columns longer than a window", 2, {300000, 3}, {1, 300000}, 0, 900000, {false}},
};

enum { TENSOR_STEP = 2000000 }; /* element i of tensor t is TENSOR_STEP * t + i */

static sc_safetensors *make_file(const sc_fact_param *param, unsigned char **bytes)
{
    uint64_t shape = (uint64_t)param->layout.elements;
    sc_safetensors_item items[3];
    sc_safetensors_error error = {0};
    size_t length = 0, each = (size_t)shape * sizeof(double);
    for (uint32_t t = 0; t < param->tensor_count; t++)
        items[t] = (sc_safetensors_item){
            .name = param->tensors[t], .element = SC_ELEMENT_F64, .rank = 1, .shape = &shape};
    char *header = sc_safetensors_header(items, param->tensor_count, NULL, 0, &length, &error);
    assert_non_null(header);
    *bytes = malloc(length + param->tensor_count * each);
    assert_non_null(*bytes);
    memcpy(*bytes, header, length);
    free(header);
    for (uint32_t t = 0; t < param->tensor_count; t++) {
        for (uint64_t i = 0; i < shape; i++) {
            double value = (double)(TENSOR_STEP * (uint64_t)t + i);
            memcpy(*bytes + length + t * each + i * sizeof value, &value, sizeof value);
        }
    }
    sc_safetensors *file =
        sc_safetensors_open_memory(*bytes, length + param->tensor_count * each, "m", &error);
    assert_non_null(file);
    return file;
}

static sc_fact_param param_of(const layout_row *row)
{
    static const char *names[] = {"a", "b", "c"};
    sc_fact_param param = {.rank = row->rank, .tensor_count = 1, .tensors = names};
    for (uint32_t d = 0; d < row->rank; d++) {
        param.sizes[d] = row->sizes[d];
        param.layout.strides[d] = row->strides[d];
        param.layout.indexed[d] = row->indexed[d];
        param.tensor_count = row->indexed[d] ? (uint32_t)row->sizes[d] : param.tensor_count;
    }
    param.layout.rank = row->rank;
    param.layout.offset = row->offset;
    param.layout.elements = row->elements;
    return param;
}

/* Reads the box and compares its values, and the padding behind them. */
static void check_box(const layout_row *row, const sc_safetensors *file, const sc_fact_param *param,
                      const sc_shard_place *box, sc_element element)
{
    sc_read_failure failure = {0};
    const sc_safetensor *tensors[3];
    for (uint32_t t = 0; t < param->tensor_count; t++)
        tensors[t] = sc_safetensors_find(file, param->tensors[t]);
    int64_t count = 1;
    for (uint32_t d = 0; d < box->rank; d++)
        count *= box->local[d];
    double padding = -1;
    char *local = malloc((size_t)count * sc_element_size(element) + 1);
    assert_non_null(local);
    for (int64_t e = 0; e < count; e++)
        sc_element_store(element, local, (uint64_t)e, padding);
    assert_true(sc_param_read(file, param, tensors, box, element, local, &failure));
    for (int64_t e = 0; e < count; e++) {
        sc_weight_place place = {{0}};
        int64_t rest = e;
        bool is_inside = true;
        for (uint32_t d = box->rank; d-- > 0;) {
            is_inside = is_inside && rest % box->local[d] < box->sizes[d];
            place.index[d] = box->first[d] + rest % box->local[d];
            rest /= box->local[d];
        }
        double wanted = padding;
        if (is_inside)
            wanted = (double)(TENSOR_STEP *
                                  (int64_t)sc_weight_tensor(&param->layout, param->sizes, &place) +
                              sc_weight_element(&param->layout, &place));
        char rounded[8];
        sc_element_store(element, rounded, 0, wanted);
        if (sc_element_load(element, local, (uint64_t)e) != sc_element_load(element, rounded, 0))
            fail_msg("%s: value %lld is %g, not %g", row->what, (long long)e,
                     sc_element_load(element, local, (uint64_t)e), wanted);
    }
    free(local);
}

/* The whole, and a box inside it with padding, as several types. */
static void check_row(const layout_row *row)
{
    static const sc_element elements[] = {SC_ELEMENT_F64, SC_ELEMENT_F32, SC_ELEMENT_BF16};
    unsigned char *bytes = NULL;
    sc_fact_param param = param_of(row);
    sc_safetensors *file = make_file(&param, &bytes);
    sc_shard_place whole, box;
    sc_place_whole(param.rank, param.sizes, &whole);
    box = whole;
    for (uint32_t d = 0; d < param.rank; d++) {
        box.first[d] = param.sizes[d] / 3;
        box.sizes[d] = (param.sizes[d] + 1) / 2;
        box.local[d] = box.sizes[d] + (d == 0);
    }
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        check_box(row, file, &param, &whole, elements[i]);
        check_box(row, file, &param, &box, elements[i]);
    }
    sc_safetensors_close(file);
    free(bytes);
}

static void values_are_the_elements_of_the_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_elements_of_the_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
