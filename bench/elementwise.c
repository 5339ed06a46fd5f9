/* How much of the memory's bandwidth emitted kernels reach: bytes that they must read and write a
 * second, against a copy in the same run, for arrays far larger than the caches. Two threads,
 * unless the first argument says another number; with a second argument, by the time of CPUs, which
 * other work does not disturb (one thread then). A copy is timed twice: as a loop that is compiled
 * like the kernels, and as memcpy, whose stores go around the caches; the goal is 0.8 of the
 * loop's. */
#define _GNU_SOURCE /* madvise */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "codegen/c/emit.h"
#include "codegen/toolchain/objects.h"
#include "runtime/cpu/loader.h"

/* Rows of 768; R is their number. */
#define ROWS                   "32768"
#define HEAD                   "kernel @k \"" /* then the title */
#define DIMS                   "\" {\n dim R = " ROWS "\n dim D = 768\n"
#define ARG(name, dtype, mode) " arg " name ": " dtype "[" ROWS ", 768] " mode "\n"
#define AT                     " %r = index R : i64\n %d = index D : i64\n"

static const char *const kernels[] = {
    HEAD "add" DIMS ARG("x", "f32", "in") ARG("z", "f32", "in")
        ARG("y", "f32", "out") " outer R, D\n" AT
                               "%x = load x %r, %d : f32 %z = load z %r, %d : f32 %y = add %x, %z "
                               ": f32 phase { store y %r, %d = %y } }",

    HEAD "add, bf16" DIMS ARG("x", "bf16", "in") ARG("z", "bf16", "in")
        ARG("y", "bf16", "out") " outer R, D\n" AT
                                "%x = load x %r, %d : f32 %z = load z %r, %d : f32 %y = add %x, %z "
                                ": f32 phase { store y %r, %d = %y } }",

    HEAD "gelu" DIMS ARG("x", "f32", "in")
        ARG("y", "f32", "out") " outer R, D\n" AT
                               "%x = load x %r, %d : f32 %k = constant 0.7978845608028654 : f32 %c "
                               "= constant 0.044715 : f32 %one = constant 1 : f32\n"
                               "%half = constant 0.5 : f32 %xx = mul %x, %x : f32 %cxx = mul %xx, "
                               "%c : f32 %p = add %cxx, %one : f32 %kx = mul %x, %k "
                               ": f32\n"
                               "%u = mul %kx, %p : f32 %t = tanh %u : f32 %t1 = add %t, %one : f32 "
                               "%hx = mul %x, %half : f32 %y = mul %hx, %t1 : f32\n"
                               "phase { store y %r, %d = %y } }",

    HEAD "gelu, backwards" DIMS ARG("x", "f32", "in") ARG("dy", "f32", "in")
        ARG("dx", "f32", "out") " outer R, D\n" AT
                                "%x = load x %r, %d : f32 %dy = load dy %r, %d : f32 %k = constant "
                                "0.7978845608028654 : f32 %c = constant 0.044715 : f32\n"
                                "%one = constant 1 : f32 %three = constant 0.134145 : f32\n"
                                "%half = constant 0.5 : f32 %xx = mul %x, %x : f32 %cxx = mul %xx, "
                                "%c : f32 %p = add %cxx, %one : f32 %kx = mul %x, %k : "
                                "f32\n"
                                "%u = mul %kx, %p : f32 %t = tanh %u : f32 %t1 = add %t, %one : "
                                "f32 %hx = mul %x, %half : f32 %tt = mul %t, %t : f32\n"
                                "%sech = sub %one, %tt : f32 %q = mul %xx, %three : f32 %q1 = add "
                                "%q, %one : f32 %kq = mul %q1, %k : f32\n"
                                "%slope = mul %sech, %kq : f32 %hs = mul %hx, %slope : f32 %ht = "
                                "mul %t1, %half : f32 %g = add %hs, %ht : f32\n"
                                "%dx = mul %g, %dy : f32 phase { store dx %r, %d = %dx } }",

    HEAD
    "layernorm" DIMS ARG("x", "f32", "in") " arg gain: f32[768] in\n arg bias: f32[768] in\n" ARG(
        "y", "f32", "out") " arg mean: f32[" ROWS "] out\n arg rstd: f32[" ROWS
                           "] out\n outer R\n" AT
                           "%x = load x %r, %d : f32 %n = constant 0.0013020833333333333 : f32 %s "
                           "= reduced #0 : f32 %m = mul %s, %n : f32\n"
                           "%c = sub %x, %m : f32 %cc = mul %c, %c : f32 %ss = reduced #1 : f32 "
                           "%var = mul %ss, %n : f32 %eps = constant 1e-05 : f32\n"
                           "%ve = add %var, %eps : f32 %rs = rsqrt %ve : f32 %g = load gain %d : "
                           "f32 %b = load bias %d : f32 %cr = mul %c, %rs : f32\n"
                           "%gc = mul %cr, %g : f32 %y = add %gc, %b : f32\n"
                           "phase D { #0 = sum %x } phase D { #1 = sum %cc } phase D { store y %r, "
                           "%d = %y } phase { store mean %r = %m store rstd %r "
                           "= %rs } }",

    HEAD "layernorm, backwards" DIMS ARG("x", "f32", "in") ARG(
        "dy", "f32",
        "in") " arg gain: f32[768] in\n"
              " arg mean: f32[" ROWS "] in\n arg rstd: f32[" ROWS "] in\n" ARG(
                  "dx", "f32",
                  "out") " outer R\n" AT "%x = load x %r, %d : f32 %dy = load dy %r, %d : f32 %m = "
                         "load mean %r : f32 %rs = load rstd %r : f32\n"
                         "%g = load gain %d : f32 %n = constant 0.0013020833333333333 : f32 %c = "
                         "sub %x, %m : f32 %h = mul %c, %rs : f32\n"
                         "%dh = mul %dy, %g : f32 %p = mul %dh, %h : f32 %s0 = reduced #0 : f32 "
                         "%s1 = reduced #1 : f32 %a = mul %s0, %n : "
                         "f32\n"
                         "%b = mul %s1, %n : f32 %hb = mul %h, %b : f32 %e = sub %dh, %a : f32 %f "
                         "= sub %e, %hb : f32 %dx = mul %f, %rs : "
                         "f32\n"
                         "phase D { #0 = sum %dh #1 = sum %p } phase D { store dx %r, %d = %dx } }",

    HEAD "layernorm, backwards to its gain" DIMS ARG("x", "f32", "in")
        ARG("dy", "f32", "in") " arg mean: f32[" ROWS "] in\n arg rstd: f32[" ROWS
                               "] in\n arg dg: f32[768] out\n arg db: f32[768] out\n outer D\n",

    HEAD "adamw" DIMS ARG("p", "f32", "inout") ARG("m", "f32", "inout") ARG("v", "f32", "inout")
        ARG("g", "f32",
            "in") " arg lr: f32[] in\n outer R, D\n" AT
                  "%p = load p %r, %d : f32 %m = load m %r, %d : f32 %v = load v %r, %d : f32 %g = "
                  "load g %r, %d : f32 %lr = load lr : f32\n"
                  "%b1 = constant 0.9 : f32 %a1 = constant 0.1 : f32 %b2 = constant 0.95 : f32 %a2 "
                  "= constant 0.05 : f32 %eps = constant 1e-08 "
                  ": f32\n"
                  "%m1 = mul %m, %b1 : f32 %m2 = mul %g, %a1 : f32 %mn = add %m1, %m2 : f32 %v1 = "
                  "mul %v, %b2 : f32 %gg = mul %g, %g : f32\n"
                  "%v2 = mul %gg, %a2 : f32 %vn = add %v1, %v2 : f32 %sq = sqrt %vn : f32 %den = "
                  "add %sq, %eps : f32 %upd = div %mn, %den : "
                  "f32\n"
                  "%dec = mul %p, %a1 : f32 %all = add %upd, %dec : f32 %step = mul %all, %lr : "
                  "f32 %pn = sub %p, %step : f32\n"
                  "phase { store m %r, %d = %mn store v %r, %d = %vn store p %r, %d = %pn } }",

    HEAD "softmax" DIMS ARG("x", "f32", "in") ARG(
        "y", "f32",
        "out") " outer R\n" AT "%x = load x %r, %d : f32 %m = reduced #0 : f32 %c = sub %x, %m : "
               "f32 %e = exp %c : f32 %s "
               "= reduced #1 : f32 %y = div %e, %s : f32\n"
               "phase D { #0 = max %x } phase D { #1 = sum %e } phase D { store y %r, %d = %y } }",

    HEAD "sum of columns" DIMS ARG("x", "f32", "in") " arg y: f32[768] out\n outer D\n",

    HEAD "sum of squares"
         "\" {\n dim N = 25165824\n arg x: f32[25165824] in\n arg y: f32[] out\n"
         "%i = index N : i64 %x = load x %i : f32 %xx = mul %x, %x : f32 %s = reduced #0 : f32 "
         "phase N { #0 = sum %xx } phase { store y = "
         "%s } }",

    HEAD "a transposition" DIMS ARG("x", "f32", "in") " arg y: f32[768, " ROWS
                                                      "] out\n outer D, R\n",
};

