#include "support/join.h"

const char *const sc_join_names[SC_JOINS] = {"one", "rows", "sum", "mean"};
