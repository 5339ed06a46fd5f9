#include "codegen/memory_plan.h"

static int64_t taken_bytes(const sc_image_buffer *buffer)
{
    return (buffer->bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
}

static void print_moment(const sc_image *image, const sc_memory_plan *plan, sc_strbuf *out)
{
    if (plan->func == SC_IMAGE_NONE)
        return;
    const sc_image_func *func = &image->funcs[plan->func];
    sc_strbuf_printf(out, "peak in @%s, ", func->name);
    if (plan->instr == SC_IMAGE_NONE) {
        sc_strbuf_add(out, "when it is called\n");
        return;
    }
    const sc_image_instr *instr = &func->instrs[plan->instr];
    sc_strbuf_printf(out, "instruction %u", plan->instr);
    if (instr->where != NULL)
        sc_strbuf_printf(out, " of %s", instr->where);
    if (instr->phase != NULL)
        sc_strbuf_printf(out, " (%s)", instr->phase);
    sc_strbuf_add_char(out, '\n');
}

void sc_memory_plan_print(const sc_image *image, const sc_memory_plan *plan, uint32_t shown, sc_strbuf *out)
{
    double above = plan->live_bytes > 0 ? 100.0 * (double)(plan->arena_bytes - plan->live_bytes) / (double)plan->live_bytes : 0.0;
    sc_strbuf_printf(out, "arena %lld bytes: %lld alive at once, %.2f %% above; %u written in place\n", (long long)plan->arena_bytes,
                     (long long)plan->live_bytes, above, plan->in_place);
    print_moment(image, plan, out);
    for (uint32_t k = 0; k < SC_BUFFER_KINDS; k++) {
        if (plan->kinds[k] > 0)
            sc_strbuf_printf(out, "  %-12s %15lld\n", sc_image_buffer_kind_names[k], (long long)plan->kinds[k]);
    }
    if (plan->live_count > 0)
        sc_strbuf_add(out, "alive then\n");
    for (uint32_t i = 0; i < plan->live_count && i < shown; i++) {
        const sc_image_buffer *buffer = &image->buffers[plan->live[i]];
        sc_strbuf_printf(out, "  %-12s %15lld  %s\n", sc_image_buffer_kind_names[buffer->kind], (long long)taken_bytes(buffer),
                         buffer->name != NULL ? buffer->name : "");
    }
    if (plan->live_count > shown)
        sc_strbuf_printf(out, "  and %u more\n", plan->live_count - shown);
}
