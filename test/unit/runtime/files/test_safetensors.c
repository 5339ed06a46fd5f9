/* The safetensors reader accepts what the format allows, refuses the rest with a reason, and reads
 * what the writer wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/safetensors.h"

enum { ROOM = 1 << 16 };

/* A file in memory: the header's text and `data_size` bytes 0, 1, 2, .. as data. */
static size_t make_file(unsigned char *out, const char *header, size_t data_size)
{
    uint64_t length = strlen(header);
    memcpy(out, &length, 8);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < data_size; i++)
        out[8 + length + i] = (unsigned char)i;
    return 8 + length + data_size;
}

/* The bytes in a block of exactly their size, so that the sanitizer sees a read past the end. */
static sc_safetensors *open_exact(const unsigned char *bytes, size_t size,
                                  sc_safetensors_error *error)
{
    static unsigned char *held;
    free(held);
    held = malloc(size == 0 ? 1 : size);
    assert_non_null(held);
    memcpy(held, bytes, size);
    sc_safetensors *tensors = sc_safetensors_open_memory(held, size, "m", error);
    if (tensors == NULL) {
        free(held);
        held = NULL;
    }
    return tensors;
}

static double value_of(const sc_safetensors *tensors, const sc_safetensor *tensor, uint64_t index)
{
    double value = NAN;
    const char *reason;
    assert_true(sc_safetensors_read(tensors, tensor, index, 1, &value, &reason));
    return value;
}

static void refuses(const char *header, size_t data_size, const char *reason)
{
    unsigned char bytes[4096];
    sc_safetensors_error error = {0};
    size_t size = make_file(bytes, header, data_size);
    assert_null(open_exact(bytes, size, &error));
    if (error.count == 0 || strstr(error.text, reason) == NULL)
        fail_msg("%s\n  wanted: %s\n  got:    %s", header, reason, error.text);
}

static const struct malformed {
    const char *header;
    size_t data;
    const char *reason;
} malformed[] = {
    {"", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"{", 0, "not JSON"},
    {"{}x", 0, "not JSON"},
    {"{\"a\":1,}", 0, "not JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\","
     "\"shape\":[],\"data_offsets\":[0,4]}}",
     4, "duplicate object key"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "duplicate object key"},
    {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "not JSON"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "not JSON"},
    {"{\"a\":7}", 0, "'a': not an object"},
    {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
    {"{\"a\":{\"dtype\":3,\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "dtype is missing or not a text"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown dtype 'F33'"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4,
     "shape is missing or not an array"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-1],\"data_offsets\":[0,4]}}", 4,
     "shape[1] is not a whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
     "shape[0] is not a whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4,
     "shape[0] is not a whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
     "not JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
     "larger than 64 bits"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4,
     "larger than 64 bits"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "data_offsets is not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 4,
     "data_offsets is not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4,8]}}", 4,
     "data_offsets is not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[-4,0]}}", 4,
     "data_offsets is not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,0]}}", 4,
     "do not lie in the data"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
     "do not lie in the data of 4 bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[9223372036854775803,"
     "9223372036854775807]}}",
     4, "do not lie in the data"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "takes 8 bytes, data_offsets give 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]}}", 8,
     "takes 4 bytes, data_offsets give 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[4],\"data_offsets\":[2,6]}}",
     6, "'b' overlaps 'a'"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "'b' overlaps 'a'"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[1],\"data_offsets\":[6,7]}}",
     7, "bytes 4 to 6 of the data, before tensor 'b', belong to no tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, "bytes 0 to 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 6, "the last 2 bytes"},
    {"{}", 1, "the last 1 bytes"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "the value of 'k' is not a text"},
};

