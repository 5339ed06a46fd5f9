/* Table-driven command lines. Each option is a row, whose value is stored in a field of the table's
 * structure. Options common to several programs are in a shared table. `-` and `_` are equal in
 * names; a value is the next argument, or follows `=`. */
#ifndef SHARDC_SUPPORT_ARGUMENTS_H
#define SHARDC_SUPPORT_ARGUMENTS_H

#include "support/context.h"

typedef struct sc_named_text {
    const char *name, *value;
} sc_named_text;

typedef SC_VEC(const char *) sc_text_list;
typedef SC_VEC(sc_named_text) sc_named_text_list;

typedef enum sc_option_kind {                     /* type of the field and effect of the option */
                              SC_OPTION_FLAG,     /* bool: set to true; takes no value */
                              SC_OPTION_TEXT,     /* const char * */
                              SC_OPTION_TEXTS,    /* sc_text_list: appended */
                              SC_OPTION_JOINED,   /* const char *: joined by commas */
                              SC_OPTION_NAMED,    /* sc_named_text_list: appends NAME=.. */
                              SC_OPTION_JSON,     /* bool: true for "json", false for "text" */
                              SC_OPTION_NUMBER,   /* int64_t, not negative */
                              SC_OPTION_COUNT,    /* int64_t, at least 1; 0 means not given */
                              SC_OPTION_UNSIGNED, /* uint64_t, as NUMBER */
                              SC_OPTION_REAL,     /* double, finite and not negative */
                              SC_OPTION_SHARE,    /* double, above 0 and at most 1 */
                              SC_OPTION_OWN,      /* handled by `set` */
                              SC_OPTION_OWN_LIST  /* as OWN, and may be repeated */
} sc_option_kind;

/* Handles an option. `into` is the table's structure. Reports invalid values. */
typedef void sc_option_set(sc_context *context, void *into, const char *name, const char *value);

typedef struct sc_option_row {
    const char *name;
    sc_option_kind kind;
    /* offset in the structure; OWN: of a const char * for the text, if other code needs it */
    size_t field;
    const char *argument; /* name of the value in help, e.g. "FILE"; NULL for FLAG */
    const char *takers;   /* commands that take the option, blank-separated; NULL: all */
    const char *summary;  /* NULL: an alias of another option, not listed */
    sc_option_set *set;   /* OWN only */
} sc_option_row;

typedef struct sc_option_table {
    const sc_option_row *rows;
    uint32_t count;
    void *into; /* base of the rows' field offsets; NULL if only used for help */
    /* name of the other program that has these options, which are rejected here; NULL: this
     * program */
    const char *owner;
} sc_option_table;

/* A relation between options of `takers` (as in a row): `option` requires one of `others`, or
 * excludes all of them. */
typedef struct sc_option_relation {
    const char *takers, *option, *others, *why;
    bool excludes;
} sc_option_relation;

/* A program: its name, commands and options. */
typedef struct sc_command_line {
    const char *program;
    const char *const *commands;
    uint32_t command_count;
    const sc_option_table *tables; /* tables of other programs last */
    uint32_t table_count;
    const sc_option_relation *relations;
    uint32_t relation_count;
} sc_command_line;

typedef struct sc_given_option {
    const sc_option_row *row;
    const char *owner; /* owner of its table */
} sc_given_option;

/* The parsed arguments. */
typedef struct sc_arguments {
    sc_text_list words; /* arguments that are not options; "-" is one of them */
    SC_VEC(sc_given_option) options;
} sc_arguments;

/* Parses the arguments and stores the options' values. Errors have the id `usage`; an invalid value
 * is stored as 0, and parsing continues. Repeating an option is an error, except for kinds that
 * collect values. */
void sc_arguments_parse(sc_context *context, const sc_command_line *line, int argc, char **argv,
                        sc_arguments *out);

/* Reports options that the command does not take or that conflict. Returns false if there were
 * any. */
bool sc_arguments_check(sc_context *context, const sc_command_line *line,
                        const sc_arguments *arguments, const char *command);

/* Returns the index of a command; SC_NONE after reporting an error. */
uint32_t sc_arguments_command(sc_context *context, const sc_command_line *line, const char *name);

/* True if help lists the option for a command (NULL: for any). */
bool sc_arguments_listed(const sc_option_table *table, const sc_option_row *row,
                         const char *command);
/* Appends one line per option: those that `command` takes, or (NULL) all, with the commands that
 * take them. */
void sc_arguments_help(const sc_command_line *line, const char *command, sc_strbuf *out);

/* Parses a number of at least `least`, for an OWN row. Otherwise reports an error and sets *out to
 * 0. */
void sc_arguments_number(sc_context *context, const char *name, const char *value, int64_t least,
                         int64_t *out);

/* Reports an error with the id `usage`. */
void sc_arguments_fail(sc_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Parses the whole text as a decimal number. Returns false if it is not one. */
bool sc_whole_number(const char *text, int64_t *out);

#endif
