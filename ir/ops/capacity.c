#include "ir/ops/capacity.h"

#include <math.h>
#include <string.h>

#include "support/number.h"

double sc_capacity_for(int64_t rows, double share)
{
    return ceil(100 * (double)rows / share) / 100;
}

bool sc_capacity_wanted(const char *error, double *out)
{
    static const char remedy[] = "tune capacity = ";
    const char *at = strstr(error, remedy);
    *out = at == NULL ? 0 : sc_strtod(at + strlen(remedy), NULL);
    return *out > 0;
}

double sc_capacity_next(double wanted, double last)
{
    return ceil(100 * fmax(1.1 * wanted, 1.25 * last)) / 100;
}

int64_t sc_capacity_rows(double capacity, double share, int64_t all)
{
    const double rows = ceil(capacity * share - 1e-6); /* a quotient of hundredths is not exact */
    return rows >= (double)all ? all : rows < 1 ? 1 : (int64_t)rows;
}

double sc_part_share(int64_t count, int64_t each, int64_t choices)
{
    double none = 1;
    for (int64_t k = 0; k < choices && k < count; k++)
        none *= fmax(0, (double)(count - each - k) / (double)(count - k));
    return 1 - none;
}
