/* A text: its directives, variables, and where its functions are; then their bodies, those of
 * functions that are called before those of entries, whose registers lie behind theirs. */
#include <stdio.h>
#include <stdlib.h>

#include "test/ptx/lex.h"

static void no_memory(void *user)
{
    (void)user;
    fputs("test/ptx: memory ran out\n", stderr);
    abort();
}

/* ---- declarations ---- */

bool sc_ptx_parse_declared(sc_ptx_parser *p, sc_ptx_declared *out)
{
    uint64_t elements = 1;
    *out = (sc_ptx_declared){.type = SC_PTX_NO_TYPE};
    while (p->word[0] == '.') {
        sc_ptx_type type = sc_ptx_type_named(p->word + 1);
        if (type != SC_PTX_NO_TYPE)
            out->type = type;
        else if (!sc_ptx_is(p, ".align") && !sc_ptx_is(p, ".ptr") && !sc_ptx_is(p, ".global"))
            return sc_ptx_wrong(p, "`%s` is not known in a declaration", p->word);
        bool is_align = sc_ptx_is(p, ".align");
        sc_ptx_next(p);
        if (is_align && !sc_ptx_want_number(p, &out->align))
            return false;
    }
    if (out->type == SC_PTX_NO_TYPE || out->type == SC_PTX_pred || !sc_ptx_is_name(p))
        return sc_ptx_wrong(p, "a declaration is a type and a name");
    uint64_t bytes = sc_ptx_types[out->type].bytes;
    out->align = out->align == 0 ? bytes : out->align;
    out->name = sc_ptx_take_text(p);
    if (sc_ptx_take(p, "[")) {
        out->is_open = sc_ptx_is(p, "]");
        if (!out->is_open && !sc_ptx_want_number(p, &elements))
            return false;
        if (!sc_ptx_want(p, "]"))
            return false;
    }
    out->bytes = out->is_open ? 0 : elements * bytes;
    if (out->align > 1024 || (out->align & (out->align - 1)) != 0 || out->bytes > 1 << 20)
        return sc_ptx_wrong(p, "%s is too large", out->name);
    return true;
}

uint32_t sc_ptx_frame_place(sc_ptx_parser *p, const sc_ptx_declared *declared)
{
    uint32_t at = (uint32_t)sc_ptx_aligned(p->frame_bytes, declared->align);
    p->frame_bytes = at + (uint32_t)declared->bytes;
    return at;
}

void sc_ptx_add_variable(sc_ptx_parser *p, const char *name, sc_ptx_space space, uint64_t address,
                         uint64_t bytes)
{
    *sc_vec_push(&p->module->arena, &p->symbols) = (sc_ptx_symbol){.kind = SC_PTX_A_VARIABLE,
                                                                   .name = name,
                                                                   .space = space,
                                                                   .address = address,
                                                                   .size = (uint32_t)bytes};
}

/* `(.param .b32 NAME, ..)`: of an entry in the order of their places among its parameters. */
static bool parse_params(sc_ptx_parser *p, bool is_entry, sc_ptx_params *out)
{
    uint32_t at = 0;
    if (!sc_ptx_want(p, "("))
        return false;
    while (!sc_ptx_is(p, ")")) {
        sc_ptx_declared one;
        if (!sc_ptx_want(p, ".param") || !sc_ptx_parse_declared(p, &one))
            return false;
        at = is_entry ? (uint32_t)sc_ptx_aligned(at, one.align) : sc_ptx_frame_place(p, &one);
        *sc_vec_push(&p->module->arena, out) = (sc_ptx_param){one.name, at, (uint32_t)one.bytes};
        at += is_entry ? (uint32_t)one.bytes : 0;
        if (!sc_ptx_take(p, ",") && !sc_ptx_is(p, ")"))
            return sc_ptx_wrong(p, "`%s` stands behind a parameter", p->word);
    }
    return sc_ptx_want(p, ")");
}

/* `.maxntid 128, 1, 1` and the like, until the body or the end of a prototype. */
static bool parse_attributes(sc_ptx_parser *p, sc_ptx_function *f)
{
    while (!sc_ptx_is(p, "{") && !sc_ptx_is(p, ";")) {
        bool is_threads = sc_ptx_is(p, ".maxntid") || sc_ptx_is(p, ".reqntid");
        uint64_t value = 1, threads = 1;
        if (p->word[0] != '.')
            return sc_ptx_wrong(p, "`%s` stands where a function's body must", p->word);
        sc_ptx_next(p);
        while (sc_ptx_is_number(p) || sc_ptx_is(p, ",")) {
            if (!sc_ptx_take(p, ",") && !sc_ptx_want_number(p, &value))
                return false;
            if (!sc_ptx_is(p, ","))
                threads *= value;
        }
        if (is_threads)
            f->kernel.max_threads = (int)threads;
    }
    return true;
}

