/* Decoders of what sm_90 does beside its threads: mbarriers, bulk copies, warpgroup matmuls. */
#include "test/ptx/async.h"
#include "test/ptx/decode.h"

static bool async(sc_ptx_parser *p)
{
    sc_ptx_parser_module(p)->is_async = true;
    return true;
}

/* A thread's block is alone in its cluster, so that the cluster's shared memory is the block's. */
static sc_ptx_space shared_space(sc_ptx_statement *s)
{
    static const char *const shared[] = {".shared::cta", ".shared::cluster", ".shared", NULL};
    return sc_ptx_part_of(s, shared) < 0 ? SC_PTX_GENERIC : SC_PTX_SHARED;
}

/* {.semantics}{.scope} */
static void skip_scope(sc_ptx_statement *s)
{
    static const char *const semantics[] = {".release", ".acquire", ".relaxed", NULL};
    static const char *const scopes[] = {".cta", ".cluster", NULL};
    (void)sc_ptx_part_of(s, semantics);
    (void)sc_ptx_part_of(s, scopes);
}

/* ---- mbarriers ---- */

static bool decode_arrive(sc_ptx_parser *p, sc_ptx_statement *s)
{
    s->inst.what = sc_ptx_part(s, ".expect_tx");
    skip_scope(s);
    sc_ptx_space space = shared_space(s);
    if (!sc_ptx_part(s, ".b64"))
        return sc_ptx_not_known(p, s);
    s->inst.run = sc_ptx_mbarrier_arrive;
    bool counts = s->count == 3;
    if ((s->inst.what == 1 && !counts) || !sc_ptx_is_whole(p, s, counts ? 3 : 2))
        return sc_ptx_wrong(p, "%s has a state, an address and a count", s->opcode);
    const sc_ptx_raw *state = &s->operands[0];
    bool wanted = state->kind != SC_PTX_RAW_WORD || strcmp(state->text, "_") != 0;
    return (!wanted || sc_ptx_add_out_raw(p, s, state, SC_PTX_b64, SC_PTX_EXACT)) &&
           sc_ptx_add_address(p, s, &s->operands[1], space) &&
           (!counts || sc_ptx_add_in_raw(p, s, &s->operands[2], SC_PTX_u32, SC_PTX_EXACT));
}

/* try_wait{.parity}.. p, [mbarrier], state or parity{, a time}. test_wait, which does not suspend,
 * is not known. */
static bool decode_wait(sc_ptx_parser *p, sc_ptx_statement *s)
{
    s->inst.what = sc_ptx_part(s, ".parity");
    skip_scope(s);
    sc_ptx_space space = shared_space(s);
    if (!sc_ptx_part(s, ".b64"))
        return sc_ptx_not_known(p, s);
    s->inst.kind = SC_PTX_WAIT;
    s->inst.run = sc_ptx_mbarrier_wait;
    s->inst.is_over = sc_ptx_mbarrier_is_over;
    return sc_ptx_is_whole(p, s, s->count == 4 ? 4 : 3) &&
           sc_ptx_add_out_raw(p, s, &s->operands[0], SC_PTX_pred, SC_PTX_EXACT) &&
           sc_ptx_add_address(p, s, &s->operands[1], space) &&
           sc_ptx_add_in_raw(p, s, &s->operands[2], s->inst.what == 1 ? SC_PTX_u32 : SC_PTX_b64,
                             SC_PTX_EXACT);
}

/* mbarrier.{init, inval, expect_tx, arrive, try_wait} */
bool sc_ptx_decode_mbarrier(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const ops[] = {".init", ".inval", ".expect_tx", NULL};
    static sc_ptx_do *const runs[] = {sc_ptx_mbarrier_init, sc_ptx_mbarrier_inval,
                                      sc_ptx_mbarrier_expect};
    enum { INVAL = 1 };
    s->inst.is_strict = async(p);
    if (sc_ptx_part(s, ".arrive"))
        return decode_arrive(p, s);
    if (sc_ptx_part(s, ".try_wait"))
        return decode_wait(p, s);
    int op = sc_ptx_part_of(s, ops);
    if (op < 0)
        return sc_ptx_not_known(p, s);
    s->inst.run = runs[op];
    skip_scope(s);
    sc_ptx_space space = shared_space(s);
    if (!sc_ptx_part(s, ".b64"))
        return sc_ptx_not_known(p, s);
    return sc_ptx_is_whole(p, s, op == INVAL ? 1 : 2) &&
           sc_ptx_add_address(p, s, &s->operands[0], space) &&
           (op == INVAL || sc_ptx_add_in_raw(p, s, &s->operands[1], SC_PTX_u32, SC_PTX_EXACT));
}

