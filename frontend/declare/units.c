/* Blocks, models and fns: collects their members. Checks that names and paths are unique,
 * statements are allowed where they are, and no block contains itself. */
#include "frontend/declare/internal.h"

#include <stdlib.h>
#include <string.h>

static void report_statement(sc_declarations *program, sc_loc loc, const char *text)
{
    sc_report(&program->context->diag, SC_D_bad_statement, loc, text, (char *)NULL);
}

/* ---- members ---- */
static void report_taken(sc_declarations *program, const sc_unit *unit, const sc_member *old,
                         sc_member_kind kind, sc_name name)
{
    sc_context *context = program->context;
    if (old->kind == kind)
        sc_report(&context->diag, SC_D_duplicate_name, name.loc, sc_text(context, name.text),
                  (char *)NULL);
    else
        sc_report(&context->diag, SC_D_duplicate_path, name.loc,
                  unit->callable == NULL
                      ? sc_text(context, name.text)
                      : sc_arena_printf(&context->arena, "%s.%s", sc_text(context, unit->name.text),
                                        sc_text(context, name.text)),
                  (char *)NULL);
    sc_report_note(&context->diag, old->name.loc, "the other one is here");
}

static void add_member(sc_declarations *program, sc_unit *unit, const sc_member *member)
{
    bool is_new;
    uint32_t index =
        *sc_map_insert(&unit->member_map, member->name.text, unit->members.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &unit->members) = *member;
    else
        report_taken(program, unit, &unit->members.data[index], member->kind, member->name);
}

static void add_sub(sc_declarations *program, sc_unit *unit, const sc_sub *sub,
                    const sc_condition *when)
{
    sc_context *context = program->context;
    const sc_unit *block = sc_declarations_block(program, sub->block.text);
    if (block == NULL) {
        sc_text_list list = {0};
        for (uint32_t i = 0; i < program->blocks.count; i++)
            sc_suggest_add(context, &list, program->blocks.data[i]->name.text);
        sc_report(&context->diag, SC_D_unknown_name, sub->block.loc,
                  sc_arena_printf(&context->arena, "block %s", sc_text(context, sub->block.text)),
                  sc_suggest(context, sub->block.text, &list), (char *)NULL);
    }
    if (sub->stack.text != 0 && sc_declarations_dim(program, sub->stack.text) == SC_NONE) {
        bool is_param = false;
        if (unit->callable != NULL) {
            for (uint32_t i = 0; i < unit->callable->dim_params.count; i++)
                is_param = is_param || unit->callable->dim_params.data[i].text == sub->stack.text;
        }
        if (!is_param)
            sc_report_unknown_dim(program, sub->stack);
    }
    add_member(
        program, unit,
        &(sc_member){
            .kind = SC_MEMBER_SUB, .name = sub->name, .when = when, .sub = sub, .block = block});
}

static void add_declarations(sc_declarations *program, sc_unit *unit, const sc_stmt *stmt,
                             const sc_condition *when)
{
    sc_member_kind kind = stmt->kind == SC_STMT_PARAM ? SC_MEMBER_PARAM : SC_MEMBER_CACHE;
    for (uint32_t i = 0; i < stmt->decls.count; i++) {
        const sc_pdecl *decl = &stmt->decls.data[i];
        if (kind == SC_MEMBER_CACHE && unit->callable == NULL)
            report_statement(program, decl->loc, "caches belong to blocks, not to a model");
        if (kind == SC_MEMBER_CACHE && decl->init != NULL)
            report_statement(program, decl->init->loc,
                             "a cache starts as zeros and takes no initialiser");
        add_member(program, unit,
                   &(sc_member){.kind = kind, .name = decl->name, .when = when, .decl = decl});
    }
}

static void add_callable(sc_declarations *program, sc_unit *unit, const sc_stmt *stmt,
                         const sc_condition *when)
{
    bool is_entry = stmt->kind == SC_STMT_ENTRY;
    if (is_entry && unit->callable != NULL)
        report_statement(program, stmt->loc, "entry points belong to a model, not to a block");
    else if (when != NULL)
        report_statement(program, stmt->loc, "fns and entry points do not depend on an 'if'");
    else
        add_member(program, unit,
                   &(sc_member){.kind = is_entry ? SC_MEMBER_ENTRY : SC_MEMBER_FN,
                                .name = stmt->callable->name,
                                .callable = stmt->callable});
}

