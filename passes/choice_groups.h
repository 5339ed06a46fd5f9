/* Routed products that share their ids (pack_choices.c): how many choices of rows a rank has room
 * for, and the types of what is packed by choice. */
#ifndef SHARDC_PASSES_CHOICE_GROUPS_H
#define SHARDC_PASSES_CHOICE_GROUPS_H

#include "passes/pass.h"

/* Products with the same ids and experts, which ranks share. */
typedef struct sc_choice_group {
    sc_value ids; /* that all copies of them are made from */
    sc_dim experts;
    sc_sub_axis_list over;
    uint32_t before; /* another group with these ids, or SC_NONE */
    /* the dims of ids: a choice is an element of them. A rank has so many */
    uint32_t dim_count;
    sc_dim dims[SC_MAX_RANK];
    int64_t choices;
    double share;         /* choices of a rank's experts under even routing */
    bool packs;           /* there is less room than choices */
    sc_sub_axis_list all; /* ranks with choices */
    sc_dim member, part, slot;
    int64_t members, parts, each, below, room;
    /* made when the first product is met: */
    bool is_begun;
    sc_value slots, places, packed;
} sc_choice_group;

typedef SC_VEC(sc_choice_group) sc_choice_groups;

/* The number of a product's group in `groups`, which it is added to if new; SC_NONE: its experts
 * are not split, or it is no product. `by_ids`: the last group with these ids. */
uint32_t sc_choice_group_of(sc_module *m, const sc_pass_env *env, sc_choice_groups *groups,
                            sc_map *by_ids, sc_op_id id);
/* Emits the group's slots, and its ids in them, before a product of it. */
void sc_begin_choices(sc_emitter *e, sc_choice_group *group, sc_op_id product);

bool sc_is_choice_dim(const sc_choice_group *group, sc_dim dim);
uint32_t sc_count_choice_dims(const sc_choice_group *group, const sc_type_info *type);
/* True if the type is a sum that is pending over ranks of the group. */
bool sc_is_pending(const sc_choice_group *group, const sc_type_info *type);
/* The type with slots in place of choices: their dims first, split as `like` is. */
sc_type_info sc_type_packed(const sc_choice_group *group, const sc_type_info *like);
/* Places a type with slots, split as `like` is. */
void sc_place_packed(const sc_choice_group *group, const sc_type_info *like, sc_type_info *type);
/* The dims of slots, for `dims` or `to`. */
sc_attr sc_choice_slots(sc_module *m, const sc_choice_group *group, sc_attr_key key);
/* Packs a value that has all dims of choices. Empty slots get `fill`. */
sc_value sc_pack_choices(sc_emitter *e, const sc_choice_group *group, sc_value value, double fill);

#endif
