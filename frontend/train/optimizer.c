/* Arguments of an optimizer: names, then numbers. Numbers may depend on sizes of dims, so arguments
 * are read twice: when the program is checked, as far as possible without sizes, and for a plan,
 * with its sizes. */
#include "frontend/elaborate/internal.h"
#include "frontend/train/check.h"

#include <assert.h>
#include <string.h>

enum { MAX_ARGUMENTS = 8 };

/* The arguments of one call, of an optimizer or a schedule. */
typedef struct reader {
    sc_declarations *program;
    sc_sym entry;
    const sc_binding_list *bindings;
    const char *owner;
    sc_text_list known;                 /* names that exist */
    const sc_arg *given[MAX_ARGUMENTS]; /* by index of the name; NULL: not given */
    bool failed;
} reader;

static void fail(reader *r, sc_diag_id id, sc_loc loc, const char *text)
{
    r->failed = true;
    sc_report(&r->program->context->diag, id, loc, text, (char *)NULL);
}

#define text_of(r, ...) sc_arena_printf(&(r)->program->context->arena, __VA_ARGS__)

/* ---- names ---- */
static void list_words(sc_context *context, const char *words, sc_text_list *out)
{
    while (*words != 0) {
        size_t length = strcspn(words, " ");
        *sc_vec_push(&context->arena, out) = sc_arena_copy_text(&context->arena, words, length);
        words += length + (words[length] == ' ');
    }
}

static int find_word(const sc_text_list *words, const char *word)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (strcmp(words->data[i], word) == 0)
            return (int)i;
    }
    return -1;
}

/* Sorts arguments by the names in `words`. The first `positional` may be given without a name, in
 * order; the first `required` must be given. */
static reader read_names(const reader *outer, const char *owner, sc_loc loc,
                         const sc_arg_list *args, const char *words, uint32_t positional,
                         uint32_t required)
{
    reader r = {.program = outer->program,
                .entry = outer->entry,
                .bindings = outer->bindings,
                .owner = owner};
    sc_context *context = r.program->context;
    list_words(context, words, &r.known);
    assert(r.known.data != NULL); /* every owner has arguments */
    bool unnamed = false;
    for (uint32_t i = 0; i < args->count; i++) {
        const sc_arg *arg = &args->data[i];
        bool placed = i < positional && arg->values.count == 1;
        const char *name = arg->name.text != 0 ? sc_text(context, arg->name.text)
                           : placed            ? r.known.data[i]
                                               : NULL;
        int at = name == NULL ? -1 : find_word(&r.known, name);
        if (at < 0) {
            unnamed = unnamed || name == NULL;
            fail(&r, SC_D_bad_argument, arg->loc,
                 name == NULL ? text_of(&r, "arguments of %s are named", owner)
                              : text_of(&r, "%s has no argument '%s'%s", owner, name,
                                        sc_suggest(context, arg->name.text, &r.known)));
            sc_report_note(&context->diag, (sc_loc){0}, "arguments of %s are: %s", owner, words);
            continue;
        }
        if (r.given[at] != NULL)
            fail(&r, SC_D_bad_argument, arg->loc,
                 text_of(&r, "argument '%s' is given twice", name));
        else
            r.given[at] = arg;
    }
    for (uint32_t i = 0; i < required; i++) {
        /* an argument that was not understood may be the missing one */
        if (r.given[i] != NULL || unnamed || (i > 0 && r.failed))
            continue;
        r.failed = true;
        sc_report(&context->diag, SC_D_wrong_count, args->count > 0 ? args->data[0].loc : loc,
                  owner, text_of(&r, "an argument '%s'", r.known.data[i]), "none is given",
                  (char *)NULL);
    }
    return r;
}

