#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shardc/compiler.h"
#include "tools/driver/bindings.h"
#include "tools/explain/measure_memory.h"
#include "tools/run/build_image.h"

typedef struct request {
    const char *name, *text;
    size_t length;
    const shardc_compile_options *options;
    void *program;
    size_t size;
    char *messages;
    bool failed;
    shardc_error error;
} request;

static void fill(request *r, shardc_status status, const char *text)
{
    r->error.status = status;
    snprintf(r->error.text, sizeof r->error.text, "%s", text);
    r->failed = true;
}

/* Data that outlives the context's memory. */
static void *keep(request *r, const void *bytes, size_t size)
{
    void *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        fill(r, SHARDC_ERROR_MEMORY, "out of memory");
    else
        memcpy(copy, bytes, size);
    return copy;
}

static bool compile(sc_context *context, const request *r, sc_strbuf *program)
{
    const shardc_compile_options *given = r->options;
    sc_options options = {
        .file = r->name, .text = r->text, .text_length = r->length, .measure = sc_measure_memory};
    sc_compiled c;
    sc_binding_list mesh = {0};
    options.plan = given->plan;
    options.entry = given->entry;
    options.forward = given->forward;
    options.plan_options.allow_padding = given->allow_padding;
    if (given->bind != NULL)
        sc_parse_bindings(context, "bind", given->bind, &options.plan_options.binds);
    if (given->mesh != NULL)
        sc_parse_bindings(context, "mesh", given->mesh, &mesh);
    for (uint32_t i = 0; i < mesh.count; i++)
        *sc_vec_push(&context->arena, &options.plan_options.mesh) = mesh.data[i];
    if (context->diag.errors > 0 ||
        !sc_driver_compile_file(context, &options, NULL, NULL, "fuse", &c) ||
        !sc_build_image(context, &options, &c, program))
        return false;
    return context->diag.errors == 0;
}

static void work(sc_context *context, void *user)
{
    request *r = user;
    sc_strbuf program, messages;
    sc_strbuf_init(&program, &context->arena);
    sc_strbuf_init(&messages, &context->arena);
    bool compiled = compile(context, r, &program);
    sc_diag_render_text(&context->diag, &context->sources, &messages);
    if (messages.length > 0)
        r->messages = keep(r, messages.data, messages.length + 1);
    if (compiled) {
        r->program = keep(r, program.data, program.length);
        r->size = program.length;
        return;
    }
    bool is_machine = sc_diag_exit_code(&context->diag) == 7;
    fill(r, is_machine ? SHARDC_ERROR_UNAVAILABLE : SHARDC_ERROR_DATA,
         messages.length > 0 ? messages.data : "the model does not compile");
}

shardc_status shardc_compile(const char *name, const char *text, size_t length,
                             const shardc_compile_options *options, void **out_program,
                             size_t *out_size, char **out_messages, shardc_error *error)
{
    static const shardc_compile_options defaults = {0};
    request r = {.name = name != NULL ? name : "model",
                 .text = text,
                 .length = length,
                 .options = options != NULL ? options : &defaults};
    sc_context context;
    if (text == NULL || out_program == NULL || out_size == NULL)
        fill(&r, SHARDC_ERROR_ARGUMENT, "shardc_compile needs a text and a place for the program");
    else if (!sc_context_run(&context, 0, work, &r))
        fill(&r, SHARDC_ERROR_MEMORY, "out of memory");
    if (text != NULL && out_program != NULL && out_size != NULL)
        sc_context_free(&context);
    if (r.failed) {
        free(r.program);
        if (error != NULL)
            *error = r.error;
    } else {
        *out_program = r.program;
        *out_size = r.size;
    }
    if (out_messages != NULL)
        *out_messages = r.messages;
    else
        free(r.messages);
    return r.failed ? r.error.status : SHARDC_OK;
}

void shardc_compile_free(void *given)
{
    free(given);
}

const char *shardc_version(void)
{
    return SHARDC_VERSION;
}
