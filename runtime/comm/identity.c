/* Compares the identity lines of ranks and names the first difference. */
#include "runtime/comm/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/backend.h"
#include "support/hash.h"

enum { SHOWN = 100 /* characters of a line shown in messages */ };

typedef struct line {
    const char *text;
    size_t length, name;
} line;

/* False at the end of the text. */
static bool next_line(const char **at, line *out)
{
    if (**at == 0)
        return false;
    *out = (line){*at, strcspn(*at, "\n"), strcspn(*at, " \n")};
    *at += out->length + ((*at)[out->length] == '\n');
    return true;
}

static bool has_line(const char *text, const line *wanted)
{
    line l;
    while (next_line(&text, &l)) {
        if (l.length == wanted->length && memcmp(l.text, wanted->text, l.length) == 0)
            return true;
    }
    return false;
}

/* Finds a line with the same name as `wanted` that the text `but` does not contain. */
static bool find_name(const char *text, const line *wanted, const char *but, line *out)
{
    while (next_line(&text, out)) {
        if (out->name == wanted->name && memcmp(out->text, wanted->text, out->name) == 0 &&
            !has_line(but, out))
            return true;
    }
    return false;
}

static void describe(const line *l, bool is_there, const line *wanted, char out[SHOWN + 8])
{
    if (is_there)
        snprintf(out, SHOWN + 8, "%.*s%s", (int)(l->length < SHOWN ? l->length : SHOWN), l->text,
                 l->length > SHOWN ? ".." : "");
    else
        snprintf(out, SHOWN + 8, "no %.*s", (int)(wanted->name < SHOWN ? wanted->name : SHOWN),
                 wanted->text);
}

/* Finds a line of `a` that `b` does not have, and describes it beside the other rank's line of that
 * name. */
static bool names_missing(const char *a, uint32_t rank_a, const char *b, uint32_t rank_b, char *out,
                          size_t size)
{
    line l, other = {0};
    char mine[SHOWN + 8], theirs[SHOWN + 8];
    for (const char *at = a; next_line(&at, &l);) {
        if (has_line(b, &l))
            continue;
        bool is_there = find_name(b, &l, a, &other);
        describe(&l, true, &l, mine);
        describe(&other, is_there, &l, theirs);
        snprintf(out, size, "rank %u has %s, rank %u has %s", rank_a, mine, rank_b, theirs);
        return true;
    }
    return false;
}

bool sc_identity_differs(const char *a, uint32_t rank_a, const char *b, uint32_t rank_b, char *out,
                         size_t size)
{
    if (strcmp(a, b) == 0)
        return false;
    if (names_missing(a, rank_a, b, rank_b, out, size))
        return true;
    if (!names_missing(b, rank_b, a, rank_a, out, size))
        snprintf(out, size, "rank %u has the options of rank %u in another order", rank_a, rank_b);
    return true;
}

/* ---- comparison between ranks ---- */

static shardc_status run(sc_comm *comm, sc_comm_kind kind, const void *source, void *destination,
                         int64_t count, shardc_error *error)
{
    sc_comm_part part = {
        .source = source, .destination = destination, .count = count, .dtype = SC_DTYPE_u8};
    sc_comm_call call = {
        .kind = kind, .part_count = 1, .parts = &part, .what = "what the ranks were started with"};
    return sc_comm_run(sc_comm_world(comm), &call, error);
}

/* Rank 0 sends its lines, and each rank reports its difference. `all`: memory for one message per
 * rank. */
static shardc_status name_difference(sc_comm *comm, const char *text, char *first, char *all,
                                     size_t room, shardc_error *error)
{
    uint32_t rank = sc_comm_rank(comm), ranks = sc_comm_size(comm);
    char mine[sizeof error->text / 2] = "";
    snprintf(first, SC_IDENTITY_ROOM, "%s", text);
    shardc_status status = run(comm, SC_COMM_BROADCAST, first, first, SC_IDENTITY_ROOM, error);
    if (status != SHARDC_OK)
        return status;
    sc_identity_differs(text, rank, first, 0, mine, room);
    status = run(comm, SC_COMM_ALL_GATHER, mine, all, (int64_t)(room * ranks), error);
    for (uint32_t r = 0; r < ranks; r++) {
        if (status != SHARDC_OK)
            break;
        if (all[room * r] != 0)
            status = sc_fail(error, SHARDC_ERROR_ARGUMENT, "the ranks were started differently: %s",
                             all + room * r);
    }
    return status;
}

shardc_status sc_identity_compare(sc_comm *comm, const char *text, shardc_error *error)
{
    enum { HASH_BYTES = 8 };
    uint32_t ranks = sc_comm_size(comm);
    size_t room = sizeof error->text / 2;
    uint64_t hash = sc_fnv1a64(text, strlen(text));
    char *all = calloc(ranks, room), *first = calloc(1, SC_IDENTITY_ROOM);
    shardc_error reason = {.status = SHARDC_OK};
    bool is_same = true;
    if (all == NULL || first == NULL) {
        const char *lacks =
            "there is not enough memory to compare what the ranks were started with";
        sc_comm_abort(comm, lacks);
        free(all);
        free(first);
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s", lacks);
    }
    shardc_status status =
        run(comm, SC_COMM_ALL_GATHER, &hash, all, (int64_t)HASH_BYTES * ranks, &reason);
    if (status == SHARDC_OK) {
        for (uint32_t r = 1; r < ranks; r++)
            is_same = is_same && memcmp(all, all + (size_t)HASH_BYTES * r, HASH_BYTES) == 0;
    }
    if (status == SHARDC_OK && !is_same)
        status = name_difference(comm, text, first, all, room, &reason);
    free(all);
    free(first);
    return status == SHARDC_OK ? SHARDC_OK : sc_fail(error, status, "%s", reason.text);
}
