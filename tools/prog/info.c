/* PROG info: describes the program without running it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/json.h"
#include "tools/prog/prog.h"

/* ---- work of a step, or of the entry's call ---- */

/* Counts the collectives of a step of one stage's ranks; messages are sends and receives. */
static void count_calls(const sc_prog *prog, uint32_t stage, uint64_t counts[SC_IMAGE_COLLECTIVES])
{
    const sc_image *image = prog->program->all.stages[stage];
    uint32_t calls = image->call_count > 0 ? image->call_count : 1;
    memset(counts, 0, SC_IMAGE_COLLECTIVES * sizeof *counts);
    for (uint32_t c = 0; c < calls; c++) {
        uint32_t index = image->call_count > 0 ? image->schedule[c].func : prog->facts.entry.func;
        if (index >= image->func_count)
            return;
        const sc_image_func *func = &image->funcs[index];
        for (uint32_t i = 0; i < func->instr_count; i++) {
            const sc_image_instr *instr = &func->instrs[i];
            if (instr->kind == SC_INSTR_COLLECTIVE)
                counts[image->collectives[instr->index].kind]++;
            else if (instr->kind == SC_INSTR_MESSAGE)
                counts[image->boundaries[image->messages[instr->index].boundary].is_receive
                           ? SC_IMAGE_RECV
                           : SC_IMAGE_SEND]++;
        }
    }
}

static json_t *counts_json(const uint64_t *counts)
{
    json_t *object = json_object();
    for (int k = 0; k < SC_IMAGE_COLLECTIVES; k++)
        json_object_set_new(object, sc_collectives[k].name, json_integer((json_int_t)counts[k]));
    return object;
}

/* What each stage has; null without stages. */
static json_t *stages_json(const sc_prog *prog)
{
    const sc_program *all = &prog->program->all;
    uint64_t counts[SC_IMAGE_COLLECTIVES];
    if (all->stage_count == 1)
        return json_null();
    json_t *stages = json_array();
    for (uint32_t s = 0; s < all->stage_count; s++) {
        const sc_image *image = all->stages[s];
        count_calls(prog, s, counts);
        json_array_append_new(
            stages, json_pack("{s:I, s:I, s:I, s:o}", "arena_bytes", (json_int_t)image->arena_bytes,
                              "kernels", (json_int_t)image->kernel_count, "gemms",
                              (json_int_t)image->gemm_count, "collectives", counts_json(counts)));
    }
    return stages;
}

static json_t *tensor_json(const shardc_tensor_info *info)
{
    json_t *object = json_object(), *shape = json_array(), *local = json_array(),
           *dims = json_array();
    for (uint32_t i = 0; i < info->rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)info->dims[i].size));
        json_array_append_new(local, json_integer((json_int_t)info->dims[i].local));
        json_array_append_new(dims, json_string(info->dims[i].name));
    }
    json_object_set_new(object, "name", json_string(info->name));
    json_object_set_new(object, "kind", json_string(info->kind));
    json_object_set_new(object, "dtype", json_string(info->dtype));
    json_object_set_new(object, "dims", dims);
    json_object_set_new(object, "shape", shape);
    json_object_set_new(object, "local", local);
    return object;
}

static json_t *funcs_json(const shardc_executable *program)
{
    json_t *funcs = json_array();
    for (uint32_t f = 0; f < shardc_executable_func_count(program); f++) {
        json_t *object = json_object(), *inputs = json_array(), *outputs = json_array();
        shardc_tensor_info info;
        for (uint32_t i = 0; i < shardc_executable_input_count(program, f); i++) {
            shardc_executable_input(program, f, i, &info);
            json_array_append_new(inputs, tensor_json(&info));
        }
        for (uint32_t i = 0; i < shardc_executable_output_count(program, f); i++) {
            shardc_executable_output(program, f, i, &info);
            json_array_append_new(outputs, tensor_json(&info));
        }
        json_object_set_new(object, "name", json_string(shardc_executable_func(program, f)));
        json_object_set_new(object, "inputs", inputs);
        json_object_set_new(object, "outputs", outputs);
        json_array_append_new(funcs, object);
    }
    return funcs;
}

static void print_json(const sc_prog *prog, sc_strbuf *out)
{
    const sc_image *image = prog->program->image, *first = prog->program->all.stages[0];
    uint64_t counts[SC_IMAGE_COLLECTIVES];
    json_t *root = json_object(), *mesh = json_array(), *states = json_array();
    count_calls(prog, 0, counts);
    for (uint32_t a = 0; a < image->axis_count; a++)
        json_array_append_new(mesh, json_pack("{s:s, s:I}", "axis", image->axes[a].name, "size",
                                              (json_int_t)image->axes[a].size));
    for (uint32_t s = 0; s < image->state_count; s++) {
        shardc_tensor_info info;
        shardc_executable_state(prog->program, s, &info);
        json_array_append_new(states, tensor_json(&info));
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "target", json_string(image->target));
    json_object_set_new(root, "nvrtc",
                        image->nvrtc == 0
                            ? json_null()
                            : json_sprintf("%u.%u", image->nvrtc / 1000, image->nvrtc % 1000 / 10));
    json_object_set_new(root, "model", json_string(prog->facts.model));
    json_object_set_new(root, "plan",
                        prog->facts.plan == NULL ? json_null() : json_string(prog->facts.plan));
    json_object_set_new(root, "entry", json_string(prog->facts.entry.name));
    json_object_set_new(root, "trains", json_boolean(prog->facts.trains));
    json_object_set_new(root, "mesh", mesh);
    json_object_set_new(root, "ranks", json_integer((json_int_t)image->ranks));
    json_object_set_new(root, "arena_bytes", json_integer((json_int_t)image->arena_bytes));
    json_object_set_new(root, "kernels", json_integer(first->kernel_count));
    json_object_set_new(root, "gemms", json_integer(first->gemm_count));
    json_object_set_new(root, "collectives", counts_json(counts));
    json_object_set_new(root, "stages", stages_json(prog));
    json_object_set_new(root, "funcs", funcs_json(prog->program));
    json_object_set_new(root, "states", states);
    sc_print_json(root, out);
}