static void collect_members(sc_declarations *program, sc_unit *unit, const sc_stmt_list *body,
                            const sc_condition *when)
{
    for (uint32_t i = 0; i < body->count; i++) {
        const sc_stmt *stmt = body->data[i];
        sc_condition *inner;
        switch (stmt->kind) {
        case SC_STMT_PARAM:
        case SC_STMT_CACHE:
            add_declarations(program, unit, stmt, when);
            break;
        case SC_STMT_SUB:
            for (uint32_t s = 0; s < stmt->subs.count; s++)
                add_sub(program, unit, &stmt->subs.data[s], when);
            break;
        case SC_STMT_FN:
        case SC_STMT_ENTRY:
            add_callable(program, unit, stmt, when);
            break;
        case SC_STMT_IF:
            inner = sc_arena_alloc(&program->context->arena, sizeof *inner);
            *inner = (sc_condition){stmt->when.name, stmt->when.is_else, when};
            collect_members(program, unit, &stmt->when.body, inner);
            break;
        default:
            if (unit->callable == NULL)
                report_statement(program, stmt->loc,
                                 "a model holds params, subs, fns and entry points; write "
                                 "computations in fns and entries");
            break;
        }
    }
}

/* The name of an `if` is a static argument of the unit or fn that it is in. */
static void check_condition(sc_declarations *program, const sc_unit *unit,
                            const sc_callable *callable, const sc_stmt *stmt)
{
    sc_name name = stmt->when.name;
    const sc_callable *owners[] = {callable, unit == NULL ? NULL : unit->callable,
                                   unit == NULL ? NULL : unit->head};
    sc_text_list list = {0};
    if (name.text == 0) {
        report_statement(program, name.loc, "'else' follows the body of an 'if'");
        return;
    }
    for (uint32_t o = 0; o < 3; o++) {
        uint32_t count = owners[o] == NULL ? 0 : owners[o]->formals.count;
        for (uint32_t i = 0; i < count; i++) {
            const sc_formal *formal = &owners[o]->formals.data[i];
            if (formal->kind == SC_FORMAL_STATIC && formal->name.text == name.text)
                return;
            if (formal->kind == SC_FORMAL_STATIC)
                sc_suggest_add(program->context, &list, formal->name.text);
        }
    }
    sc_report(&program->context->diag, SC_D_unknown_name, name.loc,
              sc_arena_printf(&program->context->arena, "static argument %s",
                              sc_text(program->context, name.text)),
              sc_suggest(program->context, name.text, &list), (char *)NULL);
}

/* Conditions of declarations in a model; check_body reports those of other bodies. */
static void check_conditions(sc_declarations *program, const sc_unit *unit,
                             const sc_stmt_list *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        if (body->data[i]->kind == SC_STMT_IF) {
            check_condition(program, unit, NULL, body->data[i]);
            check_conditions(program, unit, &body->data[i]->when.body);
        }
    }
}

/* ---- bodies ---- */
typedef struct body_check {
    sc_declarations *program;
    const sc_callable *callable;
    const sc_unit *unit; /* the unit whose block body this is; NULL for fns and entries */
    const sc_unit *home; /* the unit that the fn or entry is in, or the same as `unit` */
    uint32_t result_count;
    uint32_t returns;
} body_check;

/* True for `out`, or `out0`, `out1`, .. if there are several results. */
static bool is_result_name(const body_check *check, const char *name)
{
    if (check->result_count == 1)
        return strcmp(name, "out") == 0;
    if (strncmp(name, "out", 3) != 0 || name[3] < '0' || name[3] > '9' ||
        (name[3] == '0' && name[4] != 0))
        return false;
    char *end;
    unsigned long index = strtoul(name + 3, &end, 10);
    return *end == 0 && index < check->result_count;
}

/* The path of a local or formal must differ from those of results and, in a block, of members. */
static void check_local(const body_check *check, sc_name name, const char *what)
{
    sc_declarations *program = check->program;
    sc_context *context = program->context;
    const char *text = sc_text(context, name.text),
               *owner = sc_text(context, check->callable->name.text);
    const sc_member *member = check->unit == NULL ? NULL : sc_unit_member(check->unit, name.text);
    if (member == NULL && !is_result_name(check, text))
        return;
    sc_report(&context->diag, SC_D_duplicate_path, name.loc,
              sc_arena_printf(&context->arena, "%s.%s", owner, text), (char *)NULL);
    if (member != NULL)
        sc_report_note(&context->diag, member->name.loc,
                       "the other one is here; give this %s another name", what);
    else
        sc_report_note(&context->diag, check->callable->name.loc,
                       "the result of '%s' has this path; give this %s another name", owner, what);
}

