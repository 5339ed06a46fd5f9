/* The kernel IR: what verifies, what is simpler, what may be shared. */
#include "test/unit/helpers/kernel_case.h"

/* ---- verifying ---- */

/* Bodies behind these lines; message NULL: it is in order. %a, %b, %c, %d are indices of A, B
 * (outer), C and D. */
static const char verified_head[] =
    "kernel @k { dim A = 4 dim B = 3 dim C = 5 dim D = 2\n"
    "arg x: f32[4, 3] in arg y: f32[4, 3] out arg z: f32[4, 3, 5] inout arg w: f32[] inout arg "
    "ids: i32[5] in\n"
    "arg m: f32[12] inout arg far: i64[5] in param 0: rank = (1, 4, 3) param 1: key = "
    "\"0123456789abcdef\"\n"
    "outer A, B %a = index A : i64 %b = index B : i64 %c = index C : i64 %d = index D : i64\n"
    "%f = constant 1.0 : f32 %n0 = constant 0 : i64 %n1 = constant 1 : i64 %n2 = constant 2 : i64\n"
    "%n3 = constant 3 : i64 %n4 = constant 4 : i64 %id32 = load ids %c : i32 %id = convert %id32 : "
    "i64\n"
    "%id_low = ge %id, %n0 : bool %id_high = lt %id, %n4 : bool %id_good = and %id_low, %id_high : "
    "bool\n"
    "%far = load far %c : i64 %far1 = add %far, %n1 : i64\n"
    "phase { store y %a, %b = %f }\n";

