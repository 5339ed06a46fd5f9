/* Decoders of what touches memory, and of what lanes do together. */
#include "test/ptx/decode.h"

static const char *const spaces[] = {".generic", ".global", ".shared", ".local", ".param", NULL};

/* Without a part it is generic. */
static sc_ptx_space space_of(sc_ptx_statement *s)
{
    if (sc_ptx_part(s, ".const"))
        return SC_PTX_GLOBAL;
    if (sc_ptx_part(s, ".shared::cta"))
        return SC_PTX_SHARED;
    int space = sc_ptx_part_of(s, spaces);
    return space < 0 ? SC_PTX_GENERIC : (sc_ptx_space)space;
}

/* ---- ld, st ---- */

/* {.weak}{.space}{.nc}{.cache operator}{.v2, .v4}.type; `what` 1: .nc */
static bool memory_parts(sc_ptx_parser *p, sc_ptx_statement *s, const char *const *cached)
{
    sc_ptx_part(s, ".weak");
    s->inst.space = (uint8_t)space_of(s);
    s->inst.what = sc_ptx_part(s, ".nc");
    if (s->inst.what == 1 && s->inst.space != SC_PTX_GLOBAL)
        return sc_ptx_not_known(p, s);
    (void)sc_ptx_part_of(s, cached);
    s->inst.vector = sc_ptx_part(s, ".v2") ? 2 : sc_ptx_part(s, ".v4") ? 4 : 1;
    sc_ptx_type type = sc_ptx_part_type(s);
    if (type == SC_PTX_NO_TYPE || sc_ptx_types[type].bytes == 0 ||
        s->inst.vector * sc_ptx_types[type].bytes > 16)
        return sc_ptx_not_known(p, s);
    s->inst.type = (uint8_t)type;
    return sc_ptx_is_whole(p, s, 2);
}

bool sc_ptx_decode_load(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const cached[] = {".ca", ".cg", ".cs", ".lu", ".cv", NULL};
    if (!memory_parts(p, s, cached))
        return false;
    sc_ptx_type type = (sc_ptx_type)s->inst.type;
    s->inst.run = sc_ptx_load_memory;
    s->inst.is_strict = true;
    bool fine = s->inst.vector == 1
                    ? sc_ptx_add_out_raw(p, s, &s->operands[0], type, SC_PTX_OR_WIDER)
                    : sc_ptx_add_vector(p, s, &s->operands[0], s->inst.vector, type, true);
    return fine && sc_ptx_add_address(p, s, &s->operands[1], (sc_ptx_space)s->inst.space);
}

/* The address, then what is stored. */
bool sc_ptx_decode_store(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const cached[] = {".wb", ".cg", ".cs", ".wt", NULL};
    if (!memory_parts(p, s, cached))
        return false;
    sc_ptx_type type = (sc_ptx_type)s->inst.type;
    s->inst.run = sc_ptx_store_memory;
    s->inst.is_strict = true;
    if (!sc_ptx_add_address(p, s, &s->operands[0], (sc_ptx_space)s->inst.space))
        return false;
    if (s->inst.space == SC_PTX_KERNEL_PARAM)
        return sc_ptx_wrong(p, "a kernel's parameters cannot be written to");
    return s->inst.vector == 1
               ? sc_ptx_add_in_raw(p, s, &s->operands[1], type, SC_PTX_OR_WIDER)
               : sc_ptx_add_vector(p, s, &s->operands[1], s->inst.vector, type, false);
}

/* atom{.relaxed}{.gpu, .cta}{.space}.op.type d, [a], b{, c} */
bool sc_ptx_decode_atomic(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const scopes[] = {".gpu", ".cta", NULL};
    static const char *const ops[] = {".add", ".min",  ".max", ".and", ".or",
                                      ".xor", ".exch", ".cas", NULL};
    enum { CAS = 7 };
    sc_ptx_part(s, ".relaxed");
    (void)sc_ptx_part_of(s, scopes);
    s->inst.space = (uint8_t)space_of(s);
    int op = sc_ptx_part_of(s, ops);
    sc_ptx_type type = sc_ptx_part_type(s);
    if (op < 0 || type == SC_PTX_NO_TYPE || sc_ptx_types[type].bytes < 4 ||
        (type == SC_PTX_f32 && op != 0) || type == SC_PTX_f64)
        return sc_ptx_not_known(p, s);
    s->inst.what = (uint8_t)op;
    s->inst.type = (uint8_t)type;
    s->inst.vector = 1;
    s->inst.run = sc_ptx_atomic;
    s->inst.is_strict = true;
    return sc_ptx_is_whole(p, s, op == CAS ? 4 : 3) &&
           sc_ptx_add_out_raw(p, s, &s->operands[0], type, SC_PTX_EXACT) &&
           sc_ptx_add_address(p, s, &s->operands[1], (sc_ptx_space)s->inst.space) &&
           sc_ptx_add_in_raw(p, s, &s->operands[2], type, SC_PTX_EXACT) &&
           (op != CAS || sc_ptx_add_in_raw(p, s, &s->operands[3], type, SC_PTX_EXACT));
}