/* What a body is in; declarations and returns are not allowed everywhere. */
typedef enum body_place { BODY_OUTERMOST, BODY_OF_IF, BODY_OF_REPEAT } body_place;

static void check_body(body_check *check, const sc_stmt_list *body, body_place place)
{
    sc_declarations *program = check->program;
    for (uint32_t i = 0; i < body->count; i++) {
        const sc_stmt *stmt = body->data[i];
        bool owned = check->unit != NULL && place != BODY_OF_REPEAT;
        if (check->returns > 0 && (stmt->kind == SC_STMT_ASSIGN || stmt->kind == SC_STMT_REPEAT ||
                                   stmt->kind == SC_STMT_IF || stmt->kind == SC_STMT_RETURN))
            report_statement(program, stmt->loc, "no statement may follow a return");
        switch (stmt->kind) {
        case SC_STMT_ASSIGN:
            for (uint32_t t = 0; t < stmt->assign.targets.count; t++)
                check_local(check, stmt->assign.targets.data[t].name, "local");
            break;
        case SC_STMT_REPEAT:
            check_body(check, &stmt->repeat.body, BODY_OF_REPEAT);
            break;
        case SC_STMT_IF:
            check_condition(program, check->home, check->callable, stmt);
            check_body(check, &stmt->when.body,
                       place == BODY_OF_REPEAT ? BODY_OF_REPEAT : BODY_OF_IF);
            break;
        case SC_STMT_RETURN:
            if (place != BODY_OUTERMOST)
                report_statement(
                    program, stmt->loc,
                    place == BODY_OF_REPEAT
                        ? "a return is not allowed inside a repeat"
                        : "a return is not allowed inside an 'if'; assign a name there "
                          "and return it after");
            else
                check->returns++;
            break;
        default:
            if (!owned)
                report_statement(
                    program, stmt->loc,
                    place == BODY_OF_REPEAT
                        ? "declarations are not allowed inside a repeat"
                        : "only blocks and models hold declarations, not fns and entries");
            break;
        }
    }
}

static uint32_t count_results(const sc_callable *callable)
{
    if (callable->results.count > 0)
        return callable->results.count;
    for (uint32_t i = 0; i < callable->body.count; i++) {
        if (callable->body.data[i]->kind == SC_STMT_RETURN)
            return callable->body.data[i]->results.count;
    }
    return 1;
}

static void report_formal(const body_check *check, sc_name name, sc_loc first)
{
    sc_context *context = check->program->context;
    sc_report(&context->diag, SC_D_duplicate_name, name.loc, sc_text(context, name.text),
              (char *)NULL);
    sc_report_note(&context->diag, first, "the other one is here");
}

/* `at pos[B]` adds inputs pos and pos_len. */
static void check_positions(const body_check *check, const sc_map *seen)
{
    sc_context *context = check->program->context;
    sc_name pos = check->callable->at_name;
    sc_name length = {sc_intern_printf(&context->names, "%s_len", sc_text(context, pos.text)),
                      pos.loc};
    const uint32_t *first = sc_map_find(seen, pos.text), *second = sc_map_find(seen, length.text);
    if (first != NULL)
        report_formal(check, pos, check->callable->formals.data[*first].name.loc);
    if (second != NULL)
        report_formal(check, length, check->callable->formals.data[*second].name.loc);
}

static void check_formals(const body_check *check, bool is_entry)
{
    sc_declarations *program = check->program;
    sc_context *context = program->context;
    const sc_callable *callable = check->callable;
    sc_map seen = {.arena = &context->arena};
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        const sc_formal *formal = &callable->formals.data[i];
        bool is_new;
        uint32_t first = *sc_map_insert(&seen, formal->name.text, i, &is_new);
        if (!is_new)
            report_formal(check, formal->name, callable->formals.data[first].name.loc);
        check_local(check, formal->name, "formal");
        if (is_entry && formal->kind == SC_FORMAL_STATIC)
            report_statement(
                program, formal->loc,
                "an entry's inputs are tensors; static arguments are for blocks and fns");
    }
    if (is_entry && callable->at_name.text != 0)
        check_positions(check, &seen);
    for (uint32_t i = 0; i < callable->dim_params.count; i++) {
        bool is_new;
        sc_map_insert(&seen, callable->dim_params.data[i].text, 0, &is_new);
        if (!is_new)
            sc_report(&context->diag, SC_D_duplicate_name, callable->dim_params.data[i].loc,
                      sc_text(context, callable->dim_params.data[i].text), (char *)NULL);
    }
}

