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
                              SC_OPTION_COUNT,    /* int64_t, at least 1: 0 is "not given" */
                              SC_OPTION_UNSIGNED, /* uint64_t; as NUMBER */
                              SC_OPTION_REAL,     /* double, finite and not negative */
                              SC_OPTION_SHARE,    /* double, above 0, at most 1 */
                              SC_OPTION_OWN,      /* `set` does it */
                              SC_OPTION_OWN_LIST  /* as OWN, and it may be given again */
} sc_option_kind;

/* `into` is the table's structure. What is wrong is a message. */
typedef void sc_option_set(sc_context *context, void *into, const char *name, const char *value);

typedef struct sc_option_row {
    const char *name;
    sc_option_kind kind;
    size_t field;         /* offset in the structure; OWN: of a const char *, the text that `set` keeps, where others ask for it */
    const char *argument; /* what it takes, for people: "FILE"; FLAG: NULL */
    const char *takers;   /* commands, with blanks between; NULL: all of them */
    const char *summary;  /* NULL: another name of an option, not listed */
    sc_option_set *set;   /* OWN */
} sc_option_row;

typedef struct sc_option_table {
    const sc_option_row *rows;
    uint32_t count;
    void *into;        /* what the rows' fields are offsets in; for help alone NULL */
    const char *owner; /* of another program, which is called so: each is refused; NULL: of this one */
} sc_option_table;

/* Where an option is given to one of `takers` (as of a row): it needs one of the `others`, or it excludes all of them. */
typedef struct sc_option_relation {
    const char *takers, *option, *others, *why;
    bool excludes;
} sc_option_relation;

/* A program: what it is called, its commands and its options. */
typedef struct sc_command_line {
    const char *program;
    const char *const *commands;
    uint32_t command_count;
    const sc_option_table *tables; /* those of other programs last */
    uint32_t table_count;
    const sc_option_relation *relations;
    uint32_t relation_count;
} sc_command_line;

typedef struct sc_given_option {
    const sc_option_row *row;
    const char *owner; /* of its table */
} sc_given_option;

/* What was given. */
typedef struct sc_arguments {
    sc_text_list words; /* that are no options; "-" is one */
    SC_VEC(sc_given_option) options;
} sc_arguments;

/* Sets what the options say. Messages have the id `usage`; then the values that are wrong are 0, and the rest is set all the same. An
 * option that is given again is one, but for the kinds that collect. */
void sc_arguments_parse(sc_context *context, const sc_command_line *line, int argc, char **argv, sc_arguments *out);

/* Options that the command does not take, or that make no sense together, are messages. False after one. */
bool sc_arguments_check(sc_context *context, const sc_command_line *line, const sc_arguments *arguments, const char *command);

/* The index of a command; UINT32_MAX after a message. */
uint32_t sc_arguments_command(sc_context *context, const sc_command_line *line, const char *name);

/* Whether help lists the option: of a command, or (NULL) of all. */
bool sc_arguments_listed(const sc_option_table *table, const sc_option_row *row, const char *command);
/* A line an option: those that `command` takes, or (NULL) all, with who takes them. */
void sc_arguments_help(const sc_command_line *line, const char *command, sc_strbuf *out);

/* A number of at least `least`, for an OWN row; else a message, and *out is 0. */
void sc_arguments_number(sc_context *context, const char *name, const char *value, int64_t least, int64_t *out);

/* A message of id `usage`. */
void sc_arguments_fail(sc_context *context, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All of the text in decimal. */
bool sc_whole_number(const char *text, int64_t *out);

#endif