static void malformed_headers_are_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        refuses(malformed[i].header, malformed[i].data, malformed[i].reason);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static unsigned char bytes[ROOM];
    static char header[ROOM / 2];
    sc_safetensors_error error = {0};
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', sizeof header - 6);
    size_t size = make_file(bytes, header, 0);
    assert_null(open_exact(bytes, size, &error));
    assert_non_null(strstr(error.text, "not JSON"));
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        size_t size;
        const char *reason;
    } lies[] = {
        {0, 0, "too few"},
        {0, 7, "too few"},
        {3, 10, "the file ends after 2"},
        {100 * 1000 * 1000 + 1, 10, "over the limit"},
        {UINT64_MAX, 10, "over the limit"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        unsigned char bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
        sc_safetensors_error error = {0};
        memcpy(bytes, &lies[i].length, 8);
        assert_null(open_exact(bytes, lies[i].size, &error));
        assert_non_null(strstr(error.text, lies[i].reason));
    }
}

static void every_prefix_of_a_good_file_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[512];
    size_t size =
        make_file(bytes, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    for (size_t i = 0; i < size; i++) {
        sc_safetensors_error error = {0};
        assert_null(open_exact(bytes, i, &error));
        assert_int_equal(error.count, 1);
    }
}

static void all_that_is_wrong_is_listed(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    sc_safetensors_error error = {0};
    size_t size =
        make_file(bytes,
                  "{\"a\":{\"dtype\":\"F31\",\"shape\":[-1],\"data_offsets\":[0,8]},\"b\":3,"
                  "\"c\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[8,12]},\"__metadata__"
                  "\":{\"k\":[]}}",
                  12);
    assert_null(open_exact(bytes, size, &error));
    assert_int_equal(error.count, 5);
    assert_string_equal(error.text,
                        "m: tensor 'a': unknown dtype 'F31'\n"
                        "m: tensor 'a': shape[0] is not a whole number from 0\n"
                        "m: tensor 'b': not an object\n"
                        "m: tensor 'c': F32 of its shape takes 12 bytes, data_offsets give 4\n"
                        "m: __metadata__: the value of 'k' is not a text\n");
}

static void problems_beyond_the_room_are_counted(void **state)
{
    (void)state;
    static unsigned char bytes[ROOM];
    static char header[ROOM / 2];
    sc_safetensors_error error = {0};
    size_t length = 0;
    for (int i = 0; i < 1000; i++)
        length += (size_t)snprintf(header + length, sizeof header - length, "%s\"t%d\":%d",
                                   i == 0 ? "{" : ",", i, i);
    snprintf(header + length, sizeof header - length, "}");
    size_t size = make_file(bytes, header, 0);
    assert_null(open_exact(bytes, size, &error));
    assert_int_equal(error.count, 1000);
    char tail[32];
    snprintf(tail, sizeof tail, "\nand %u more\n", error.omitted);
    assert_non_null(strstr(error.text, tail));
}

static void control_characters_do_not_reach_messages(void **state)
{
    (void)state;
    refuses("{\"a\\u001b[2J\":1}", 0, "'a?[2J'");
}

static void good_headers_are_read(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    sc_safetensors_error error = {0};
    size_t size = make_file(bytes,
                            "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\","
                            "\"shape\":[2,2],\"data_offsets\":[1,5]},"
                            "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[1,1]},"
                            "\"a\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}   ",
                            5);
    sc_safetensors *tensors = open_exact(bytes, size, &error);
    assert_non_null(tensors);
    assert_int_equal(sc_safetensors_count(tensors), 3);
    assert_string_equal(sc_safetensors_at(tensors, 0)->name, "a");
    assert_string_equal(sc_safetensors_at(tensors, 1)->name, "none");
    const sc_safetensor *b = sc_safetensors_find(tensors, "b");
    assert_ptr_equal(b, sc_safetensors_at(tensors, 2));
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->count, 4);
    assert_int_equal(b->bytes, 4);
    assert_true(value_of(tensors, b, 3) == 4);
    assert_null(sc_safetensors_find(tensors, "c"));
    assert_string_equal(sc_safetensors_metadata(tensors, "format"), "pt");
    assert_null(sc_safetensors_metadata(tensors, "b"));
    sc_safetensors_close(tensors);
}

