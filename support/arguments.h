/* Command lines by tables: a row an option, whose value goes to a field of the table's structure; what several programs take is a table
 * that they share. In names `-` and `_` are equal; a value is the next argument, or follows after `=`. */
#ifndef SHARDC_SUPPORT_ARGUMENTS_H
#define SHARDC_SUPPORT_ARGUMENTS_H

#include "support/context.h"

typedef struct sc_named_text {
    const char *name, *value;
} sc_named_text;

typedef SC_VEC(const char *) sc_text_list;
typedef SC_VEC(sc_named_text) sc_named_text_list;

typedef enum sc_option_kind {                     /* the field, and what the option does to it */
                              SC_OPTION_FLAG,     /* bool: becomes true; takes no value */
                              SC_OPTION_TEXT,     /* const char * */
                              SC_OPTION_TEXTS,    /* sc_text_list: grows */
                              SC_OPTION_JOINED,   /* const char *: several are joined by commas */
                              SC_OPTION_NAMED,    /* sc_named_text_list: NAME=.. is added */
                              SC_OPTION_JSON,     /* bool: "json" and not "text" */
                              SC_OPTION_NUMBER,   /* int64_t, not negative */
                              SC_OPTION_UNSIGNED, /* uint64_t; as NUMBER */
                              SC_OPTION_REAL,     /* double, finite and not negative */
                              SC_OPTION_SHARE,    /* double, 0 .. 1 */
                              SC_OPTION_OWN       /* `set` does it */
} sc_option_kind;

/* `into` is the table's structure. What is wrong is a message. */
typedef void sc_option_set(sc_context *context, void *into, const char *name, const char *value);

typedef struct sc_option_row {
    const char *name;
    sc_option_kind kind;
    size_t field;      /* offset in the structure; OWN: of a const char *, the text that `set` keeps, where others ask for it */
    const char *value; /* what it takes, for people: "FILE"; FLAG: NULL */
    const char *summary;
    sc_option_set *set; /* OWN */
} sc_option_row;

typedef struct sc_option_table {
    const sc_option_row *rows;
    uint32_t count;
    void *into; /* what the rows' fields are offsets in; for help alone NULL */
} sc_option_table;

/* Sets what the options say; other arguments ("-" is one) are added to `words`. `list` names the command that lists the options, for
 * messages. Messages have the id `usage`; then the values that are wrong are 0, and the rest is set all the same. */
void sc_arguments_parse(sc_context *context, const sc_option_table *tables, uint32_t count, const char *list, int argc, char **argv,
                        sc_text_list *words);

/* A line an option. */
void sc_arguments_help(const sc_option_table *tables, uint32_t count, sc_strbuf *out);

/* A number of at least 0, for an OWN row; else a message, and *out is 0. */
void sc_arguments_number(sc_context *context, const char *name, const char *value, int64_t *out);

/* A message of id `usage`. */
void sc_arguments_fail(sc_context *context, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All of the text in decimal. */
bool sc_whole_number(const char *text, int64_t *out);

#endif
