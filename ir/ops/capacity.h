/* Rows that are sent to the ranks of their experts: how many a rank has room for. */
#ifndef SHARDC_IR_OPS_CAPACITY_H
#define SHARDC_IR_OPS_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

/* Of `tune capacity`: slots in even shares. */
#define SC_DEFAULT_CAPACITY 2.0

/* Choices are not packed for fewer to a part under even routing, unless the plan says how many have
 * room: an uneven routing of few rows is the rule. */
#define SC_FEW_CHOICES 64

/* A row's choices are looked at one after the other where its parts are found. */
#define SC_MOST_CHOICES 64

/* In place of an id: the padding of a dim of rows, which is no row. */
#define SC_NO_ID (-2147483648.0)

/* Added to the row in the last slot of a part that has no room for others: it is packed as NaN, so
 * that gradients of its experts are, whatever the loss makes of rows. */
#define SC_SPOILT_ROW (1 << 30)

/* In place of a slot: the part has no room for the row. The step has failed, and what comes back is
 * not a number, so that nothing is updated with it. */
#define SC_NO_ROOM (-2.0)

/* The error of rows without room: their number, what they are, how many have room, and the capacity
 * that would do. What follows the last `= ` is a number that `tune capacity` takes. */
#define SC_TOO_MANY_ROWS                                                                           \
    "%s %s go to one part of the experts, which has room for %lld; tune capacity = %s"
#define SC_ROWS_WITHOUT_ROOM    "rows of a rank"
#define SC_CHOICES_WITHOUT_ROOM "choices of rows"
#define SC_CAPACITY_FORMAT      "%.2f"

/* The capacity, in hundredths, that has room for so many rows when the even share is `share`. */
double sc_capacity_for(int64_t rows, double share);
/* Reads the capacity from such an error. False: the text is another error's. */
bool sc_capacity_wanted(const char *error, double *out);
/* The capacity to compile with where `wanted` is the least that does for one rank and step, and
 * `last` did not: with some more, so that few programs are compiled. */
double sc_capacity_next(double wanted, double last);
/* The rows of `all` that there is room for: `capacity` times the even share, at most all. */
int64_t sc_capacity_rows(double capacity, double share, int64_t all);
/* The share of rows, 0 .. 1, that have one of their `choices` among `each` of `count` ids, when all
 * sets of ids are as likely: 1 - C(count - each, choices) / C(count, choices). */
double sc_part_share(int64_t count, int64_t each, int64_t choices);

#endif