/* cp.async.{ca, cg}.shared.global [to], [from], size{, bytes}; .commit_group; .wait_group N;
 * .wait_all, whose `what` is 1. */
bool sc_ptx_decode_copy(sc_ptx_parser *p, sc_ptx_statement *s)
{
    int64_t size;
    if (!sc_ptx_part(s, ".async"))
        return sc_ptx_not_known(p, s);
    if (sc_ptx_part(s, ".bulk"))
        return sc_ptx_decode_bulk(p, s);
    if (sc_ptx_part(s, ".commit_group")) {
        s->inst.run = sc_ptx_copy_commit;
        return sc_ptx_is_whole(p, s, 0);
    }
    if (sc_ptx_part(s, ".wait_all")) {
        s->inst.run = sc_ptx_copy_wait;
        s->inst.what = 1;
        return sc_ptx_is_whole(p, s, 0);
    }
    if (sc_ptx_part(s, ".wait_group")) {
        s->inst.run = sc_ptx_copy_wait;
        return sc_ptx_is_whole(p, s, 1) && sc_ptx_number(p, &s->operands[0], &s->inst.offset);
    }
    bool past_l1 = sc_ptx_part(s, ".cg");
    if ((!past_l1 && !sc_ptx_part(s, ".ca")) || !sc_ptx_part(s, ".shared") ||
        !sc_ptx_part(s, ".global"))
        return sc_ptx_not_known(p, s);
    if (!sc_ptx_is_whole(p, s, s->count == 3 ? 3 : 4) || !sc_ptx_number(p, &s->operands[2], &size))
        return false;
    if (size != 16 && (past_l1 || (size != 4 && size != 8)))
        return sc_ptx_wrong(p, "%s copies no %lld bytes", s->opcode, (long long)size);
    s->inst.run = sc_ptx_copy_async;
    s->inst.is_strict = true;
    s->inst.vector = (uint8_t)size;
    if (!sc_ptx_add_address(p, s, &s->operands[0], SC_PTX_SHARED))
        return false;
    int64_t offset = s->inst.offset;
    if (!sc_ptx_add_address(p, s, &s->operands[1], SC_PTX_GLOBAL))
        return false;
    if (offset != 0 || s->inst.offset != 0)
        return sc_ptx_wrong(p, "%s with offsets is not known", s->opcode);
    return s->count == 3 || sc_ptx_add_in_raw(p, s, &s->operands[3], SC_PTX_u32, SC_PTX_EXACT);
}

/* ---- warps ---- */

/* shfl.sync.mode.b32 d{|p}, value, lane, clamp and segments, members */
bool sc_ptx_decode_shuffle(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const modes[] = {".up", ".down", ".bfly", ".idx", NULL};
    if (!sc_ptx_part(s, ".sync"))
        return sc_ptx_not_known(p, s);
    int mode = sc_ptx_part_of(s, modes);
    if (mode < 0 || !sc_ptx_part(s, ".b32"))
        return sc_ptx_not_known(p, s);
    s->inst.what = (uint8_t)mode;
    s->inst.kind = SC_PTX_TOGETHER;
    s->inst.run = sc_ptx_shuffle;
    const char *second = s->operands[0].second;
    if (!sc_ptx_is_whole(p, s, 5) ||
        !sc_ptx_add_out_raw(p, s, &s->operands[0], SC_PTX_b32, SC_PTX_EXACT) ||
        (second != NULL && !sc_ptx_add_out(p, s, second, SC_PTX_pred, SC_PTX_EXACT)))
        return false;
    for (uint32_t k = 1; k < 5; k++) {
        if (!sc_ptx_add_in_raw(p, s, &s->operands[k], SC_PTX_b32, SC_PTX_EXACT))
            return false;
    }
    s->inst.members = s->inst.in_count;
    return true;
}