static void print_tensor(const shardc_tensor_info *info, const char *kind, sc_strbuf *out)
{
    sc_strbuf_printf(out, "  %-8s %s %s[", kind, info->name[0] != 0 ? info->name : "-",
                     info->dtype);
    for (uint32_t i = 0; i < info->rank; i++) {
        sc_strbuf_printf(out, "%s%s=", i > 0 ? ", " : "", info->dims[i].name);
        if (info->dims[i].local != info->dims[i].size)
            sc_strbuf_printf(out, "%lld/", (long long)info->dims[i].local);
        sc_strbuf_printf(out, "%lld", (long long)info->dims[i].size);
    }
    sc_strbuf_add(out, "]\n");
}

static void print_counts(const uint64_t *counts, sc_strbuf *out)
{
    bool any = false;
    for (int k = 0; k < SC_IMAGE_COLLECTIVES; k++) {
        if (counts[k] > 0)
            sc_strbuf_printf(out, "%s %llu %s", any ? "," : ":", (unsigned long long)counts[k],
                             sc_collectives[k].name);
        any = any || counts[k] > 0;
    }
    sc_strbuf_add(out, any ? "\n" : ": none\n");
}

/* Memory, code and communication: of the program, or of each stage. */
static void print_costs(const sc_prog *prog, sc_strbuf *out)
{
    const sc_program *all = &prog->program->all;
    const char *what = prog->facts.trains ? "step" : "call";
    uint64_t counts[SC_IMAGE_COLLECTIVES];
    for (uint32_t s = 0; s < all->stage_count; s++) {
        const sc_image *image = all->stages[s];
        count_calls(prog, s, counts);
        if (all->stage_count > 1)
            sc_strbuf_printf(out, "stage %u\n", s);
        sc_strbuf_printf(out, "memory   %lld bytes a rank\n", (long long)image->arena_bytes);
        sc_strbuf_printf(out, "code     %u kernels, %u matmuls\n", image->kernel_count,
                         image->gemm_count);
        sc_strbuf_printf(out, "collectives of a %s", what);
        print_counts(counts, out);
    }
}

static void print_text(const sc_prog *prog, sc_strbuf *out)
{
    const sc_image *image = prog->program->image;
    shardc_tensor_info info;
    sc_strbuf_printf(out, "%s of %s.%s", prog->facts.trains ? "train step" : "entry",
                     prog->facts.model, prog->facts.entry.name);
    sc_strbuf_printf(out, "%s%s, for %s", prog->facts.plan == NULL ? "" : ", plan ",
                     prog->facts.plan == NULL ? "" : prog->facts.plan, image->target);
    if (image->nvrtc != 0)
        sc_strbuf_printf(out, " (NVRTC %u.%u)", image->nvrtc / 1000, image->nvrtc % 1000 / 10);
    sc_strbuf_add(out, "\nmesh    ");
    for (uint32_t a = 0; a < image->axis_count; a++)
        sc_strbuf_printf(out, " %s=%llu", image->axes[a].name,
                         (unsigned long long)image->axes[a].size);
    sc_strbuf_printf(out, "%s: %llu rank%s\n", image->axis_count == 0 ? " none" : "",
                     (unsigned long long)image->ranks, image->ranks == 1 ? "" : "s");
    print_costs(prog, out);
    for (uint32_t f = 0; f < image->func_count; f++) {
        sc_strbuf_printf(out, "function %s\n", image->funcs[f].name);
        for (uint32_t i = 0; i < image->funcs[f].input_count; i++) {
            shardc_executable_input(prog->program, f, i, &info);
            print_tensor(&info, "input", out);
        }
        for (uint32_t i = 0; i < image->funcs[f].output_count; i++) {
            shardc_executable_output(prog->program, f, i, &info);
            print_tensor(&info, "output", out);
        }
    }
    sc_strbuf_add(out, image->state_count > 0 ? "state\n" : "");
    for (uint32_t s = 0; s < image->state_count; s++) {
        shardc_executable_state(prog->program, s, &info);
        print_tensor(&info, info.kind, out);
    }
}

void sc_prog_info(sc_prog *prog)
{
    (prog->run.json ? print_json : print_text)(prog, &prog->out);
}
