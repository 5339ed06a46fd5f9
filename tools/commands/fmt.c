/* shardc fmt: prints the file in canonical form. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/report.h"

int sc_cmd_fmt(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_file *file = sc_parse_file(context, options->file);
    if (file == NULL || context->diag.errors > 0)
        return 0;
    sc_format_file(context, file, &text);
    if (!options->run.json) {
        sc_strbuf_add(out, text.data);
        return 0;
    }
    const sc_source *source = &context->sources.files.data[0];
    bool same = source->length == text.length && memcmp(source->text, text.data, text.length) == 0;
    sc_print_json(json_pack("{s:i,s:s,s:s,s:b}", "version", 1, "file", options->file, "text",
                            text.data, "changed", same ? 0 : 1),
                  out);
    return 0;
}