static const struct {
    const char *body, *message;
} verified[] = {
    {"", NULL},
    /* bounds */
    {"%i = add %a, %n1 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }",
     "index 0 of x is between 1 and 4, its dim has 4"},
    {"%i = sub %a, %n1 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }",
     "index 0 of x is between -1 and 2"},
    {"%i = sub %n3, %a : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }", NULL},
    {"%i = mul %b, %n2 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }",
     "between 0 and 4"},
    {"%i = div %c, %n2 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", NULL},
    {"%i = mod %far, %n4 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", NULL},
    {"%i = div %far, %n4 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", "index 0 of x"},
    {"%i = minimum %a, %n2 : i64 %j = add %i, %n1 : i64 %v = load x %j, %b : f32 phase { #1 = sum "
     "%v }",
     NULL},
    {"%p = param 0 : i64 %i = div %p, %n3 : i64 %v = load x %i, %b : f32 phase { #1 = sum %v }",
     NULL},
    {"%p = param 0 : i64 %v = load x %p, %b : f32 phase { #1 = sum %v }", "between 0 and 9"},
    {"%i = sub %a, %n1 : i64 %g = ge %a, %n1 : bool %v = load x %i, %b if %g : f32 phase { #1 = "
     "sum %v }",
     NULL},
    {"%i = sub %a, %n1 : i64 %g = ge %i, %n0 : bool %v = load x %i, %b if %g : f32 phase { #1 = "
     "sum %v }",
     NULL},
    {"%i = sub %a, %n1 : i64 %g = gt %a, %n1 : bool %h = not %g : bool %v = load x %i, %b if %h : "
     "f32 phase { #1 = sum %v }",
     "between -1"},
    {"%i = sub %a, %n1 : i64 %g = lt %a, %n1 : bool %h = not %g : bool %v = load x %i, %b if %h : "
     "f32 phase { #1 = sum %v }",
     NULL},
    {"%i = sub %a, %n1 : i64 %g = ge %a, %n1 : bool %h = or %g, %id_low : bool %v = load x %i, %b "
     "if %h : f32 phase C { #1 = sum %v }",
     "between -1"},
    {"%i = sub %a, %n1 : i64 %g = ne %a, %n0 : bool %v = load x %i, %b if %g : f32 phase { #1 = "
     "sum %v }",
     "between -1"},
    {"%i = add %a, %n1 : i64 %g = eq %a, %n1 : bool %v = load x %i, %b if %g : f32 phase { #1 = "
     "sum %v }",
     NULL},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v }",
     "index 0 of x is between -2147483648 and 2147483647"},
    {"%v = load x %id, %b if %id_good : f32 phase C { #1 = sum %v }", NULL},
    {"%v = load x %id, %b if %id_high : f32 phase C { #1 = sum %v }", "between -2147483648 and 3"},
    {"%v = load x %id, %b : f32 phase C { check %id_good \"\" } phase C { #2 = sum %v }", NULL},
    {"%v = load x %id, %b : f32 phase C { check %id_good \"\" #2 = sum %v }", NULL},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v check %id_good \"\" }", "index 0 of x"},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v } phase C { check %id_good \"\" }",
     "index 0 of x"},
    {"phase C { store y %id, %b = %f if %id_good }", "in more than one outer iteration"},
    {"%g = le %far1, %n3 : bool %h = ge %far1, %n0 : bool %i = and %g, %h : bool %v = load x "
     "%far1, %b if %i : f32 phase C { #1 = sum %v }",
     NULL},
    {"%i = add %id, %n2 : i64 %g = le %i, %n4 : bool %h = ge %id, %n0 : bool %both = and %g, %h : "
     "bool %j = add %id, %n1 : i64\n"
     "%v = load x %j, %b if %both : f32 phase C { #1 = sum %v }",
     NULL},
    {"%i = add %id, %n1 : i64 %g = le %i, %n4 : bool %h = ge %id, %n0 : bool %both = and %g, %h : "
     "bool %j = add %id, %n1 : i64\n"
     "%v = load x %j, %b if %both : f32 phase C { #1 = sum %v }",
     "index 0 of x is between 1 and 4"},
    {"%i = add %far, %n2 : i64 %g = le %i, %n4 : bool %h = ge %far, %n0 : bool %both = and %g, %h "
     ": bool %v = load x %far, %b if %both : "
     "f32\n"
     "phase C { #1 = sum %v }", /* the sum may have wrapped */
     "index 0 of x is between 0 and 9223372036854775807"},
    {"%n32 = constant 2 : i32 %m32 = constant 4 : i32 %z32 = constant 0 : i32 %i = add %id32, %n32 "
     ": i32 %g = le %i, %m32 : bool\n"
     "%h = ge %id32, %z32 : bool %both = and %g, %h : bool %v = load x %id, %b if %both : f32 "
     "phase C { #1 = sum %v }", /* here, too */
     "index 0 of x is between 0 and 2147483647"},
    {"%i = sub %n4, %id : i64 %g = le %i, %n3 : bool %h = ge %i, %n2 : bool %both = and %g, %h : "
     "bool %v = load x %id, %b if %both : f32\n"
     "phase C { #1 = sum %v }",
     NULL},
    {"%i = sub %n4, %id : i64 %g = le %i, %n4 : bool %h = ge %i, %n0 : bool %both = and %g, %h : "
     "bool %v = load x %id, %b if %both : f32\n"
     "phase C { #1 = sum %v }",
     "index 0 of x is between 0 and 4"},
    {"%i = sub %id, %c : i64 %g = eq %i, %n0 : bool %v = load z %a, %b, %id if %g : f32 phase C { "
     "#1 = sum %v }",
     NULL},
    /* needs */
    {"phase { store z %a, %b, %c = %f }",
     "#1 needs an index of dim C, which its phase does not run over"},
    {"%r = reduced #1 : f32 phase C { #1 = sum %f store z %a, %b, %c = %r }",
     "#2 reads #1 before the phase of that ended"},
    {"%r = running #1 : f32 phase C { #1 = sum %f } phase C { store z %a, %b, %c = %r }",
     "#2 reads #1 running, which does not run here"},
    {"%v = load z %a, %b, %c : f32 %r = running #1 : f32 phase C { #1 = sum %v } phase { store y "
     "%a, %b = %r }",
     "#2 needs an index of dim C"},
    {"%r = running #1 : f32 %v = mul %r, %f : f32 %q = sub %r, %f : f32 phase C { #1 = sum %q }",
     "#1 reads #1 running"},
    {"%r = reduced #1 : f32 phase C { #1 = sum %f } phase { store y %a, %b = %r }", NULL},
    {"%k = param 1 : i64 %v = load x %k, %b : f32 phase { #1 = sum %v }", "computes with a key"},
    {"%k = param 0 : i64 %v = random %a, %k, %n0, %n0 : f64 phase { #1 = sum %v }",
     "the key is a param of that kind"},
    {"phase A { #1 = sum %f }", "phase 1 runs over a dim that is not an inner one"},
    {"phase C, D, C { #1 = sum %f }", "phase 1 runs over dim C twice"},
    {"dim huge = 1125899906842624 phase huge, C { #1 = sum %f }", "too many points"},
    {"arg large: f32[1125899906842624, 8] in", "argument large has no dims, or too large ones"},
    {"arg never: f32[] out", "nothing is stored to never"},
    /* outer iterations */
    {"phase { store w = %f }", "#1 touches elements of w in more than one outer iteration"},
    {"phase { add w = %f }", "in more than one outer iteration"},
    {"%v = load w : f32 phase { store y %a, %b = %v }", NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 phase { store m %i = %f }", NULL},
    {"%m = mul %a, %n2 : i64 %i = add %m, %b : i64 phase { store m %i = %f }",
     "in more than one outer iteration"},
    {"%m = mul %b, %n4 : i64 %i = sub %m, %a : i64 %j = add %i, %n3 : i64 phase { store m %j = %f "
     "}",
     NULL},
    {"%i = sub %n3, %a : i64 %v = load y %i, %b : f32 phase { #1 = sum %v }",
     "%18 touches elements of y in other outer iterations than #0"},
    {"%v = load y %a, %b : f32 phase { #1 = sum %v }", NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 %q = div %i, %n2 : i64 %r = mod %i, %n2 : i64 "
     "arg q: f32[6, 2] out phase { store q %q, "
     "%r = %f }",
     NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 %q = div %i, %n3 : i64 %r = mod %i, %n2 : i64 "
     "arg q: f32[6, 2] out phase { store q %q, "
     "%r = %f }",
     "in more than one outer iteration"},
    /* points of a phase */
    {"phase C { store z %a, %b, %c = %f }", NULL},
    {"phase C, D { store z %a, %b, %c = %f }",
     "#1 touches elements of z at more than one point of its phase"},
    {"phase C, D { add z %a, %b, %c = %f }", NULL},
    {"phase C, D { store z %a, %b, %n0 = %f }", "at more than one point"},
    {"%g = eq %c, %n2 : bool phase C { store z %a, %b, %n0 = %f if %g }", NULL},
    {"%g = eq %c, %id : bool phase C { store z %a, %b, %n0 = %f if %g }", "at more than one point"},
    {"%g = eq %c, %i : bool phase C { store z %a, %b, %n0 = %f if %g }", "%i is not defined above"},
    {"%i32 = load ids %n0 : i32 %i = convert %i32 : i64 %g = eq %c, %i : bool phase C { store z "
     "%a, %b, %n0 = %f if %g }",
     NULL},
    {"%v = load z %a, %b, %c : f32 phase C { store z %a, %b, %c = %v }", NULL},
    {"%v = load z %a, %b, %n0 : f32 phase C { store z %a, %b, %c = %v }",
     "#1 touches elements of z at other points of the phase than %17"},
    {"%i = sub %n4, %c : i64 %v = load z %a, %b, %i : f32 phase C { store z %a, %b, %c = %v }",
     "#1 touches elements of z at other points of the phase than %18"},
    {"%v = load z %a, %b, %c : f32 %s = sin %v : f32 phase C { store z %a, %b, %c = %f #2 = sum %s "
     "}",
     "loads from z behind #1"},
    {"%v = load z %a, %b, %c : f32 phase C { #1 = sum %v store z %a, %b, %c = %f }", NULL},
    {"%v = load z %a, %b, %c : f32 phase C { add z %a, %b, %c = %v }", NULL},
    {"%i = mul %d, %n2 : i64 phase D { store z %a, %b, %i = %f } phase D { store z %a, %b, %d = %f "
     "}",
     NULL},
    {"arg i: i64[2] inout %i = load i %n0 : i64 %g = eq %c, %i : bool phase C { store z %a, %b, "
     "%n0 = %f if %g }",
     "at more than one point"},
    /* rows appended behind a length that is loaded */
    {"arg lens: i64[4] in %p = load lens %a : i64 %l = ge %p, %n0 : bool %h = le %p, %n3 : bool %g "
     "= and %l, %h : bool %at = add %p, %d : "
     "i64\n"
     "phase { check %g \"\" } phase D { store z %a, %b, %at = %f }",
     NULL},
    {"arg lens: i64[4] in %p = load lens %a : i64 %l = ge %p, %n0 : bool %h = le %p, %n4 : bool %g "
     "= and %l, %h : bool %at = add %p, %d : "
     "i64\n"
     "phase { check %g \"\" } phase D { store z %a, %b, %at = %f }",
     "index 2 of z is between 0 and 5"},
    {"arg lens: i64[2] in %p = load lens %d : i64 %l = ge %p, %n0 : bool %h = le %p, %n3 : bool %g "
     "= and %l, %h : bool %at = add %p, %d : "
     "i64\n"
     "phase D { check %g \"\" } phase D { store z %a, %b, %at = %f }",
     "at more than one point"},
    /* outs */
    {"arg o: f32[4, 3] out %v = load o %a, %b : f32 phase { store o %a, %b = %v }",
     "%17 needs elements of o, which no phase in front stores"},
    {"arg o: f32[4, 3] out phase { add o %a, %b = %f } phase { store o %a, %b = %f }",
     "#1 needs elements of o"},
    {"arg o: f32[4, 3] out phase { store o %a, %b = %f } phase C { add o %a, %b = %f }", NULL},
};