/* vote.sync.{ballot.b32, any.pred, all.pred, uni.pred} d, {!}p, members; `what` + 4: with a ! */
bool sc_ptx_decode_vote(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const modes[] = {".ballot", ".any", ".all", ".uni", NULL};
    if (!sc_ptx_part(s, ".sync"))
        return sc_ptx_not_known(p, s);
    int mode = sc_ptx_part_of(s, modes);
    sc_ptx_type type = mode < 0 ? SC_PTX_NO_TYPE : sc_ptx_part_type(s);
    if (type != (mode == 0 ? SC_PTX_b32 : SC_PTX_pred))
        return sc_ptx_not_known(p, s);
    s->inst.what = (uint8_t)(mode + (s->operands[1].is_not ? 4 : 0));
    s->inst.kind = SC_PTX_TOGETHER;
    s->inst.run = sc_ptx_vote;
    s->inst.is_strict = true;
    s->inst.members = 2;
    return sc_ptx_is_whole(p, s, 3) &&
           sc_ptx_add_out_raw(p, s, &s->operands[0], type, SC_PTX_EXACT) &&
           sc_ptx_add_in_raw(p, s, &s->operands[1], SC_PTX_pred, SC_PTX_EXACT) &&
           sc_ptx_add_in_raw(p, s, &s->operands[2], SC_PTX_b32, SC_PTX_EXACT);
}

/* bar.sync 0; barrier.sync{.aligned} 0; bar.warp.sync members */
bool sc_ptx_decode_barrier(sc_ptx_parser *p, sc_ptx_statement *s)
{
    int64_t number;
    if (sc_ptx_part(s, ".warp")) {
        if (!sc_ptx_part(s, ".sync"))
            return sc_ptx_not_known(p, s);
        s->inst.kind = SC_PTX_TOGETHER;
        s->inst.run = sc_ptx_sync_warp;
        s->inst.is_strict = true;
        s->inst.members = 1;
        return sc_ptx_is_whole(p, s, 1) &&
               sc_ptx_add_in_raw(p, s, &s->operands[0], SC_PTX_b32, SC_PTX_EXACT);
    }
    sc_ptx_part(s, ".cta");
    if (!sc_ptx_part(s, ".sync"))
        return sc_ptx_not_known(p, s);
    sc_ptx_part(s, ".aligned");
    s->inst.kind = SC_PTX_BARRIER;
    if (!sc_ptx_is_whole(p, s, 1) || !sc_ptx_number(p, &s->operands[0], &number))
        return false;
    return number == 0 || sc_ptx_wrong(p, "only barrier 0, of all threads, is known");
}

/* ldmatrix.sync.aligned.m8n8.{x1, x2, x4}{.trans}.shared{::cta}.b16 {r..}, [row], and stmatrix the
 * other way round; `vector`: matrices, `what` 1: transposed */