/* The dims of columns stand the other way round: outer D, inner R. */
static const char *const columns[][2] = {
    {"layernorm, backwards to its gain",
     "%x = load x %r, %d : f32 %dy = load dy %r, %d : f32 %m = load mean %r : f32 %rs = load rstd "
     "%r : f32 %c = sub %x, %m : f32\n"
     "%h = mul %c, %rs : f32 %p = mul %h, %dy : f32 %s0 = reduced #0 : f32 %s1 = reduced #1 : f32\n"
     "phase R { #0 = sum %p #1 = sum %dy } phase { store dg %d = %s0 store db %d = %s1 } }"},
    {"sum of columns", "%x = load x %r, %d : f32 %s = reduced #0 : f32 phase R { #0 = sum %x } "
                       "phase { store y %d = %s } }"},
    {"a transposition", "%x = load x %r, %d : f32 phase { store y %d, %r = %x } }"},
};

static const char runtime_text[] = "#include <string.h>\n"
                                   "extern void omp_set_num_threads(int);\n"
                                   "int64_t set_team(void *const *args, const int64_t *params)\n"
                                   "{\n"
                                   "    omp_set_num_threads((int)params[0]);\n"
                                   "    return args == NULL ? 0 : 1;\n"
                                   "}\n"
                                   "int64_t copy_loop(void *const *args, const int64_t *params)\n"
                                   "{\n"
                                   "    const float *from = args[0];\n"
                                   "    float *to = args[1];\n"
                                   "#pragma omp parallel for\n"
                                   "    for (int64_t i = 0; i < params[0]; i += 4096)\n"
                                   "#pragma omp simd\n"
                                   "        for (int64_t j = i; j < i + 4096; j++)\n"
                                   "            to[j] = from[j] * 0.5f;\n"
                                   "    return 0;\n"
                                   "}\n"
                                   "int64_t copy_bytes(void *const *args, const int64_t *params)\n"
                                   "{\n"
                                   "#pragma omp parallel for\n"
                                   "    for (int64_t i = 0; i < 64; i++)\n"
                                   "        memcpy((char *)args[1] + params[0] / 64 * 4 * i, "
                                   "(const char *)args[0] + params[0] / 64 * 4 * i,\n"
                                   "               (size_t)params[0] / 64 * 4);\n"
                                   "    return 0;\n"
                                   "}\n";