static void kernels_verify_or_say_why_not(sc_context *context)
{
    const char *wrong = "";
    for (size_t i = 0; i < sizeof verified / sizeof *verified; i++) {
        const char *body = verified[i].body, *message = verified[i].message;
        const char *text = sc_arena_printf(&context->arena, "%s%s }", verified_head, body);
        sc_diag_init(&context->diag, &context->arena);
        sc_kernel *k = parse_only(context, text);
        const char *error = k == NULL ? context->diag.list.data[0].text : sc_kernel_verify(k);
        if ((message == NULL) != (error == NULL) ||
            (error != NULL && strstr(error, message) == NULL))
            wrong = sc_arena_printf(&context->arena, "%s%s\n  %s\n", wrong, body,
                                    error == NULL ? "is in order" : error);
    }
    assert_string_equal(wrong, "");
}

/* ---- simplifying and sharing ---- */

static const char *simplified(sc_context *context, const char *text)
{
    sc_kernel *k = parse(context, text);
    verifies(k);
    sc_kernel_simplify(k);
    verifies(k);
    return text_of(k);
}

/* Batch and sequence are one in x and y, and in the sum over them; nothing else is. */
static void dims_that_are_walked_as_one_merge(sc_context *context)
{
    assert_non_null(strstr(simplified(context, layernorm),
                           "  dim \"B*S\" = 6\n  dim D = 11\n  arg x: f32[6, 11] in\n"));
    assert_non_null(
        strstr(simplified(context, layernorm), "  arg r: f32[6] out\n  outer \"B*S\"\n"));
    assert_string_equal(simplified(context, column_sums), "kernel @columns {\n"
                                                          "  dim D = 4\n"
                                                          "  dim \"B*S\" = 6\n"
                                                          "  arg x: bf16[6, 4] in\n"
                                                          "  arg g: f32[4] inout\n"
                                                          "  outer D\n"
                                                          "  %0 = index D : i64\n"
                                                          "  %1 = index \"B*S\" : i64\n"
                                                          "  %2 = load x %1, %0 : f32\n"
                                                          "  %3 = reduced #0 : f32\n"
                                                          "  phase \"B*S\" {\n"
                                                          "    #0 = sum %2\n"
                                                          "  }\n"
                                                          "  phase {\n"
                                                          "    add g %0 = %3\n"
                                                          "  }\n"
                                                          "}\n");
    assert_string_equal(simplified(context, softmax), softmax);
    assert_string_equal(simplified(context, window), window);
}