static void a_file_without_tensors_is_good(void **state)
{
    (void)state;
    unsigned char bytes[16];
    sc_safetensors_error error = {0};
    sc_safetensors *tensors = open_exact(bytes, make_file(bytes, "{}", 0), &error);
    assert_non_null(tensors);
    assert_int_equal(sc_safetensors_count(tensors), 0);
    assert_null(sc_safetensors_find(tensors, "a"));
    sc_safetensors_close(tensors);
}

/* A folder of its own for each test that writes files; removed with what is in it. */
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/shardc-safetensors-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_scalar(const char *file, const char *name, double value)
{
    sc_safetensors_error error = {0};
    sc_safetensors_item item = {.name = name, .element = SC_ELEMENT_F32, .values = &value};
    assert_true(sc_safetensors_write(in_folder(file), &item, 1, NULL, 0, &error));
}

static void each_type_round_trips(void **state)
{
    (void)state;
    static const double values[] = {0, 1, 1, 0, 1};
    static const uint64_t shape[] = {5, 1};
    sc_safetensors_item items[SC_ELEMENT_COUNT];
    sc_safetensors_pair pair = {"format", "pt"};
    sc_safetensors_error error = {0};
    for (int i = 0; i < SC_ELEMENT_COUNT; i++)
        items[i] = (sc_safetensors_item){
            sc_element_name((sc_element)i), (sc_element)i, 2, shape, values, NULL};
    assert_true(sc_safetensors_write(in_folder("t"), items, SC_ELEMENT_COUNT, &pair, 1, &error));

    sc_safetensors *tensors = sc_safetensors_open(in_folder("t"), &error);
    assert_non_null(tensors);
    assert_int_equal(sc_safetensors_count(tensors), SC_ELEMENT_COUNT);
    for (int i = 0; i < SC_ELEMENT_COUNT; i++) {
        const sc_safetensor *tensor = sc_safetensors_at(tensors, (size_t)i);
        assert_string_equal(tensor->name, items[i].name);
        assert_int_equal(tensor->element, i);
        assert_int_equal(tensor->shape[0], 5);
        for (uint64_t j = 0; j < 5; j++)
            assert_true(value_of(tensors, tensor, j) == values[j]);
    }
    assert_int_equal(sc_safetensors_at(tensors, 0)->begin % 8, 0);
    assert_string_equal(sc_safetensors_metadata(tensors, "format"), "pt");
    sc_safetensors_close(tensors);
}

static void raw_data_and_many_elements_round_trip(void **state)
{
    (void)state;
    enum { N = 20000 };
    static double values[N];
    static int32_t raw[N];
    uint64_t shape[] = {N}, none[] = {0};
    for (int i = 0; i < N; i++) {
        values[i] = i * 0.25;
        raw[i] = -i;
    }
    sc_safetensors_item items[] = {
        {"values", SC_ELEMENT_F32, 1, shape, values, NULL},
        {"none", SC_ELEMENT_F64, 1, none, NULL, NULL},
        {"raw", SC_ELEMENT_I32, 1, shape, NULL, raw},
    };
    sc_safetensors_error error = {0};
    assert_true(sc_safetensors_write(in_folder("t"), items, 3, NULL, 0, &error));
    sc_safetensors *tensors = sc_safetensors_open(in_folder("t"), &error);
    assert_non_null(tensors);
    for (uint64_t i = 0; i < N; i++) {
        assert_true(value_of(tensors, sc_safetensors_find(tensors, "values"), i) == values[i]);
        assert_true(value_of(tensors, sc_safetensors_find(tensors, "raw"), i) == raw[i]);
    }
    sc_safetensors_close(tensors);
}