/* ---- numbers ---- */
/* Only dims and operators on numbers: no other name has a value outside a body. */
static bool check_constant(reader *r, const sc_expr *expr)
{
    bool fine = false;
    switch (expr->kind) {
    case SC_EXPR_INT:
    case SC_EXPR_FLOAT:
        return true;
    case SC_EXPR_NEG:
        return check_constant(r, expr->operand);
    case SC_EXPR_BINARY:
        fine = check_constant(r, expr->binary.left);
        return check_constant(r, expr->binary.right) && fine;
    case SC_EXPR_NAME:
        fine = sc_declarations_has_dim(r->program, expr->name);
        break;
    case SC_EXPR_CALL:
        fine = !expr->call.has_dims &&
               sc_lang_op_exists(sc_text(r->program->context, expr->call.callee.text)) &&
               sc_declarations_fn(r->program, expr->call.callee.text) == NULL;
        for (uint32_t i = 0; fine && i < expr->call.args.count; i++) {
            const sc_arg *arg = &expr->call.args.data[i];
            fine = arg->name.text == 0 && arg->values.count == 1;
            if (fine && !check_constant(r, arg->values.data[0]))
                return false;
        }
        break;
    default:
        break;
    }
    if (!fine)
        fail(r, SC_D_not_a_constant, expr->loc, "this argument");
    return fine;
}

/* Returns false if the number is unknown: after reporting an error, or because a size is
 * missing. */
static bool number_of(reader *r, const sc_expr *expr, double *out)
{
    bool unknown = false;
    if (!check_constant(r, expr))
        return false;
    if (sc_declarations_eval_number(r->program, expr, r->entry, r->bindings, out, &unknown))
        return !unknown;
    r->failed = true;
    return false;
}

typedef enum range { AT_LEAST_0, BELOW_1, ZERO_OR_ONE } range;

static const char *const range_texts[] = {
    [AT_LEAST_0] = "at least 0", [BELOW_1] = "at least 0 and below 1", [ZERO_OR_ONE] = "0 or 1"};

static bool in_range(double x, range wanted)
{
    switch (wanted) {
    case AT_LEAST_0:
        return x >= 0.0;
    case BELOW_1:
        return x >= 0.0 && x < 1.0;
    default:
        return x == 0.0 || x == 1.0;
    }
}

static const range hyper_ranges[SC_HYPER_COUNT] = {
    [SC_HYPER_MOMENTUM] = AT_LEAST_0, [SC_HYPER_NESTEROV] = ZERO_OR_ONE,
    [SC_HYPER_BETA1] = BELOW_1,       [SC_HYPER_BETA2] = BELOW_1,
    [SC_HYPER_EPS] = AT_LEAST_0,      [SC_HYPER_DECAY] = AT_LEAST_0,
    [SC_HYPER_CLIP] = AT_LEAST_0,     [SC_HYPER_DECAY_ALL] = ZERO_OR_ONE,
};

/* Reads argument `at`; *out keeps its value if the argument is not given. Returns false if the
 * number is unknown. */
static bool read_number(reader *r, uint32_t at, range wanted, double *out)
{
    const sc_arg *arg = r->given[at];
    double value;
    if (arg == NULL)
        return true;
    if (!number_of(r, arg->values.data[0], &value))
        return false;
    if (!in_range(value, wanted)) {
        fail(r, SC_D_bad_argument, arg->values.data[0]->loc,
             text_of(r, "'%s' of %s must be %s, not %g", r->known.data[at], r->owner,
                     range_texts[wanted], value));
        return false;
    }
    *out = value;
    return true;
}

/* ---- lr ---- */
static void read_schedule(reader *r, const sc_expr *expr, sc_rate *rate)
{
    double *const numbers[SC_RATE_ARGUMENTS] = {&rate->peak, &rate->warmup, &rate->total,
                                                &rate->floor};
    const char *words = "";
    for (int i = 0; i < SC_RATE_ARGUMENTS; i++)
        words = text_of(r, "%s%s%s", words, i > 0 ? " " : "", sc_rate_argument_names[i]);
    reader inner = read_names(r, sc_rate_names[rate->kind], expr->loc, &expr->call.args, words, 1,
                              SC_RATE_FLOOR);
    bool known = !inner.failed;
    for (uint32_t i = 0; i < SC_RATE_ARGUMENTS; i++)
        known = read_number(&inner, i, AT_LEAST_0, numbers[i]) && known;
    if (known && rate->total <= rate->warmup) {
        fail(&inner, SC_D_bad_argument, inner.given[SC_RATE_TOTAL]->loc,
             text_of(r,
                     "the rate decays from step 'warmup' = %.17g to step 'total' = %.17g, so "
                     "'total' must be larger",
                     rate->warmup, rate->total));
        sc_report_note(
            &r->program->context->diag, inner.given[SC_RATE_WARMUP]->loc,
            "make 'total' the number of all steps, warm-up included, or the warm-up shorter");
    }
    r->failed = r->failed || inner.failed;
}