/* The element's number is a sum of both indices: that of the merged one. */
static void sums_of_indices_merge(sc_context *context)
{
    const char *text = simplified(context, dropout);
    assert_non_null(strstr(text, "  dim \"S*D\" = 100\n"));
    assert_non_null(strstr(text, "  outer \"S*D\"\n"));
    assert_null(strstr(text, "mul %0")); /* by 25 */
}

/* Each of these lines keeps A and B apart: kernels over both, with an index of each. */
static const char *const apart[] = {
    "arg q: f32[4] in %z = load q %a : f32 phase { store y %a, %b = %z }",
    "arg q: f32[3] in %z = load q %b : f32 phase { store y %a, %b = %z }",
    "arg q: f32[3, 4] in %z = load q %b, %a : f32 phase { store y %a, %b = %z }",
    "arg q: f32[4, 7] in %z = load q %a, %b : f32 phase { store y %a, %b = %z }",
    "%z = convert %a : f32 phase { store y %a, %b = %z }",
    "%n = constant 2 : i64 %w = load z %n, %n : f32 %z = load z %a, %b : f32 %v = add %z, %w : f32 "
    "phase { store y %a, %b = %v }",
    "%n = constant 2 : i64 %g = lt %b, %n : bool phase { store y %a, %b = %f if %g }",
    "%n = constant 2 : i64 %c = mul %a, %n : i64 %d = add %c, %b : i64 %z = convert %d : f32 phase "
    "{ store y %a, %b = %z }",
};