static void a_file_that_is_cut_is_an_error_when_it_is_read(void **state)
{
    (void)state;
    enum { N = 20000 };
    static double values[N], read[N];
    uint64_t shape[] = {N};
    const char *reason = NULL;
    sc_safetensors_error error = {0};
    sc_safetensors_item item = {"a", SC_ELEMENT_F64, 1, shape, values, NULL};
    assert_true(sc_safetensors_write(in_folder("t"), &item, 1, NULL, 0, &error));
    sc_safetensors *tensors = sc_safetensors_open(in_folder("t"), &error);
    assert_non_null(tensors);
    const sc_safetensor *a = sc_safetensors_find(tensors, "a");
    assert_int_equal(truncate(in_folder("t"), 8000), 0);
    assert_true(sc_safetensors_read(tensors, a, 0, 900, read, &reason));
    assert_false(sc_safetensors_read(tensors, a, 0, N, read, &reason));
    assert_string_equal(reason, "it has become shorter since it was opened");
    assert_false(sc_safetensors_read_stored(tensors, a, N - 1, 1, read, &reason));
    assert_string_equal(sc_safetensors_label(tensors, a), in_folder("t"));
    sc_safetensors_close(tensors);
}

static double stored(sc_element element, double value)
{
    uint64_t room = 0;
    assert_true(sc_element_store(element, &room, 0, value));
    return sc_element_load(element, &room, 0);
}

static void floats_round_once_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        sc_element element;
        double value, want;
    } cases[] = {
        {SC_ELEMENT_BF16, 1 + 0x1p-8, 1},
        {SC_ELEMENT_BF16, 1 + 0x3p-8, 1 + 0x1p-6},
        /* Through a float this would round twice: to the tie, then down to even. */
        {SC_ELEMENT_BF16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
        {SC_ELEMENT_BF16, 3.4e38, (double)INFINITY},
        {SC_ELEMENT_BF16, -0x1p-133, -0x1p-133},
        {SC_ELEMENT_F16, 65519, 65504},
        {SC_ELEMENT_F16, 65520, (double)INFINITY},
        {SC_ELEMENT_F16, -1e9, -(double)INFINITY},
        {SC_ELEMENT_F16, 2049, 2048},
        {SC_ELEMENT_F16, 2051, 2052},
        {SC_ELEMENT_F16, 0x1p-24, 0x1p-24},
        {SC_ELEMENT_F16, 0x1p-25, 0},
        {SC_ELEMENT_F16, 0x1.8p-24, 0x1p-23},
        {SC_ELEMENT_F16, 0x1.fffp-15, 0x1p-14},
        {SC_ELEMENT_F16, 1e-300, 0},
        {SC_ELEMENT_F32, 1e39, (double)INFINITY},
        {SC_ELEMENT_F32, (double)FLT_MAX, (double)FLT_MAX},
        {SC_ELEMENT_F32, 0x1p-149, 0x1p-149},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (stored(cases[i].element, cases[i].value) != cases[i].want)
            fail_msg("%s %a: %a", sc_element_name(cases[i].element), cases[i].value,
                     stored(cases[i].element, cases[i].value));
    }
    assert_true(isnan(stored(SC_ELEMENT_F16, (double)NAN)) &&
                isnan(stored(SC_ELEMENT_BF16, (double)NAN)));
    assert_true(signbit(stored(SC_ELEMENT_F16, -0.0)) && signbit(stored(SC_ELEMENT_BF16, -0.0)));
}

/* Every finite 16-bit pattern is a value that stores back to itself. */
static void halves_are_exact_both_ways(void **state)
{
    (void)state;
    static const sc_element kinds[] = {SC_ELEMENT_F16, SC_ELEMENT_BF16};
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < 65536; i++) {
            uint16_t bits = (uint16_t)i, back = 0;
            double value = sc_element_load(kinds[k], &bits, 0);
            assert_true(sc_element_store(kinds[k], &back, 0, value));
            if (!isnan(value))
                assert_int_equal(back, bits);
        }
    }
}

