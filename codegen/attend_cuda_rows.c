/* Rows of queries and elements of tiles of scores, for forward and backward on cards. */
#include "codegen/attend_cuda_emit.h"

sc_attend_places sc_attend_places_of(const sc_attend_desc *desc, const sc_attend_role *more, size_t count)
{
    static const sc_attend_role always[] = {SC_ATTEND_KEEP, SC_ATTEND_BIAS, SC_ATTEND_SEGMENTS, SC_ATTEND_KEY_SEGMENTS};
    sc_attend_places places = {.has_weight_row = desc->p > 0};
    for (size_t i = 0; i < count; i++) {
        if (desc->arrays[more[i]].is_there)
            places.roles[places.count++] = more[i];
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (desc->arrays[always[i]].is_there)
            places.roles[places.count++] = always[i];
    }
    return places;
}

void sc_attend_share_places(sc_attend_cuda *cuda, const sc_attend_places *places, int64_t rows)
{
    for (uint32_t i = 0; i < places->count; i++)
        sc_attend_cuda_share(cuda, "int64_t", sc_arena_printf(cuda->text.arena, "%s_of", sc_attend_role_name(places->roles[i])), 8, rows);
    if (places->has_weight_row)
        sc_attend_cuda_share(cuda, "int64_t", "weight_row_of", 8, rows);
}

void sc_attend_keep_places(sc_attend_text *text, const sc_attend_places *places, const char *row)
{
    for (uint32_t i = 0; i < places->count; i++) {
        const char *name = sc_attend_role_name(places->roles[i]);
        sc_attend_line(text, "%s_of[%s] = %s;", name, row, sc_attend_at(text, places->roles[i], sc_attend_all));
    }
    sc_attend_declare_row(text);
    if (places->has_weight_row)
        sc_attend_line(text, "weight_row_of[%s] = weight_row;", row);
}

void sc_attend_read_places(sc_attend_text *text, const char *row)
{
    const sc_attend_desc *desc = text->desc;
    sc_attend_places places = sc_attend_places_of(desc, NULL, 0);
    for (uint32_t i = 0; i < places.count; i++) {
        const char *name = sc_attend_role_name(places.roles[i]);
        sc_attend_line(text, "const int64_t %s_at = %s_of[%s];", name, name, row);
    }
    if (places.has_weight_row)
        sc_attend_line(text, "const int64_t weight_row = weight_row_of[%s];", row);
}

void sc_attend_open_elements(sc_attend_text *text, const char *columns)
{
    static const char *const loops[] = {"int i = 0; i < strips; i++", NULL, "int c = 0; c < 4; c++"};
    for (int i = 0; i < 3; i++) {
        sc_attend_line(text, "#pragma unroll");
        sc_attend_open(text, "for (%s)", i == 1 ? sc_arena_printf(text->arena, "int j = 0; j < %s / 8; j++", columns) : loops[i]);
    }
    sc_attend_line(text, "const int r = 2 * i + c / 2, column = 8 * j + 2 * (lane & 3) + c %% 2;");
    sc_attend_line(text, "(void)r, (void)column;");
}

void sc_attend_close_elements(sc_attend_text *text)
{
    for (int i = 0; i < 3; i++)
        sc_attend_close(text);
}

void sc_attend_cuda_score(sc_attend_text *text, bool has_slope)
{
    const sc_attend_desc *desc = text->desc;
    if (desc->softcap != 0) {
        /* tanh(x) = 1 - 2 / (exp(2 x) + 1); the score's error is 1e-7 of the cap. */
        double times = 2 * SC_LOG2_E * desc->scale / desc->softcap;
        sc_attend_line(text, "const float part = 1.0f - 2.0f / (sc_exp2_fast(score * %s) + 1.0f);", sc_attend_number(text, times));
        sc_attend_line(text, "score = part * %s;", sc_attend_number(text, desc->softcap * SC_LOG2_E));
        if (has_slope)
            sc_attend_line(text, "slope = 1.0f - part * part;");
    } else {
        sc_attend_line(text, "score *= %s;", sc_attend_number(text, desc->scale * SC_LOG2_E));
    }
    if (desc->arrays[SC_ATTEND_BIAS].is_there)
        sc_attend_line(text, "score += %s * %s;", sc_attend_bias_of_key(text), sc_attend_number(text, SC_LOG2_E));
}