static void dims_that_are_told_apart_stay(sc_context *context)
{
    const char *head = "kernel @k { dim A = 4 dim B = 3 arg y: f32[4, 3] inout arg z: f32[4, 3] in "
                       "outer A, B %a = index A : i64 %b = index B : i64\n"
                       "%f = constant 1.0 : f32";
    assert_non_null(
        strstr(simplified(context, sc_arena_printf(&context->arena,
                                                   "%s phase { store y %%a, %%b = %%f } }", head)),
               "A*B"));
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const char *text =
            simplified(context, sc_arena_printf(&context->arena, "%s %s }", head, apart[i]));
        if (strstr(text, "A*B") != NULL || strstr(text, "B*A") != NULL)
            fail_msg("%s\n%s", apart[i], text);
    }
}

/* Not outer, and summed over together, and alone too. */
static void dims_that_a_phase_tells_apart_stay(sc_context *context)
{
    static const char *const others[] = {"",
                                         "phase A, B { #1 = sum %f }",
                                         "phase A { #1 = sum %f }",
                                         "phase B { #1 = sum %f }",
                                         "phase B, A { #1 = sum %f }",
                                         "phase A, C, B { #1 = sum %f }"};
    for (int i = 0; i < 6; i++) {
        const char *text = sc_arena_printf(
            &context->arena,
            "kernel @k { dim A = 4 dim B = 3 dim C = 2 arg x: f32[4, 3] in %%a = index A : i64 %%b "
            "= index B : i64\n"
            "%%f = constant 1.0 : f32 %%x = load x %%a, %%b : f32 phase A, B { #0 = sum %%x } %s }",
            others[i]);
        assert_int_equal(strstr(simplified(context, text), "A*B") != NULL, i < 2);
    }
}

/* What the sizes decide is decided. */
static void what_always_holds_goes(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 arg x: f32[4] in arg i: u8[4] in arg y: f32[4] out "
                       "outer A %a = index A : i64 %n = constant 4 : i64\n"
                       "%zero = constant 0 : i64 %low = ge %a, %zero : bool %high = lt %a, %n : "
                       "bool %in = and %low, %high : bool\n"
                       "%last = constant 300 : i64 %i = load i %a : i32 %id = convert %i : i64 "
                       "%some = lt %id, %last : bool\n"
                       "%m = mod %a, %n : i64 %q = div %a, %n : i64 %far = eq %a, %last : bool "
                       "%near = not %far : bool %all = and %some, %near : bool\n"
                       "%both = and %in, %all : bool %small = minimum %m, %last : i64 %j = add "
                       "%small, %q : i64 %x = load x %j if %both : f32\n"
                       "phase { store y %a = %x if %in } }";
    assert_string_equal(simplified(context, text), "kernel @k {\n"
                                                   "  dim A = 4\n"
                                                   "  arg x: f32[4] in\n"
                                                   "  arg i: u8[4] in\n"
                                                   "  arg y: f32[4] out\n"
                                                   "  outer A\n"
                                                   "  %0 = index A : i64\n"
                                                   "  %1 = load x %0 : f32\n"
                                                   "  phase {\n"
                                                   "    store y %0 = %1\n"
                                                   "  }\n"
                                                   "}\n");
}

static void what_has_one_element_goes(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 dim I = 1 dim B = 3 dim J = 1 dim unused = 9 arg x: "
                       "f32[1, 4, 1, 3] in arg y: f32[4, 3, 1] out\n"
                       "param 0: step outer A, I %a = index A : i64 %i = index I : i64 %b = index "
                       "B : i64 %j = index J : i64\n"
                       "%x = load x %i, %a, %j, %b : f32 %n = constant 5 : i64 %k = mul %i, %n : "
                       "i64 %l = add %k, %a : i64 %dead = exp %x : f32\n"
                       "%f = convert %l : f32 %v = add %x, %f : f32 phase J, B { #0 = sum %x store "
                       "y %a, %b, %i = %v } }";
    assert_string_equal(simplified(context, text), "kernel @k {\n"
                                                   "  dim A = 4\n"
                                                   "  dim B = 3\n"
                                                   "  arg x: f32[4, 3] in\n"
                                                   "  arg y: f32[4, 3] out\n"
                                                   "  param 0: step\n"
                                                   "  outer A\n"
                                                   "  %0 = index A : i64\n"
                                                   "  %1 = index B : i64\n"
                                                   "  %2 = load x %0, %1 : f32\n"
                                                   "  %3 = convert %0 : f32\n"
                                                   "  %4 = add %2, %3 : f32\n"
                                                   "  phase B {\n"
                                                   "    #0 = sum %2\n"
                                                   "    store y %0, %1 = %4\n"
                                                   "  }\n"
                                                   "}\n");
}