enum { COUNT = sizeof kernels / sizeof *kernels, REPEATS = 7, MOST = 8 };

typedef struct bench {
    int64_t team;
    clockid_t clock;
    bool failed;
} bench;

static double best_time(const bench *b, sc_kernel_function *function, void *const *args,
                        const int64_t *params)
{
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = now(b->clock);
        function(args, params);
        double seconds = now(b->clock) - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static sc_kernel *make(sc_context *context, const char *text)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        size_t length = strlen(columns[i][0]);
        if (strncmp(text + strlen(HEAD), columns[i][0], length) != 0 ||
            text[strlen(HEAD) + length] != '"')
            continue;
        /* Outer dims come first: D is declared before R. */
        const char *dims = strstr(text, " dim R"), *rest = strstr(dims, " arg");
        text = sc_arena_printf(&context->arena, "%.*s dim D = 768\n dim R = %s\n%s%s%s",
                               (int)(dims - text), text, ROWS, rest, AT, columns[i][1]);
        break;
    }
    sc_kernel *k = sc_kernel_parse(context, text, strlen(text), "bench");
    const char *wrong = k == NULL ? context->diag.list.data[0].text : sc_kernel_verify(k);
    if (wrong == NULL)
        return k;
    fprintf(stderr, "%s: %s\n", text, wrong);
    return NULL;
}