static void check_callable(sc_declarations *program, const sc_callable *callable,
                           const sc_unit *unit, const sc_unit *home, bool is_entry)
{
    body_check check = {.program = program,
                        .callable = callable,
                        .unit = unit,
                        .home = home,
                        .result_count = count_results(callable)};
    const char *name = sc_text(program->context, callable->name.text);
    check_formals(&check, is_entry);
    check_body(&check, &callable->body, BODY_OUTERMOST);
    if (check.returns == 0)
        report_statement(program, callable->name.loc,
                         sc_arena_printf(&program->context->arena,
                                         "'%s' returns nothing; end it with 'return ..;'", name));
    if (callable->at_name.text != 0 && !is_entry)
        report_statement(program, callable->at_name.loc, "'at .. along ..' is for entry points");
    if (is_entry && callable->dim_params.count > 0)
        report_statement(program, callable->dim_params.data[0].loc,
                         "an entry has no dim parameters");
}

static void check_unit(sc_declarations *program, const sc_unit *unit)
{
    if (unit->callable != NULL)
        check_callable(program, unit->callable, unit, unit, false);
    else
        check_conditions(program, unit, unit->body);
    for (uint32_t i = 0; i < unit->members.count; i++) {
        const sc_member *member = &unit->members.data[i];
        if (member->kind == SC_MEMBER_FN || member->kind == SC_MEMBER_ENTRY)
            check_callable(program, member->callable, NULL, unit, member->kind == SC_MEMBER_ENTRY);
    }
}

/* ---- blocks inside blocks ---- */
static void measure(sc_declarations *program, sc_unit *unit, uint32_t depth)
{
    uint32_t height = 1;
    unit->visiting = true;
    for (uint32_t i = 0; i < unit->members.count; i++) {
        const sc_member *member = &unit->members.data[i];
        if (member->kind != SC_MEMBER_SUB || member->block == NULL)
            continue;
        sc_unit *block =
            program->blocks.data[*sc_map_find(&program->block_map, member->block->name.text)];
        if (block->visiting) {
            sc_report(&program->context->diag, SC_D_recursion, member->sub->loc,
                      sc_text(program->context, block->name.text), (char *)NULL);
            sc_report_note(&program->context->diag, block->name.loc, "'%s' is declared here",
                           sc_text(program->context, block->name.text));
            unit->broken = block->broken = true;
            continue;
        }
        if (block->height == 0 && depth < SC_MAX_INLINE_DEPTH)
            measure(program, block, depth + 1);
        if (block->height == 0 || block->height >= SC_MAX_INLINE_DEPTH) {
            sc_report(&program->context->diag, SC_D_too_deep, member->sub->loc,
                      sc_arena_printf(&program->context->arena, "%d", SC_MAX_INLINE_DEPTH),
                      (char *)NULL);
            unit->broken = true;
        }
        unit->broken = unit->broken || block->broken;
        height = height > block->height + 1 ? height : block->height + 1;
    }
    unit->visiting = false;
    unit->height = height;
}

void sc_units_check(sc_declarations *program)
{
    for (uint32_t i = 0; i < program->blocks.count; i++)
        collect_members(program, program->blocks.data[i], program->blocks.data[i]->body, NULL);
    for (uint32_t i = 0; i < program->models.count; i++)
        collect_members(program, program->models.data[i], program->models.data[i]->body, NULL);
    for (uint32_t i = 0; i < program->blocks.count; i++) {
        check_unit(program, program->blocks.data[i]);
        if (program->blocks.data[i]->height == 0)
            measure(program, program->blocks.data[i], 0);
    }
    for (uint32_t i = 0; i < program->models.count; i++) {
        check_unit(program, program->models.data[i]);
        measure(program, program->models.data[i], 0);
    }
    for (uint32_t i = 0; i < program->fns.count; i++)
        check_callable(program, program->fns.data[i], NULL, NULL, false);
}