/* Says what lr may be: each kind with the arguments that it needs. */
static void note_rates(sc_context *context)
{
    const char *forms[SC_RATE_KINDS] = {[SC_RATE_CONSTANT] = "a number"};
    sc_strbuf text;
    for (int kind = SC_RATE_CONSTANT + 1; kind < SC_RATE_KINDS; kind++) {
        sc_strbuf_init(&text, &context->arena);
        sc_strbuf_printf(&text, "%s(%s", sc_rate_names[kind], sc_rate_argument_names[0]);
        for (int i = 1; i < SC_RATE_FLOOR; i++)
            sc_strbuf_printf(&text, ", %s = ..", sc_rate_argument_names[i]);
        sc_strbuf_add(&text, ")");
        forms[kind] = text.data;
    }
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add_list(&text, forms, SC_RATE_KINDS, " or ");
    sc_report_note(&context->diag, (sc_loc){0}, "lr is %s", text.data);
}

/* lr: a number, cosine(peak, warmup =, total =, floor = 0) or linear(..). */
static void read_rate(reader *r, const sc_expr *expr, sc_rate *rate)
{
    sc_context *context = r->program->context;
    for (int kind = SC_RATE_CONSTANT + 1; expr->kind == SC_EXPR_CALL && kind < SC_RATE_KINDS;
         kind++) {
        if (strcmp(sc_rate_names[kind], sc_text(context, expr->call.callee.text)) == 0 &&
            !expr->call.has_dims) {
            rate->kind = (sc_rate_kind)kind;
            read_schedule(r, expr, rate);
            return;
        }
    }
    if (expr->kind != SC_EXPR_CALL || sc_lang_op_exists(sc_text(context, expr->call.callee.text))) {
        read_number(r, 0, AT_LEAST_0, &rate->peak);
        return;
    }
    fail(r, SC_D_bad_argument, expr->loc,
         text_of(r, "'%s' is not a learning rate schedule",
                 sc_text(context, expr->call.callee.text)));
    note_rates(context);
}

/* ---- optimizers ---- */
static bool read_settings(reader *outer, const sc_optimizer *optimizer, const sc_optimizer_row *row,
                          sc_optimizer_settings *out)
{
    reader r =
        read_names(outer, row->name, optimizer->name.loc, &optimizer->args, row->arguments, 0, 1);
    memcpy(out->hyper, row->defaults, sizeof out->hyper);
    for (int h = 0; h < SC_HYPER_COUNT; h++) {
        int at = find_word(&r.known, sc_hyper_names[h]);
        if (at >= 0)
            read_number(&r, (uint32_t)at, hyper_ranges[h], &out->hyper[h]);
    }
    if (r.given[0] != NULL)
        read_rate(&r, r.given[0]->values.data[0], &out->lr);
    return !r.failed;
}

bool sc_optimizer_read(sc_declarations *program, const sc_optimizer *optimizer, sc_sym entry,
                       const sc_binding_list *bindings, sc_optimizer_settings *out)
{
    sc_context *context = program->context;
    reader outer = {.program = program, .entry = entry, .bindings = bindings};
    const char *name = sc_text(context, optimizer->name.text);
    sc_text_list known = {0};
    *out = (sc_optimizer_settings){0};
    for (int i = 0; i < SC_OPTIMIZER_COUNT; i++) {
        *sc_vec_push(&context->arena, &known) = sc_optimizers[i].name;
        if (strcmp(sc_optimizers[i].name, name) != 0)
            continue;
        out->kind = (sc_optimizer_kind)i;
        return read_settings(&outer, optimizer, &sc_optimizers[i], out);
    }
    sc_report(&context->diag, SC_D_unknown_name, optimizer->name.loc,
              sc_arena_printf(&context->arena, "optimizer %s", name),
              sc_suggest(context, optimizer->name.text, &known), (char *)NULL);
    sc_strbuf names;
    sc_strbuf_init(&names, &context->arena);
    sc_strbuf_add_list(&names, known.data, known.count, " and ");
    sc_report_note(&context->diag, (sc_loc){0}, "optimizers are %s", names.data);
    return false;
}
