/* A kernel's function: names, arguments, the loops over outer dims, the phases. */
#include "codegen/c/emit.h"

#include <assert.h>
#include <string.h>

#include "codegen/printer/printer.h"

const sc_emit_limits sc_emit_default_limits = {
    .small_work = 1 << 14,
    .shares = 256,
    .block = 256,
    .shortest_block = 1024,
    .few = 1 << 16,
    .piece = 1 << 13,
    .few_rows = 1024,
    .piece_rows = 512,
    .split_work = 1 << 16,
    .split_shares = 32,
    .split_points = 1 << 12,
    .split_memory = 1 << 16,
    .split_block = 1024,
    .tile = 256,
    .tile_block = 128,
    .stream = 1 << 23,
    .kept = 4096,
    .ahead = 1 << 20,
    .ahead_row = 1 << 16,
};

/* ---- names ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Words of C, what is always in scope, and the names that nodes and items take: a letter and digits. */
static bool is_taken(const sc_emit *e, const char *name)
{
    static const char *const words[] = {
        "args",   "lane",   "cut",      "r",      "auto",      "break",     "case",      "char",      "const",    "continue", "default",
        "do",     "double", "else",     "enum",   "extern",    "failed",    "failure",   "float",     "for",      "goto",     "i",
        "if",     "inline", "int",      "long",   "next",      "params",    "return",    "register",  "short",    "restrict", "signed",
        "sizeof", "static", "struct",   "switch", "typedef",   "union",     "unsigned",  "void",      "volatile", "while",    "asm",
        "unix",   "linux",  "INFINITY", "NAN",    "INT32_MIN", "INT32_MAX", "INT64_MIN", "INT64_MAX",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(name, words[i]) == 0)
            return true;
    }
    for (const char *const *word = e->target->words; word != NULL && *word != NULL; word++) {
        if (strcmp(name, *word) == 0)
            return true;
    }
    const sc_helper_set any = sc_helpers_named_in(name);
    if (any != 0 || strncmp(name, "sc_", 3) == 0 || name[0] == '_')
        return true;
    return strchr(e->target->letters, name[0]) != NULL && name[1 + strspn(name + 1, "0123456789")] == 0 && name[1] != 0;
}

typedef struct sc_names {
    sc_emit *e;
    SC_VEC(const char *) all;
} sc_names;