static void integers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        sc_element element;
        double value;
    } cases[] = {
        {SC_ELEMENT_I32, 0x1p31}, {SC_ELEMENT_I32, -0x1p31 - 1}, {SC_ELEMENT_I32, 0.5},
        {SC_ELEMENT_U8, 256},     {SC_ELEMENT_U8, -1},           {SC_ELEMENT_BOOL, 2},
        {SC_ELEMENT_I64, 0x1p63}, {SC_ELEMENT_U64, 0x1p64},      {SC_ELEMENT_I64, (double)NAN},
        {SC_ELEMENT_I8, 128},     {SC_ELEMENT_I16, -32769},      {SC_ELEMENT_U32, (double)INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t room = 7;
        assert_false(sc_element_store(cases[i].element, &room, 0, cases[i].value));
        assert_int_equal(room, 7);
    }
    assert_true(stored(SC_ELEMENT_I32, -0x1p31) == -0x1p31);
    assert_true(stored(SC_ELEMENT_I64, -0x1p63) == -0x1p63);
    assert_true(stored(SC_ELEMENT_U64, 0x1p63) == 0x1p63);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    double value = 0.5;
    sc_safetensors_error error = {0};
    sc_safetensors_item item = {.name = "n", .element = SC_ELEMENT_I32, .values = &value};
    write_scalar("t", "old", 3);
    assert_false(sc_safetensors_write(in_folder("t"), &item, 1, NULL, 0, &error));
    assert_string_equal(error.text, "tensor 'n': element 0 is 0.5, which is no I32\n");

    error = (sc_safetensors_error){0};
    sc_safetensors *tensors = sc_safetensors_open(in_folder("t"), &error);
    assert_non_null(sc_safetensors_find(tensors, "old"));
    sc_safetensors_close(tensors);
    assert_int_equal(unlink(in_folder("t")), 0);
    assert_int_equal(rmdir(folder), 0); /* so no temporary file is left */
}

static void the_writer_refuses_what_no_reader_takes(void **state)
{
    (void)state;
    double value = 1;
    uint64_t huge[] = {UINT64_MAX, 2};
    sc_safetensors_item twice[] = {{"a", SC_ELEMENT_F32, 0, NULL, &value, NULL},
                                   {"a", SC_ELEMENT_F32, 0, NULL, &value, NULL}};
    sc_safetensors_item reserved = {"__metadata__", SC_ELEMENT_F32, 0, NULL, &value, NULL};
    sc_safetensors_item large = {"a", SC_ELEMENT_F32, 2, huge, &value, NULL};
    sc_safetensors_item not_text = {"\xff", SC_ELEMENT_F32, 0, NULL, &value, NULL};
    sc_safetensors_error error = {0};
    assert_false(sc_safetensors_write(in_folder("t"), twice, 2, NULL, 0, &error));
    assert_false(sc_safetensors_write(in_folder("t"), &reserved, 1, NULL, 0, &error));
    assert_false(sc_safetensors_write(in_folder("t"), &large, 1, NULL, 0, &error));
    assert_false(sc_safetensors_write(in_folder("t"), &not_text, 1, NULL, 0, &error));
    assert_int_equal(error.count, 4);
    error = (sc_safetensors_error){0};
    assert_false(sc_safetensors_write(folder, twice, 1, NULL, 0, &error));
    assert_non_null(strstr(error.text, "not a regular file"));
    error = (sc_safetensors_error){0};
    assert_false(sc_safetensors_write(in_folder("no/t"), twice, 1, NULL, 0, &error));
    assert_non_null(strstr(error.text, "cannot be written"));
}

static void a_folder_joins_its_files(void **state)
{
    (void)state;
    sc_safetensors_error error = {0};
    write_scalar("2.safetensors", "b", 2);
    write_scalar("1.safetensors", "c", 1);
    write_text("other.txt", "x");
    sc_safetensors *tensors = sc_safetensors_open(folder, &error);
    assert_non_null(tensors);
    assert_int_equal(sc_safetensors_count(tensors), 2);
    assert_string_equal(sc_safetensors_at(tensors, 0)->name, "c");
    assert_true(value_of(tensors, sc_safetensors_find(tensors, "b"), 0) == 2);
    sc_safetensors_close(tensors);
}

static void folder_is_refused(const char *reason)
{
    sc_safetensors_error error = {0};
    assert_null(sc_safetensors_open(folder, &error));
    if (strstr(error.text, reason) == NULL)
        fail_msg("wanted: %s\ngot: %s", reason, error.text);
}

