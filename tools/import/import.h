/* shardc import: from a Hugging Face config.json to a model file. What a key means is said by the
 * table of its family, models/NAME.config (docs/models.md has its lines); the code here knows no
 * family and no key but `model_type`, `architectures` and the dtype.
 *
 *   table.c       reads the tables
 *   config.c      keys of config.json; which of them were used
 *   expression.c  values of a table's expressions
 *   facts.c       sizes, static arguments and refusals of one config.json
 *   write.c       the text of the model file
 * Private to tools/. */
#ifndef SHARDC_TOOLS_IMPORT_IMPORT_H
#define SHARDC_TOOLS_IMPORT_IMPORT_H

#include <jansson.h>

#include "frontend/syntax/ast.h"
#include "support/context.h"
#include "support/hash.h"
#include "support/strbuf.h"

/* ---- tables ---- */
typedef enum sc_import_kind {
#define ROW(kind, word, has_name, has_value) SC_IMPORT_##kind,
#include "tools/import/rows.def"
#undef ROW
    SC_IMPORT_KINDS
} sc_import_kind;

/* A line of a table: `KIND NAME = VALUE`. */
typedef struct sc_import_row {
    sc_import_kind kind;
    const char *name, *value; /* NULL where the kind has none */
} sc_import_row;
typedef SC_VEC(sc_import_row) sc_import_rows;

/* The lines of one model_type: those of its family's table that are for it, then those that are for
 * all families. */
typedef struct sc_import_family {
    const char *type, *name; /* name: of models/NAME.shard */
    sc_import_rows rows;
} sc_import_family;

/* Finds the family of a model_type. Returns false after reporting that there is none. */
bool sc_import_find_family(sc_context *context, const char *type, sc_import_family *out);

/* ---- config.json ---- */
typedef struct sc_import_config {
    sc_context *context;
    const char *path; /* of the file */
    json_t *root;
    sc_map used; /* paths of keys that something was made of */
} sc_import_config;

/* Returns the value of a key, with dots for those of objects, and marks it as used. NULL: there is
 * none, or it is null. */
const json_t *sc_import_get(sc_import_config *config, const char *key);
bool sc_import_has(const sc_import_config *config, const char *key); /* null counts */
void sc_import_use(sc_import_config *config, const char *key);
/* Reports keys that nothing used. */
void sc_import_check_used(sc_import_config *config);
/* A value as it is in the file, for messages. */
const char *sc_import_text(sc_context *context, const json_t *value);
void sc_import_fail(sc_import_config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- expressions ---- */
typedef enum sc_import_state {
    SC_IMPORT_ABSENT,
    SC_IMPORT_KNOWN,
    SC_IMPORT_FAILED
} sc_import_state;

typedef struct sc_import_value {
    sc_import_state state;
    bool is_integer;
    int64_t integer;
    double number;       /* set for integers too */
    const char *missing; /* ABSENT: the keys that it lacks, in quotes */
} sc_import_value;

typedef struct sc_import_dim {
    const char *name;
    int64_t size;
} sc_import_dim;
typedef SC_VEC(sc_import_dim) sc_import_dims;

/* Evaluates an expression over keys, dims and numbers. Keys are looked up in the object `within`
 * first, if it is not NULL. Errors are reported. */
sc_import_value sc_import_evaluate(sc_import_config *config, const sc_import_dims *dims,
                                   const char *within, const char *expression);

/* ---- facts ---- */
typedef struct sc_import_arg {
    const char *name, *text;
    double number; /* of a text that is one number; else NAN */
} sc_import_arg;

typedef struct sc_import_facts {
    const sc_import_family *family;
    const sc_file *file;   /* of the family */
    const sc_model *model; /* in it */
    sc_import_dims dims;
    SC_VEC(sc_import_arg) args;
    const char *dtype; /* of the weights; NULL: not said */
} sc_import_facts;

/* Takes the facts from config.json by the family's table; false if an error was reported. */
bool sc_import_find_facts(sc_import_config *config, const sc_import_family *family,
                          sc_import_facts *out);
int64_t sc_import_size(const sc_import_facts *facts, const char *dim); /* 0: there is none */

/* ---- the file ---- */
/* Appends the model file. `precision` is f32, bf16 or f64. Plans that do not divide get a comment.
 */
void sc_import_write(sc_context *context, const sc_import_facts *facts, const char *precision,
                     sc_strbuf *out);

#endif