static double bytes_of(const sc_kernel *k, uint32_t arg)
{
    double bytes = sc_dtypes[k->args.data[arg].dtype].bytes;
    for (uint32_t d = 0; d < k->args.data[arg].rank; d++)
        bytes *= (double)k->args.data[arg].sizes[d];
    return bytes;
}

static void *filled(double bytes)
{
    float *data = room((int64_t)bytes);
    for (size_t i = 0; i < room_bytes((int64_t)bytes) / sizeof *data; i++)
        data[i] = (float)(i * 2654435761u >> 8 & 0xffff) * 0x1p-16f;
    return data;
}

static void time_kernel(const bench *b, sc_kernel *k, sc_kernel_function *function, double copy)
{
    void *args[MOST];
    double bytes = 0;
    for (uint32_t i = 0; i < k->args.count; i++) {
        args[i] = filled(bytes_of(k, i));
        bytes += bytes_of(k, i) * (k->args.data[i].mode == SC_ARG_INOUT ? 2 : 1);
    }
    double rate = bytes / best_time(b, function, args, NULL);
    printf("%-36s %6.1f GB/s  %5.2f of the copy\n", k->title, rate * 1e-9, rate / copy);
    for (uint32_t i = 0; i < k->args.count; i++)
        free(args[i]);
}

static void run(sc_context *context, void *user)
{
    bench *b = user;
    sc_object_function functions[COUNT + 1];
    sc_kernel *made[COUNT];
    b->failed = true;
    functions[COUNT] = (sc_object_function){.symbol = "copies", .text = runtime_text};
    for (uint32_t i = 0; i < COUNT; i++) {
        sc_strbuf text;
        sc_strbuf_init(&text, &context->arena);
        functions[i] = (sc_object_function){.symbol = sc_arena_printf(&context->arena, "k%u", i)};
        made[i] = make(context, kernels[i]);
        if (made[i] == NULL)
            return;
        sc_c_emit(made[i], functions[i].symbol, false, &text, &functions[i].helpers);
        functions[i].text = text.data;
    }
    sc_object object;
    double start = now(CLOCK_MONOTONIC);
    const char *wrong = sc_objects_build(&context->arena, functions, COUNT + 1, NULL, &object);
    shardc_error error = {0};
    sc_loader *loader =
        wrong != NULL ? NULL : sc_loader_open(object.bytes, object.byte_count, &error);
    if (loader == NULL) {
        fprintf(stderr, "%s\n", wrong != NULL ? wrong : error.text);
        return;
    }
    printf("%u functions compiled, %.3f s\n", object.compiled, now(CLOCK_MONOTONIC) - start);
    sc_loader_symbol(loader, "set_team", &error)(NULL, &b->team);
    int64_t elements = 1 << 25;
    void *arrays[2] = {filled((double)elements * 4), filled((double)elements * 4)};
    double copy = (double)elements * 8 /
                  best_time(b, sc_loader_symbol(loader, "copy_loop", &error), arrays, &elements);
    double bytes = (double)elements * 8 /
                   best_time(b, sc_loader_symbol(loader, "copy_bytes", &error), arrays, &elements);
    printf("%-36s %6.1f GB/s\n%-36s %6.1f GB/s\n", "a copy, as a loop", copy * 1e-9,
           "a copy, as memcpy", bytes * 1e-9);
    free(arrays[0]);
    free(arrays[1]);
    for (uint32_t i = 0; i < COUNT; i++)
        time_kernel(b, made[i], sc_loader_symbol(loader, functions[i].symbol, &error), copy);
    sc_loader_close(loader);
    b->failed = false;
}

int main(int argc, char **argv)
{
    sc_context context;
    bench b = {.team = argc > 1 ? strtol(argv[1], NULL, 10) : 2,
               .clock = argc > 2 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC};
    bool ran = sc_context_run(&context, 0, run, &b);
    sc_context_free(&context);
    return ran && !b.failed ? 0 : 1;
}
