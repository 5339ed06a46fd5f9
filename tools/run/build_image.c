#include "tools/run/build_image.h"

#include "codegen/program/generate.h"
#include "tools/run/cached_entries.h"
#include "tools/run/facts.h"
#include "tools/run/parts.h"

/* Compiles the program's second module, if it has one: the forward entry of a train step, or a
 * cached entry with another number of positions. */
static bool find_facts(sc_context *context, const sc_options *options, const sc_compiled *c,
                       sc_compiled *second, bool *has_second, sc_facts *facts)
{
    sc_compiled whole;
    *has_second = c->step != NULL;
    if (c->step != NULL &&
        (!sc_build_whole(c, &whole) || !sc_compile_forward(context, c, options, "fuse", second)))
        return false;
    if (!sc_find_facts(c, c->step != NULL ? &whole : NULL, true, options->map, facts) ||
        !facts->weights.is_complete)
        return false;
    if (c->step != NULL)
        facts->entry.func = sc_second_func(c, second);
    else if (facts->entry.is_cached && !sc_compile_other(context, c, options, "fuse", second,
                                                         &facts->generates, &facts->generate))
        return false;
    *has_second = *has_second || facts->generates;
    return true;
}

bool sc_build_image(sc_context *context, const sc_options *options, const sc_compiled *c,
                    sc_strbuf *image)
{
    sc_compiled second;
    sc_facts facts;
    sc_generated_program generated;
    sc_generate_part parts[2];
    bool has_second;
    if (!find_facts(context, options, c, &second, &has_second, &facts))
        return false;
    const char *name = facts.generates ? sc_other_name(context, c, &facts.generate) : NULL;
    uint32_t count = sc_parts_of(c, has_second ? &second : NULL, name, parts);
    const char *text = sc_facts_write(&facts, &context->arena);
    if (text == NULL) {
        sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, "there is not enough memory", NULL);
        return false;
    }
    const sc_target *target = sc_driver_target(context, options);
    const sc_generate_options how = {.facts = text, .target = target};
    if (target == NULL || !sc_generate_program(parts, count, &how, &generated))
        return false;
    sc_strbuf_init(image, &context->arena);
    sc_generated_write(&generated, image);
    return true;
}
