#include "tools/run/run.h"

#include <stdio.h>
#include <string.h>

#include "codegen/toolchain/cache.h"
#include "runtime/cuda/algorithm_cache.h"
#include "tools/run/growing.h"
#include "tools/run/parts.h"
#include "tools/verify/runner.h"

const char *sc_last_pass(const sc_options *options)
{
    return options->interpret ? NULL : "fuse";
}

static sc_executor *failed(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return NULL;
}

/* ---- the interpreter ---- */

/* Estimates the interpreter's memory: state, and the largest op with its operands. Each state
 * counts once, though stages may share it. */
static double interpreted_bytes(const sc_module *m)
{
    double state = 0, largest = 0;
    for (uint32_t i = 0; i < m->state.count; i++)
        state += (double)sc_type_local_elements(m, sc_state_type(m, i));
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        double elements = 0;
        for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
            sc_value value =
                v < op->operand_count ? op->operands[v] : op->first_result + v - op->operand_count;
            elements += (double)sc_type_local_elements(m, sc_type_of(m, value));
        }
        largest = elements > largest ? elements : largest;
    }
    return (state + largest) * (double)sc_mesh_stage_ranks(&m->mesh) * sizeof(double);
}

static sc_executor *interpret(sc_local_run *run)
{
    double needed =
        interpreted_bytes(sc_mesh_ranks(&run->c->local->mesh) > 1 ? run->c->local : run->c->global);
    if (!sc_fits_here(needed))
        return failed(run->context, sc_too_large(run->context, "in the interpreter", needed));
    sc_executor *executor = sc_interpreter_new(run->c, run->second);
    return executor != NULL ? executor : failed(run->context, "there is not enough memory");
}

/* ---- emitted code ---- */

/* Returns the file for cuBLASLt's algorithm choices on a GPU, in the kernel cache. NULL: none. */
static const char *gemm_cache_file(sc_context *context, const shardc_executable *program)
{
    uint64_t hash = shardc_executable_hash(program);
    bool is_cpu = strcmp(shardc_executable_target(program), "cpu") == 0;
    const char *refused, *cache = is_cpu ? NULL : sc_cache_open(&context->arena, NULL, &refused);
    if (cache == NULL)
        return NULL;
    const char *path =
        sc_cache_path(&context->arena, cache, sc_cache_key_of(&hash, sizeof hash), ".gemms");
    /* The name is ours: what is there and is no such file was damaged, and would stay for ever. */
    if (!sc_algorithm_cache_may_replace(path))
        remove(path);
    return path;
}

static sc_executor *load(sc_local_run *run)
{
    sc_context *context = run->context;
    sc_generated_program generated;
    shardc_error error;
    sc_strbuf bytes;
    sc_generate_part parts[2];
    uint32_t count = sc_parts_of(run->c, run->second, run->second_name, parts);
    const sc_generate_options how = {.target = sc_driver_target(context, run->options)};
    if (how.target == NULL || !sc_generate_program(parts, count, &how, &generated))
        return NULL;
    const char *folder = run->options->run.host_memory;
    int64_t host_bytes = 0;
    double needed = sc_generated_needs(&generated, folder == NULL, &host_bytes);
    if (folder != NULL && (host_bytes == 0 || sc_target_is_cuda(how.target))) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  host_bytes == 0
                      ? "--host-memory has no effect: no line of the plan offloads anything"
                      : "--host-memory is for CPUs: a GPU's host memory is pinned",
                  NULL);
        return NULL;
    }
    if (!sc_target_is_cuda(how.target) && !sc_fits_here(needed))
        return failed(context, sc_too_large(context, "as a thread", needed));
    sc_strbuf_init(&bytes, &context->arena);
    sc_generated_write(&generated, &bytes);
    if (shardc_executable_read(bytes.data, bytes.length, &run->program, &error) != SHARDC_OK)
        return failed(context, sc_arena_printf(&context->arena, "%s", error.text));
    const shardc_session_options options = {.gemm_cache = gemm_cache_file(context, run->program),
                                            .host_memory = folder};
    if (shardc_session_new(run->program, &options, &run->session, &error) != SHARDC_OK)
        return failed(context, sc_arena_printf(&context->arena, "%s", error.text));
    sc_executor *executor = sc_executor_of_session(run->program, run->session);
    return executor != NULL ? executor : failed(context, "there is not enough memory");
}

/* Checks --ranks: it sizes an `auto` axis; otherwise the plan determines the number of ranks. */
static bool has_ranks(sc_local_run *run)
{
    uint64_t asked = run->options->ranks, ranks = sc_mesh_ranks(&run->c->local->mesh);
    if (asked == 0 || asked == ranks)
        return true;
    const char *text =
        sc_arena_printf(&run->context->arena, "--ranks %llu, but the plan's mesh has %llu",
                        (unsigned long long)asked, (unsigned long long)ranks);
    sc_report(&run->context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

static sc_executor *open_compiled(sc_local_run *run)
{
    return run->options->interpret ? interpret(run) : load(run);
}

sc_executor *sc_local_run_open(void *user)
{
    sc_local_run *run = user;
    if (has_ranks(run))
        run->executor =
            sc_growing_executor(run, open_compiled(run), open_compiled, sc_last_pass(run->options));
    return run->executor;
}

void sc_local_run_close(sc_local_run *run)
{
    sc_executor_free(run->executor);
    sc_session_say_graphs(run->session, stderr);
    shardc_session_free(run->session);
    shardc_executable_free(run->program);
}