static void a_folder_that_is_wrong_is_refused(void **state)
{
    (void)state;
    folder_is_refused("no *.safetensors in this folder");
    write_scalar("1.safetensors", "a", 1);
    write_scalar("2.safetensors", "a", 2);
    folder_is_refused("tensor 'a' is in two files");
    write_text("2.safetensors", "short");
    write_text("3.safetensors", "");
    folder_is_refused("2.safetensors: 5 bytes are too few");
    folder_is_refused("3.safetensors: the file is empty");
}

static void an_index_chooses_among_files(void **state)
{
    (void)state;
    sc_safetensors_error error = {0};
    write_scalar("1.safetensors", "a", 1);
    write_scalar("2.safetensors", "a", 2);
    write_scalar("3.safetensors", "b", 3);
    write_text("4.safetensors", "not opened");
    write_text("model.safetensors.index.json", "{\"metadata\":{\"total_size\":8},\"weight_map\":{"
                                               "\"a\":\"2.safetensors\",\"b\":\"3.safetensors\"}}");
    sc_safetensors *tensors = sc_safetensors_open(folder, &error);
    assert_non_null(tensors);
    assert_int_equal(sc_safetensors_count(tensors), 2);
    assert_true(value_of(tensors, sc_safetensors_find(tensors, "a"), 0) == 2);
    sc_safetensors_close(tensors);
}

static void an_index_that_is_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "not JSON"},
        {"[]", "weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map is missing or not an object"},
        {"{\"weight_map\":{\"a\":1}}", "the file of 'a' is not the name of a file"},
        {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
         "the file of 'a' is not the name of a file"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"1.safetensors\"}}",
         "duplicate object key"},
        {"{\"weight_map\":{\"a\":\"5.safetensors\"}}", "5.safetensors: No such file"},
        {"{\"weight_map\":{\"b\":\"1.safetensors\"}}", "tensor 'b' is not in 1.safetensors"},
    };
    write_scalar("1.safetensors", "a", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("model.safetensors.index.json", cases[i][0]);
        folder_is_refused(cases[i][1]);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    sc_safetensors_error error = {0};
    assert_null(sc_safetensors_open(in_folder("absent"), &error));
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_null(sc_safetensors_open(in_folder("pipe"), &error));
    assert_non_null(strstr(error.text, "absent: No such file"));
    assert_non_null(strstr(error.text, "pipe: it is not a regular file"));
}

static int forget_bytes(void **state)
{
    (void)state;
    unsigned char none[1] = {0};
    sc_safetensors_error error = {0};
    return open_exact(none, 0, &error) != NULL;
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_headers_are_refused_with_a_reason),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(every_prefix_of_a_good_file_is_refused),
        cmocka_unit_test(all_that_is_wrong_is_listed),
        cmocka_unit_test(problems_beyond_the_room_are_counted),
        cmocka_unit_test(control_characters_do_not_reach_messages),
        cmocka_unit_test(good_headers_are_read),
        cmocka_unit_test(a_file_without_tensors_is_good),
        cmocka_unit_test(floats_round_once_to_nearest_even),
        cmocka_unit_test(halves_are_exact_both_ways),
        cmocka_unit_test(integers_out_of_range_are_refused),
        WITH_FOLDER(each_type_round_trips),
        WITH_FOLDER(raw_data_and_many_elements_round_trip),
        WITH_FOLDER(a_file_that_is_cut_is_an_error_when_it_is_read),
        WITH_FOLDER(a_failed_write_leaves_the_old_file),
        WITH_FOLDER(the_writer_refuses_what_no_reader_takes),
        WITH_FOLDER(a_folder_joins_its_files),
        WITH_FOLDER(a_folder_that_is_wrong_is_refused),
        WITH_FOLDER(an_index_chooses_among_files),
        WITH_FOLDER(an_index_that_is_wrong_is_refused),
        WITH_FOLDER(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, forget_bytes);
}