static bool is_bound(const char *ending)
{
    static const char *const endings[] = {"_from", "_to", "_first", "_end", "_at", "_main", "_next"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(ending, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool is_used(const sc_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->all.count; i++) {
        const char *other = names->all.data[i];
        size_t length = strlen(other), mine = strlen(name);
        if (strcmp(other, name) == 0)
            return true;
        if (mine > length && memcmp(name, other, length) == 0 && (is_bound(name + length)))
            return true;
        if (length > mine && memcmp(other, name, mine) == 0 && (is_bound(other + mine)))
            return true;
    }
    return false;
}

static const char *new_name(sc_names *names, sc_sym sym)
{
    sc_arena *arena = names->e->arena;
    const char *text = sc_text(names->e->context, sym);
    char *name = sc_arena_printf(arena, "%s%s", text[0] == 0 || (text[0] >= '0' && text[0] <= '9') ? "x" : "", text);
    for (char *c = name; *c != 0; c++)
        *c = (char)(is_word(*c) ? *c : '_');
    const char *base = name;
    if (is_taken(names->e, name))
        base = name =
            sc_arena_printf(arena, "%s_", name[0] == '_' || strncmp(name, "sc_", 3) == 0 ? sc_arena_printf(arena, "x%s", name) : name);
    for (int i = 2; is_used(names, name); i++)
        name = sc_arena_printf(arena, "%s_%d", base, i);
    *sc_vec_push(arena, &names->all) = name;
    return name;
}

static void choose_names(sc_emit *e)
{
    const sc_kernel *k = e->k;
    sc_names names = {.e = e};
    for (uint32_t i = 0; i < k->dims.count; i++)
        e->dim_names[i] = new_name(&names, k->dims.data[i].name);
    for (uint32_t i = 0; i < k->args.count; i++)
        e->arg_names[i] = new_name(&names, k->args.data[i].name);
}

/* ---- head ---- */

/* A line of a comment: what would end it does not. */
static void comment_line(sc_emit *e, const char *before, const char *text)
{
    sc_strbuf_add(e->out, before);
    for (const char *c = text; *c != 0; c++) {
        sc_strbuf_add_char(e->out, (char)(*c == '\n' ? ' ' : *c));
        if (c[0] == '*' && c[1] == '/')
            sc_strbuf_add_char(e->out, ' ');
    }
}

void sc_emit_comment(sc_emit *e)
{
    const sc_kernel *k = e->k;
    if (!e->comments || (k->title == NULL && k->comments.count == 0))
        return;
    const char *before = "/* ";
    if (k->title != NULL) {
        comment_line(e, before, k->title);
        before = "\n * ";
    }
    for (uint32_t i = 0; i < k->comments.count; i++) {
        comment_line(e, before, k->comments.data[i]);
        before = "\n * ";
    }
    sc_strbuf_add(e->out, " */\n");
}

static void write_head(sc_emit *e, const char *name)
{
    const sc_kernel *k = e->k;
    sc_emit_comment(e);
    sc_emit_line(e, "int64_t %s(void *const *args, const int64_t *params)", name);
    sc_emit_line(e, "{");
    e->indent++;
    bool any = false;
    for (uint32_t i = 0; i < k->args.count; i++) {
        const sc_kernel_arg *arg = &k->args.data[i];
        if (e->arg_used[i])
            sc_emit_line(e, "%s%s *%sconst %s = args[%u];", arg->mode == SC_ARG_IN ? "const " : "", sc_emit_stored(arg->dtype),
                         e->arg_shared[i] ? "" : "restrict ", e->arg_names[i], i);
    }
    for (uint32_t i = 0; i < k->params.count; i++) {
        any |= e->param_used[i];
        if (e->param_used[i])
            sc_emit_line(e, "const int64_t p%u = params[%u];", i, i);
    }
    if (!any)
        sc_emit_line(e, "(void)params;");
    if (e->check_count > 0 && (e->shape.order_count > 0 || e->shape.vector != SC_IMAGE_NONE))
        sc_emit_line(e, "int64_t failed = INT64_MAX;");
}

/* ---- loops over outer dims ---- */

bool sc_emit_is_blocked(const sc_emit *e)
{
    return e->shape.vector != SC_IMAGE_NONE && e->shape.block < e->k->dims.data[e->shape.vector].size;
}

/* The other outer dims, blocks of the vector dim, tiles, a tile's indices. */
uint32_t sc_emit_outer_loops(const sc_emit *e)
{
    return e->shape.order_count + (e->shape.tile == SC_IMAGE_NONE ? 0 : 2) + sc_emit_is_blocked(e);
}

void sc_emit_open_outer_loop(sc_emit *e, uint32_t l)
{
    const sc_emit_shape *shape = &e->shape;
    bool tiled = shape->tile != SC_IMAGE_NONE, whole = l < shape->order_count, within = tiled && l + 1 == sc_emit_outer_loops(e);
    bool tiles = tiled && l + 2 == sc_emit_outer_loops(e);
    uint32_t dim = whole ? shape->order[l] : tiles || within ? shape->tile : shape->vector;
    const char *name = e->dim_names[dim];
    long long size = e->k->dims.data[dim].size, step = tiles ? shape->tile_size : shape->block;
    if (whole)
        sc_emit_line(e, "for (int64_t %s = 0; %s < %lld; %s++) {", name, name, size, name);
    else if (within)
        sc_emit_line(e, "for (int64_t %s = %s_from; %s < %s_to; %s++) {", name, name, name, name, name);
    else
        sc_emit_line(e, "for (int64_t %s_from = 0; %s_from < %lld; %s_from += %lld) {", name, name, size, name, step);
    e->indent++;
}

void sc_emit_block_end(sc_emit *e, uint32_t dim, int64_t block)
{
    const char *name = e->dim_names[dim];
    long long size = e->k->dims.data[dim].size, step = block;
    if (size % step == 0)
        sc_emit_line(e, "const int64_t %s_to = %s_from + %lld;", name, name, step);
    else
        sc_emit_line(e, "const int64_t %s_to = %s_from < %lld ? %s_from + %lld : %lld;", name, name, size - step, name, step, size);
}

static void write_parallel(sc_emit *e)
{
    if (!e->shape.parallel)
        return;
    sc_strbuf_add(e->out, "#pragma omp parallel for schedule(static)");
    if (e->shape.shared > 1)
        sc_strbuf_printf(e->out, " collapse(%u)", e->shape.shared);
    sc_strbuf_add(e->out, e->check_count > 0 ? " reduction(min : failed)\n" : "\n");
}

/* Scopes of the outer loops; what is not known in them stands for all that is deeper. */
static void plan_scopes(sc_emit *e)
{
    const sc_emit_shape *shape = &e->shape;
    uint32_t loops = sc_emit_outer_loops(e);
    uint64_t outer = 0;
    e->body = shape->split ? 1 : loops == 0 ? 0 : loops - shape->shared + 1;
    for (uint32_t l = 0; l < shape->order_count; l++) {
        uint32_t scope = shape->split || l < shape->shared ? 1 : l - shape->shared + 2;
        e->scope_dims[scope] |= (uint64_t)1 << shape->order[l];
        outer |= (uint64_t)1 << shape->order[l];
    }
    if (shape->tile != SC_IMAGE_NONE) {
        e->scope_dims[e->body] = (uint64_t)1 << shape->tile;
        outer |= e->scope_dims[e->body];
    }
    e->inner = e->body + 1;
    e->scope_dims[e->inner] = ~outer;
}

static void write_function(sc_emit *e, const char *name)
{
    const sc_kernel *k = e->k;
    uint32_t loops = sc_emit_outer_loops(e);
    write_head(e, name);
    plan_scopes(e);
    sc_emit_place_all(e);
    if (e->body > 0)
        sc_emit_scope(e, 0, 0, k->items.count);
    if (e->shape.split) {
        sc_emit_split(e);
        sc_emit_line(e, "return 0;");
        e->indent--;
        sc_emit_line(e, "}");
        return;
    }
    write_parallel(e);
    bool tiled = e->shape.tile != SC_IMAGE_NONE;
    for (uint32_t l = 0; l < loops; l++) {
        sc_emit_open_outer_loop(e, l);
        bool ends = l + 1 == loops - tiled;
        if (ends && tiled)
            sc_emit_block_end(e, e->shape.tile, e->shape.tile_size);
        if (ends && sc_emit_is_blocked(e))
            sc_emit_block_end(e, e->shape.vector, e->shape.block);
        uint32_t scope = l < e->shape.shared ? 1 : l - e->shape.shared + 2;
        if (l + 1 >= e->shape.shared && scope < e->body)
            sc_emit_scope(e, scope, 0, k->items.count);
        if (ends && tiled)
            sc_emit_turn_in(e);
    }
    for (uint32_t p = 0; p < k->phases.count; p++)
        sc_emit_phase(e, p);
    if (e->leaves)
        sc_emit_line(e, "next:;");
    if (tiled)
        sc_emit_stream_row(e);
    for (uint32_t l = 0; l < loops; l++) {
        if (tiled && l == 1)
            sc_emit_turn_out(e);
        e->indent--;
        sc_emit_line(e, "}");
    }
    bool fails = e->check_count > 0 && (e->shape.order_count > 0 || e->shape.vector != SC_IMAGE_NONE);
    sc_emit_line(e, fails ? "return failed == INT64_MAX ? 0 : failed;" : "return 0;");
    e->indent--;
    sc_emit_line(e, "}");
}

void sc_emit_begin(sc_emit *e, const sc_kernel *k, bool comments, sc_strbuf *out)
{
    sc_arena *arena = k->arena;
    assert(k->dims.count <= SC_KERNEL_MAX_DIMS && SC_KERNEL_MAX_DIMS <= 64);
    e->k = k;
    e->context = k->context;
    e->arena = arena;
    e->out = out;
    e->comments = comments;
    e->cut = SC_IMAGE_NONE;
    e->dim_names = sc_arena_array(arena, k->dims.count + 1, sizeof *e->dim_names);
    e->arg_names = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_names);
    e->arg_used = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_used);
    e->arg_shared = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_shared);
    e->param_used = sc_arena_array(arena, k->params.count + 1, sizeof *e->param_used);
    e->nodes = sc_arena_array(arena, k->nodes.count + 1, sizeof *e->nodes);
    e->items = sc_arena_array(arena, k->items.count + 1, sizeof *e->items);
    choose_names(e);
    sc_emit_analyse(e);
}

void sc_emit_c_within(const sc_kernel *k, const char *name, bool comments, const sc_emit_limits *limits, sc_strbuf *out,
                      sc_helper_set *helpers)
{
    size_t start = out->length;
    sc_emit e = {.target = &sc_emit_c_target, .limits = limits};
    sc_emit_begin(&e, k, comments, out);
    sc_emit_choose_shape(&e);
    sc_emit_choose_kept(&e);
    sc_emit_choose_ahead(&e);
    write_function(&e, name);
    if (helpers != NULL)
        *helpers |= SC_HELPER(headers) | sc_helpers_named_in(out->data + start);
}

void sc_emit_c(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out, sc_helper_set *helpers)
{
    sc_emit_c_within(k, name, comments, &sc_emit_default_limits, out, helpers);
}