static bool skip_body(sc_ptx_parser *p)
{
    int depth = 0;
    do {
        depth += sc_ptx_is(p, "{") ? 1 : sc_ptx_is(p, "}") ? -1 : 0;
        if (p->word[0] == 0)
            return sc_ptx_wrong(p, "a function has no end");
        sc_ptx_next(p);
    } while (depth > 0);
    return true;
}

static bool parse_function(sc_ptx_parser *p, bool is_entry)
{
    sc_ptx_function f = {.is_entry = is_entry, .kernel = {.max_threads = SC_MACHINE_MAX_THREADS}};
    sc_ptx_next(p);
    if (!is_entry && sc_ptx_is(p, "(") && !parse_params(p, false, &f.results))
        return false;
    if (!sc_ptx_is_name(p))
        return sc_ptx_wrong(p, "`%s` stands where a function's name must", p->word);
    f.name = sc_ptx_take_text(p);
    if (is_entry && strlen(f.name) >= sizeof f.kernel.name)
        return sc_ptx_wrong(p, "the name is too long");
    snprintf(f.kernel.name, sizeof f.kernel.name, "%.*s", (int)sizeof f.kernel.name - 1, f.name);
    if (sc_ptx_is(p, "(") && !parse_params(p, is_entry, &f.params))
        return false;
    f.kernel.param_count = (int)f.params.count;
    if (!parse_attributes(p, &f))
        return false;
    if (sc_ptx_take(p, ";"))
        return true; /* a prototype: the function itself is elsewhere */
    f.body = p->next;
    f.body_line = p->line;
    *sc_vec_push(&p->module->arena, &p->module->functions) = f;
    return skip_body(p);
}

static bool parse_shared(sc_ptx_parser *p)
{
    sc_ptx_declared one;
    sc_ptx_next(p);
    if (!sc_ptx_parse_declared(p, &one) || !sc_ptx_want(p, ";"))
        return false;
    uint32_t at = (uint32_t)sc_ptx_aligned(p->module->shared_bytes, one.align);
    if (!one.is_open)
        p->module->shared_bytes = at + (uint32_t)one.bytes;
    sc_ptx_add_variable(p, one.name, SC_PTX_SHARED,
                        one.is_open ? SC_PTX_SHARED_FIRST : SC_PTX_SHARED_STATIC + at, one.bytes);
    return true;
}

/* `= {1, 2, ..}`, or `= 1`: at most so many. */
static bool parse_values(sc_ptx_parser *p, const sc_ptx_declared *one, char *to)
{
    uint64_t bytes = sc_ptx_types[one->type].bytes, count = 0, bits;
    bool is_list = sc_ptx_take(p, "{");
    do {
        bool is_negative = sc_ptx_take(p, "-");
        const char *text =
            sc_arena_printf(&p->module->arena, "%s%s", is_negative ? "-" : "", p->word);
        if (!sc_ptx_is_number(p) || ++count * bytes > one->bytes)
            return sc_ptx_wrong(p, "these are no values of %s", one->name);
        if (!sc_ptx_immediate(p, text, one->type, &bits))
            return false;
        memcpy(to + (count - 1) * bytes, &bits, bytes);
        sc_ptx_next(p);
    } while (is_list && sc_ptx_take(p, ","));
    return !is_list || sc_ptx_want(p, "}");
}

/* Constants of all launches: nothing says what launches leave in what one may write to. */
static bool parse_global(sc_ptx_parser *p)
{
    sc_machine_array *all = &p->module->variables;
    sc_ptx_declared one;
    sc_ptx_next(p);
    if (!sc_ptx_parse_declared(p, &one))
        return false;
    if (all->data == NULL) {
        all->data = aligned_alloc(SC_PTX_VARIABLE_ALIGN, SC_PTX_VARIABLE_ROOM);
        if (all->data == NULL)
            no_memory(NULL);
        memset(all->data, 0, SC_PTX_VARIABLE_ROOM);
        all->read_only = true;
        snprintf(all->name, sizeof all->name, "the module's variables");
    }
    size_t at = sc_ptx_aligned(all->bytes, one.align);
    if (at + one.bytes > SC_PTX_VARIABLE_ROOM || one.align > SC_PTX_VARIABLE_ALIGN)
        return sc_ptx_wrong(p, "there is no room for %s", one.name);
    all->bytes = at + one.bytes;
    if (sc_ptx_take(p, "=") && !parse_values(p, &one, all->data + at))
        return false;
    sc_ptx_add_variable(p, one.name, SC_PTX_GLOBAL, (uint64_t)(uintptr_t)(all->data + at),
                        one.bytes);
    return sc_ptx_want(p, ";");
}

/* ---- the whole ---- */