bool sc_ptx_decode_matrices(sc_ptx_parser *p, sc_ptx_statement *s)
{
    bool stores = s->opcode[0] == 's';
    static const char *const counts[] = {".x1", ".x2", ".x4", NULL};
    if (!sc_ptx_part(s, ".sync") || !sc_ptx_part(s, ".aligned") || !sc_ptx_part(s, ".m8n8"))
        return sc_ptx_not_known(p, s);
    int count = sc_ptx_part_of(s, counts);
    s->inst.what = sc_ptx_part(s, ".trans");
    if (count < 0 || space_of(s) != SC_PTX_SHARED || !sc_ptx_part(s, ".b16"))
        return sc_ptx_not_known(p, s);
    s->inst.vector = (uint8_t)(1 << count);
    s->inst.kind = SC_PTX_TOGETHER;
    s->inst.run = stores ? sc_ptx_store_matrices : sc_ptx_load_matrices;
    s->inst.is_strict = true;
    if (stores)
        return sc_ptx_is_whole(p, s, 2) &&
               sc_ptx_add_address(p, s, &s->operands[0], SC_PTX_SHARED) &&
               sc_ptx_add_vector(p, s, &s->operands[1], s->inst.vector, SC_PTX_b32, false);
    return sc_ptx_is_whole(p, s, 2) &&
           sc_ptx_add_vector(p, s, &s->operands[0], s->inst.vector, SC_PTX_b32, true) &&
           sc_ptx_add_address(p, s, &s->operands[1], SC_PTX_SHARED);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32 d, a, b, c */
bool sc_ptx_decode_multiply(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const parts[] = {".sync", ".aligned", ".m16n8k16", ".row", ".col", ".f32"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!sc_ptx_part(s, parts[i]))
            return sc_ptx_not_known(p, s);
    }
    sc_ptx_type type = sc_ptx_part_type(s);
    if ((type != SC_PTX_bf16 && type != SC_PTX_f16) || sc_ptx_part_type(s) != type ||
        !sc_ptx_part(s, ".f32"))
        return sc_ptx_not_known(p, s);
    s->inst.type = (uint8_t)type;
    s->inst.kind = SC_PTX_TOGETHER;
    s->inst.run = sc_ptx_multiply;
    s->inst.is_strict = true;
    return sc_ptx_is_whole(p, s, 4) &&
           sc_ptx_add_vector(p, s, &s->operands[0], 4, SC_PTX_f32, true) &&
           sc_ptx_add_vector(p, s, &s->operands[1], 4, SC_PTX_b32, false) &&
           sc_ptx_add_vector(p, s, &s->operands[2], 2, SC_PTX_b32, false) &&
           sc_ptx_add_vector(p, s, &s->operands[3], 4, SC_PTX_f32, false);
}

/* ---- where it goes on ---- */

bool sc_ptx_decode_branch(sc_ptx_parser *p, sc_ptx_statement *s)
{
    sc_ptx_part(s, ".uni");
    if (!sc_ptx_is_whole(p, s, 1) || s->operands[0].kind != SC_PTX_RAW_WORD)
        return sc_ptx_wrong(p, "%s goes to a label", s->opcode);
    s->inst.kind = SC_PTX_BRANCH;
    sc_ptx_want_label(p, s->operands[0].text);
    return true;
}

/* Inside of an entry it is its end. */
bool sc_ptx_decode_leave(sc_ptx_parser *p, sc_ptx_statement *s)
{
    sc_ptx_part(s, ".uni");
    s->inst.kind = strncmp(s->opcode, "ret", 3) == 0 ? SC_PTX_RETURN : SC_PTX_EXIT;
    return sc_ptx_is_whole(p, s, 0);
}

static bool call_params(sc_ptx_parser *p, const sc_ptx_raw *raw, bool is_result,
                        sc_ptx_copy_of_param *out, uint32_t room, uint32_t *count)
{
    if (raw->kind != SC_PTX_RAW_LIST || raw->part_count > room)
        return sc_ptx_wrong(p, "call is not known with these lists of parameters");
    for (uint32_t i = 0; i < raw->part_count; i++) {
        sc_ptx_space space;
        uint64_t at;
        uint32_t bytes;
        if (!sc_ptx_find_variable(p, raw->parts[i], &space, &at, &bytes))
            return false;
        if (space != SC_PTX_LOCAL)
            return sc_ptx_wrong(p, "%s is handed on, which is no .param", raw->parts[i]);
        out[(*count)++] = is_result ? (sc_ptx_copy_of_param){0, (uint32_t)at, bytes}
                                    : (sc_ptx_copy_of_param){(uint32_t)at, 0, bytes};
    }
    return true;
}

/* call{.uni} (results), function, (parameters) */
bool sc_ptx_decode_call(sc_ptx_parser *p, sc_ptx_statement *s)
{
    sc_ptx_module *m = sc_ptx_parser_module(p);
    sc_ptx_call call = {0};
    sc_ptx_part(s, ".uni");
    uint32_t k = s->count > 0 && s->operands[0].kind == SC_PTX_RAW_LIST;
    if (s->dot[0] != 0 || k >= s->count || s->operands[k].kind != SC_PTX_RAW_WORD)
        return sc_ptx_not_known(p, s);
    if (k == 1 && !call_params(p, &s->operands[0], true, call.results, 2, &call.result_count))
        return false;
    call.function = s->operands[k].text;
    if (k + 1 < s->count &&
        !call_params(p, &s->operands[k + 1], false, call.given, 8, &call.given_count))
        return false;
    s->inst.kind = SC_PTX_CALL;
    s->inst.target = m->calls.count;
    *sc_vec_push(&m->arena, &m->calls) = call;
    return true;
}