/* Behind `phase`: x may be y, or not. */
static const struct {
    const char *phases;
    bool shared;
} sharing[] = {
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { #0 = sum %v } phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %f } phase C { #1 = sum %v }", false},
    {"%v = load x %a, %c : f32 %g = sin %v : f32 phase C { store y %a, %c = %f #1 = sum %g }",
     false},
    {"%v = load x %a, %n0 : f32 phase C { store y %a, %c = %v }", false},
    {"%v = load x %n0, %c : f32 phase C { store y %a, %c = %v }", false},
    {"%i = sub %n3, %a : i64 %v = load x %i, %c : f32 phase C { store y %i, %c = %v }", true},
    {"%i = sub %n3, %a : i64 %v = load x %i, %c : f32 phase C { store y %a, %c = %v }", false},
    {"%v = load z %c, %a : f32 phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %f } phase C { add y %a, %c = %f }",
     true},
    {"%v = load x %a, %n0 : f32 phase { store y %a, %n3 = %f } phase { store y %a, %n0 = %v }",
     true},
    {"%v = load x %a, %n0 : f32 phase { store y %a, %n0 = %f } phase { store y %a, %n3 = %v }",
     false},
};

static void arrays_are_shared_when_nothing_is_overwritten_too_early(sc_context *context)
{
    for (size_t i = 0; i < sizeof sharing / sizeof *sharing; i++) {
        const char *text = sc_arena_printf(&context->arena,
                                           "kernel @k { dim A = 4 dim C = 5 arg x: f32[4, 5] in "
                                           "arg y: f32[4, 5] out arg z: f32[5, 4] in\n"
                                           "arg other: bf16[4, 5] in outer A %%a = index A : i64 "
                                           "%%c = index C : i64 %%f = constant 1.0 : f32\n"
                                           "%%n0 = constant 0 : i64 %%n3 = constant 3 : i64 %s }",
                                           sharing[i].phases);
        sc_kernel *k = parse(context, text);
        verifies(k);
        if (sc_kernel_may_share(k, 0, 1) != sharing[i].shared)
            fail_msg("%s", sharing[i].phases);
        assert_false(sc_kernel_may_share(k, 1, 0) || sc_kernel_may_share(k, 3, 1) ||
                     sc_kernel_may_share(k, 0, 2));
    }
    /* a flat view of the same */
    sc_kernel *k = parse(context, "kernel @k { dim A = 4 dim B = 5 arg x: f32[4, 5] in arg y: "
                                  "f32[20] out outer A, B %a = index A : i64\n"
                                  "%b = index B : i64 %n = constant 5 : i64 %m = mul %a, %n : i64 "
                                  "%i = add %m, %b : i64 %v = load x %a, %b : f32\n"
                                  "phase { store y %i = %v } }");
    verifies(k);
    assert_true(sc_kernel_may_share(k, 0, 1));
}

/* Whatever allocation fails: nothing is lost, nothing is touched afterwards. */
static void make_all(sc_context *context, void *user)
{
    (void)user;
    sc_kernel *k = sc_kernel_parse(context, layernorm, strlen(layernorm), "kernel");
    if (sc_kernel_verify(k) != NULL)
        abort();
    sc_kernel_simplify(k);
    sc_kernel_may_share(k, 0, 3);
    text_of(k);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    bool done = false;
    uint64_t fail_at = 0;
    while (!done) {
        sc_context context;
        done = sc_context_run(&context, ++fail_at, make_all, NULL);
        sc_context_free(&context);
    }
    assert_in_range(fail_at, 100, 100000);
}

/* ---- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_verify_or_say_why_not),
        TEST(dims_that_are_walked_as_one_merge),
        TEST(sums_of_indices_merge),
        TEST(dims_that_are_told_apart_stay),
        TEST(dims_that_a_phase_tells_apart_stay),
        TEST(what_always_holds_goes),
        TEST(what_has_one_element_goes),
        TEST(arrays_are_shared_when_nothing_is_overwritten_too_early),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