static bool parse_top(sc_ptx_parser *p)
{
    if (sc_ptx_take(p, ".visible") || sc_ptx_take(p, ".extern") || sc_ptx_take(p, ".weak"))
        return true;
    if (sc_ptx_is(p, ".version") || sc_ptx_is(p, ".address_size")) {
        sc_ptx_next(p);
        sc_ptx_next(p);
        return true;
    }
    if (sc_ptx_take(p, ".target")) {
        if (strncmp(p->word, "sm_", 3) == 0)
            p->module->capability = (int)strtol(p->word + 3, NULL, 10);
        sc_ptx_next(p);
        while (sc_ptx_take(p, ","))
            sc_ptx_next(p);
        return true;
    }
    if (sc_ptx_is(p, ".entry") || sc_ptx_is(p, ".func"))
        return parse_function(p, sc_ptx_is(p, ".entry"));
    if (sc_ptx_is(p, ".shared"))
        return parse_shared(p);
    if (sc_ptx_is(p, ".global") || sc_ptx_is(p, ".const"))
        return parse_global(p);
    return sc_ptx_wrong(p, "`%s` is not known outside of functions", p->word);
}

static bool parse_bodies(sc_ptx_parser *p, bool entries)
{
    sc_ptx_module *m = p->module;
    uint32_t bytes = p->file_bytes, regs = p->reg_count, frame = p->frame_bytes;
    for (uint32_t i = 0; i < m->functions.count; i++) {
        if (m->functions.data[i].is_entry != entries)
            continue;
        if (entries) {
            p->file_bytes = bytes;
            p->reg_count = regs;
            p->frame_bytes = frame;
        }
        if (!sc_ptx_parse_body(p, &m->functions.data[i]))
            return false;
        m->file_bytes = p->file_bytes > m->file_bytes ? p->file_bytes : m->file_bytes;
        m->reg_count = p->reg_count > m->reg_count ? p->reg_count : m->reg_count;
        m->frame_bytes = p->frame_bytes > m->frame_bytes ? p->frame_bytes : m->frame_bytes;
    }
    return true;
}

/* Arguments and results become the function's own variables. */
static bool link_call(sc_ptx_parser *p, sc_ptx_call *call)
{
    const sc_ptx_function *f = NULL;
    for (uint32_t i = 0; i < p->module->functions.count; i++) {
        if (strcmp(p->module->functions.data[i].name, call->function) == 0)
            f = &p->module->functions.data[i];
    }
    if (f == NULL || f->is_entry)
        return sc_ptx_wrong(p, "there is no function %s to call", call->function);
    if (f->params.count != call->given_count || f->results.count != call->result_count)
        return sc_ptx_wrong(p, "a call of %s has not as many parameters", call->function);
    for (uint32_t k = 0; k < call->given_count; k++)
        call->given[k].to = f->params.data[k].at;
    for (uint32_t k = 0; k < call->result_count; k++)
        call->results[k].from = f->results.data[k].at;
    call->target = f->first;
    return true;
}

static bool parse(sc_ptx_parser *p)
{
    sc_ptx_next(p);
    while (p->word[0] != 0) {
        if (!parse_top(p))
            return false;
    }
    p->file_bytes = SC_PTX_SPECIALS * SC_PTX_LANES * (uint32_t)sizeof(uint32_t);
    p->reg_count = SC_PTX_SPECIALS;
    if (!parse_bodies(p, false) || !parse_bodies(p, true))
        return false;
    for (uint32_t i = 0; i < p->module->calls.count; i++) {
        if (!link_call(p, &p->module->calls.data[i]))
            return false;
    }
    return true;
}

sc_ptx_module *sc_ptx_load(const char *text, size_t bytes, sc_machine_report *report)
{
    sc_ptx_module *m = calloc(1, sizeof *m);
    if (m == NULL)
        no_memory(NULL);
    report->text[0] = 0;
    sc_arena_init(&m->arena, no_memory, NULL);
    const char *end = memchr(text, 0, bytes);
    m->text = sc_arena_copy_text(&m->arena, text, end == NULL ? bytes : (size_t)(end - text));
    sc_ptx_parser p = {.module = m, .report = report, .next = m->text, .line = 1};
    if (parse(&p) && !p.failed)
        return m;
    sc_ptx_unload(m);
    return NULL;
}

void sc_ptx_unload(sc_ptx_module *module)
{
    if (module == NULL)
        return;
    sc_arena_free(&module->arena);
    free(module->variables.data);
    free(module->constants);
    free(module);
}

int sc_ptx_capability(const sc_ptx_module *module)
{
    return module->capability;
}

uint32_t sc_ptx_kernel_count(const sc_ptx_module *module)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < module->functions.count; i++)
        count += module->functions.data[i].is_entry;
    return count;
}

const sc_machine_kernel *sc_ptx_kernel_at(const sc_ptx_module *module, uint32_t index)
{
    for (uint32_t i = 0; i < module->functions.count; i++) {
        if (module->functions.data[i].is_entry && index-- == 0)
            return &module->functions.data[i].kernel;
    }
    return NULL;
}

const sc_machine_kernel *sc_ptx_kernel_named(const sc_ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->functions.count; i++) {
        const sc_ptx_function *f = &module->functions.data[i];
        if (f->is_entry && strcmp(f->name, name) == 0)
            return &f->kernel;
    }
    return NULL;
}
