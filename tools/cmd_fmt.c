#include "tools/commands.h"

int sc_cmd_fmt(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_file *file = sc_parse_file(context, options->file);
    if (file != NULL && context->diag.errors == 0)
        sc_format_file(context, file, out);
    return 0;
}