/* fence.proxy.async{.shared::cta, .global}; fence.mbarrier_init.release.cluster */
bool sc_ptx_decode_fence(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const spaces[] = {".shared::cta", ".shared::cluster", ".global", NULL};
    (void)async(p);
    if (sc_ptx_part(s, ".mbarrier_init")) {
        skip_scope(s);
        s->inst.run = sc_ptx_no_operation;
        return sc_ptx_is_whole(p, s, 0);
    }
    if (!sc_ptx_part(s, ".proxy") || !sc_ptx_part(s, ".async"))
        return sc_ptx_not_known(p, s);
    (void)sc_ptx_part_of(s, spaces);
    s->inst.run = sc_ptx_fence_proxy;
    return sc_ptx_is_whole(p, s, 0);
}

/* prefetch{.param}.tensormap [map] */
bool sc_ptx_decode_prefetch(sc_ptx_parser *p, sc_ptx_statement *s)
{
    (void)sc_ptx_part(s, ".param");
    if (!sc_ptx_part(s, ".tensormap"))
        return sc_ptx_not_known(p, s);
    s->inst.run = sc_ptx_no_operation;
    return sc_ptx_is_whole(p, s, 1);
}

/* ---- bulk copies ---- */

/* An address without an offset: an instruction has room for one offset alone. */
static bool add_place(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                      sc_ptx_space space)
{
    if (raw->kind == SC_PTX_RAW_ADDRESS && raw->offset != 0)
        return sc_ptx_wrong(p, "%s with offsets is not known", s->opcode);
    return sc_ptx_add_address(p, s, raw, space);
}

/* [map, {x, y}], or an address in global memory. */
static bool add_side(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw)
{
    uint32_t dims = s->inst.vector;
    if (raw->part_count != dims)
        return sc_ptx_wrong(p, "%s has %u coordinates", s->opcode, dims);
    if (!add_place(p, s, raw, dims > 0 ? SC_PTX_GENERIC : SC_PTX_GLOBAL))
        return false;
    for (uint32_t d = 0; d < dims; d++) {
        if (!sc_ptx_add_in(p, s, raw->parts[d], SC_PTX_s32, SC_PTX_EXACT))
            return false;
    }
    return true;
}

static bool decode_load(sc_ptx_parser *p, sc_ptx_statement *s)
{
    (void)sc_ptx_part(s, ".tile");
    if (!sc_ptx_part(s, ".mbarrier::complete_tx::bytes"))
        return sc_ptx_not_known(p, s);
    bool hints = sc_ptx_part(s, ".L2::cache_hint");
    uint32_t count = s->inst.vector > 0 ? 3 : 4;
    s->inst.run = sc_ptx_bulk_load;
    return sc_ptx_is_whole(p, s, count + hints) &&
           add_place(p, s, &s->operands[0], SC_PTX_SHARED) && add_side(p, s, &s->operands[1]) &&
           (s->inst.vector > 0 ||
            sc_ptx_add_in_raw(p, s, &s->operands[2], SC_PTX_u32, SC_PTX_EXACT)) &&
           add_place(p, s, &s->operands[count - 1], SC_PTX_SHARED);
}

static bool decode_store(sc_ptx_parser *p, sc_ptx_statement *s)
{
    (void)sc_ptx_part(s, ".tile");
    if (!sc_ptx_part(s, ".bulk_group"))
        return sc_ptx_not_known(p, s);
    bool hints = sc_ptx_part(s, ".L2::cache_hint");
    s->inst.run = sc_ptx_bulk_store;
    return sc_ptx_is_whole(p, s, (s->inst.vector > 0 ? 2u : 3u) + hints) &&
           add_side(p, s, &s->operands[0]) && add_place(p, s, &s->operands[1], SC_PTX_SHARED) &&
           (s->inst.vector > 0 ||
            sc_ptx_add_in_raw(p, s, &s->operands[2], SC_PTX_u32, SC_PTX_EXACT));
}

