/* What opens a feed, shared by the files that do. */
#include "runtime/drive/feed_internal.h"

void sc_feeding_report(sc_feeding *f, const char *text)
{
    sc_report(&f->context->diag, SC_D_bad_data, (sc_loc){0}, text, NULL);
}

double *sc_feeding_reserve(sc_feeding *f, uint32_t input)
{
    f->feed->arrays[input] =
        sc_array_new(sc_feeding_input(f, input)->rank, sc_feeding_input(f, input)->sizes);
    if (f->feed->arrays[input].data == NULL)
        sc_report(&f->context->diag, SC_D_run_failed, (sc_loc){0},
                  "there is not enough memory for the inputs", NULL);
    return f->feed->arrays[input].data;
}
