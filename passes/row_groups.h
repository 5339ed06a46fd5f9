/* Routed products that share their rows (dispatch_rows.c): which ranks have the rows, and the types
 * of what is in slots. */
#ifndef SHARDC_PASSES_ROW_GROUPS_H
#define SHARDC_PASSES_ROW_GROUPS_H

#include "passes/exchanges.h"
#include "passes/pass.h"

/* Products with the same ids and experts. */
typedef struct sc_row_group {
    sc_value ids; /* behind names and reshards */
    sc_dim experts;
    sc_sub_axis_list over;
    uint32_t rule;   /* the plan line, or SC_NONE */
    uint32_t before; /* another group with these ids, or SC_NONE */
    sc_type read;    /* of the ids, where products read them */
    int64_t each;    /* experts of a part */
    bool sends;      /* a product of it is to send its rows */
    uint32_t row_dim_count;
    sc_dim row_dims[SC_MAX_RANK];
    sc_sub_axis_list
        home[SC_MAX_RANK]; /* by dim of rows: what splits it on the ranks that have rows */
    /* made when the first product is met: */
    bool is_begun;
    sc_dim member, part, slot;
    int64_t members, parts, room;
    double share;         /* slots of a part that are full under even routing */
    double even;          /* the part of the choices of slots that is a row's */
    sc_sub_axis_list all; /* ranks with rows, those of a group last */
    sc_value wide, slots, places, counts, arrived;
} sc_row_group;

/* What the files of the pass share. */
typedef struct sc_sending {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    double capacity;
    SC_VEC(sc_row_group) groups;
    sc_map by_ids;              /* the last group with these ids */
    sc_exchange_list exchanges; /* of the function */
    bool failed;
} sc_sending;

/* Reports that the group's line cannot be followed; returns false. */
bool sc_dispatch_fails(sc_sending *s, const sc_row_group *group, const char *text);

/* ---- groups ---- */
/* Finds the groups of a function. */
void sc_find_row_groups(sc_sending *s);
/* The number of a product's group; SC_NONE: its experts are not split, or it is no product. */
uint32_t sc_row_group_of(sc_sending *s, sc_op_id id);
/* The value before it was gathered over these sub-axes; SC_NONE: it was not. */
sc_value sc_before_gather(const sc_sending *s, sc_value value, const sc_sub_axis_list *over);

/* ---- types ---- */
/* What splits the dim; nothing if the type lacks it. */
sc_sub_axis_list sc_split_of(const sc_type_info *type, sc_dim dim);
bool sc_is_row_dim(const sc_row_group *group, sc_dim dim);
/* How many of the dims of rows the type has. */
uint32_t sc_count_row_dims(const sc_row_group *group, const sc_type_info *type);
/* The type with rows as the ranks have them. */
sc_type_info sc_type_at_home(const sc_row_group *group, const sc_type_info *like);
/* The type with slots in place of rows: their dims first. `is_sent`: on the ranks of the experts.
 */
sc_type_info sc_type_in_slots(const sc_row_group *group, const sc_type_info *like, bool is_sent);
/* Places a type in slots, split as `like` is. */
void sc_place_in_slots(const sc_row_group *group, const sc_type_info *like, bool is_sent,
                       sc_type_info *type);
/* Fills in which dims are of rows and which of slots, of an op that goes from rows to slots, or
 * back; returns their number. */
uint32_t sc_slot_attrs(sc_module *m, const sc_row_group *group, bool is_back, sc_attr *attrs);

#endif