/* {.tensor.Nd}.{shared::cluster, shared::cta}.global.. : a load; {.tensor.Nd}.global.shared::cta..
 * : a store; .commit_group; .wait_group{.read} N */
bool sc_ptx_decode_bulk(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const dims[] = {".1d", ".2d", ".3d", ".4d", ".5d", NULL};
    s->inst.is_strict = async(p);
    if (sc_ptx_part(s, ".commit_group")) {
        s->inst.run = sc_ptx_bulk_commit;
        return sc_ptx_is_whole(p, s, 0);
    }
    if (sc_ptx_part(s, ".wait_group")) {
        (void)sc_ptx_part(s, ".read");
        s->inst.run = sc_ptx_bulk_wait;
        return sc_ptx_is_whole(p, s, 1) && sc_ptx_number(p, &s->operands[0], &s->inst.offset);
    }
    if (sc_ptx_part(s, ".tensor")) {
        int rank = sc_ptx_part_of(s, dims);
        if (rank < 0)
            return sc_ptx_not_known(p, s);
        s->inst.vector = (uint8_t)(rank + 1);
    }
    if (sc_ptx_part(s, ".global"))
        return shared_space(s) == SC_PTX_SHARED ? decode_store(p, s) : sc_ptx_not_known(p, s);
    if (shared_space(s) != SC_PTX_SHARED || !sc_ptx_part(s, ".global"))
        return sc_ptx_not_known(p, s);
    return decode_load(p, s);
}

/* ---- warps ---- */

/* elect.sync leader{|p}, members: here p stands first, so that the leader may be `_` */
bool sc_ptx_decode_elect(sc_ptx_parser *p, sc_ptx_statement *s)
{
    if (!sc_ptx_part(s, ".sync") || !sc_ptx_is_whole(p, s, 2))
        return sc_ptx_not_known(p, s);
    const sc_ptx_raw *to = &s->operands[0];
    if (to->kind != SC_PTX_RAW_WORD || to->second == NULL)
        return sc_ptx_wrong(p, "elect.sync has a predicate");
    s->inst.kind = SC_PTX_TOGETHER;
    s->inst.run = sc_ptx_elect;
    s->inst.is_strict = true;
    s->inst.members = 1;
    return sc_ptx_add_out(p, s, to->second, SC_PTX_pred, SC_PTX_EXACT) &&
           (strcmp(to->text, "_") == 0 ||
            sc_ptx_add_out(p, s, to->text, SC_PTX_b32, SC_PTX_EXACT)) &&
           sc_ptx_add_in_raw(p, s, &s->operands[1], SC_PTX_b32, SC_PTX_EXACT);
}

/* setmaxnreg.{inc, dec}.sync.aligned.u32 N */
bool sc_ptx_decode_registers(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const ops[] = {".dec", ".inc", NULL};
    int op = sc_ptx_part_of(s, ops);
    if (op < 0 || !sc_ptx_part(s, ".sync") || !sc_ptx_part(s, ".aligned") ||
        !sc_ptx_part(s, ".u32"))
        return sc_ptx_not_known(p, s);
    (void)async(p);
    s->inst.what = (uint8_t)op;
    s->inst.kind = SC_PTX_WAIT;
    s->inst.run = sc_ptx_set_registers;
    s->inst.is_over = sc_ptx_registers_are_there;
    return sc_ptx_is_whole(p, s, 1) && sc_ptx_number(p, &s->operands[0], &s->inst.offset);
}

/* ---- wgmma ---- */

/* An immediate of 0 or 1 (or of 1 or -1): its bit of `what`. */
static bool add_flag(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw, int64_t off,
                     int64_t on, uint32_t bit)
{
    int64_t value;
    if (!sc_ptx_number(p, raw, &value))
        return false;
    if (value != off && value != on)
        return sc_ptx_wrong(p, "%lld is not %lld or %lld", (long long)value, (long long)off,
                            (long long)on);
    s->inst.what |= (uint8_t)(value == on ? bit : 0);
    return true;
}

/* .mma_async.sync.aligned.m64nNk16.f32.T.T d, a or its descriptor, b's descriptor, whether d is
 * added to, signs of a and b {, majors: of those in shared memory} */
static bool decode_matmul(sc_ptx_parser *p, sc_ptx_statement *s)
{
    uint32_t columns = 0;
    if (!sc_ptx_part(s, ".sync") || !sc_ptx_part(s, ".aligned") || strncmp(s->dot, ".m64n", 5) != 0)
        return sc_ptx_not_known(p, s);
    for (s->dot += 5; *s->dot >= '0' && *s->dot <= '9' && columns < 1000; s->dot++)
        columns = 10 * columns + (uint32_t)(*s->dot - '0');
    if (strncmp(s->dot, "k16", 3) != 0 || columns < 8 || columns > 256 || columns % 8 != 0)
        return sc_ptx_not_known(p, s);
    s->dot += 3;
    if (!sc_ptx_part(s, ".f32"))
        return sc_ptx_not_known(p, s);
    sc_ptx_type type = sc_ptx_part_type(s);
    if ((type != SC_PTX_bf16 && type != SC_PTX_f16) || sc_ptx_part_type(s) != type)
        return sc_ptx_not_known(p, s);
    s->inst.type = (uint8_t)type;
    s->inst.run = sc_ptx_matmul;
    bool is_shared = s->operands[1].kind != SC_PTX_RAW_VECTOR;
    if (!sc_ptx_is_whole(p, s, is_shared ? 8 : 7) ||
        !sc_ptx_add_vector(p, s, &s->operands[0], columns / 2, SC_PTX_f32, true) ||
        !(is_shared ? sc_ptx_add_in_raw(p, s, &s->operands[1], SC_PTX_b64, SC_PTX_EXACT)
                    : sc_ptx_add_vector(p, s, &s->operands[1], 4, SC_PTX_b32, false)) ||
        !sc_ptx_add_in_raw(p, s, &s->operands[2], SC_PTX_b64, SC_PTX_EXACT) ||
        !sc_ptx_add_in_raw(p, s, &s->operands[3], SC_PTX_pred, SC_PTX_EXACT))
        return false;
    s->inst.what = is_shared ? SC_PTX_MATMUL_A_IS_SHARED : 0;
    return add_flag(p, s, &s->operands[4], 1, -1, SC_PTX_MATMUL_NEGATES_A) &&
           add_flag(p, s, &s->operands[5], 1, -1, SC_PTX_MATMUL_NEGATES_B) &&
           (!is_shared || add_flag(p, s, &s->operands[6], 0, 1, SC_PTX_MATMUL_A_IS_M_MAJOR)) &&
           add_flag(p, s, &s->operands[is_shared ? 7 : 6], 0, 1, SC_PTX_MATMUL_B_IS_N_MAJOR);
}

bool sc_ptx_decode_warpgroup(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const ops[] = {".fence", ".commit_group", ".wait_group", NULL};
    static sc_ptx_do *const runs[] = {sc_ptx_matmul_fence, sc_ptx_matmul_commit,
                                      sc_ptx_matmul_wait};
    enum { WAIT = 2 };
    s->inst.is_strict = s->inst.is_matmul = async(p);
    s->inst.kind = SC_PTX_TOGETHER;
    if (sc_ptx_part(s, ".mma_async"))
        return decode_matmul(p, s);
    int op = sc_ptx_part_of(s, ops);
    if (op < 0 || !sc_ptx_part(s, ".sync") || !sc_ptx_part(s, ".aligned"))
        return sc_ptx_not_known(p, s);
    s->inst.run = runs[op];
    if (op != WAIT)
        return sc_ptx_is_whole(p, s, 0);
    return sc_ptx_is_whole(p, s, 1) && sc_ptx_number(p, &s->operands[0], &s->inst.offset);
}
