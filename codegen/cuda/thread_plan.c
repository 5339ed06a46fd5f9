/* Assigns work to threads.
 *
 * The cost estimate of printer/stride.c tells along which dim memory is contiguous. If that is an
 * outer dim, each thread takes some of its indices, and neighbours in a warp take the next ones:
 * elementwise kernels, column sums. If there are few columns, their rows are distributed over the
 * warps of a block. If it is the phases' last dim, an outer iteration is a row for a team, with
 * enough threads that each can cache its few elements between phases; a long row is read again by
 * each phase. If the points of some phase must run in order, one thread executes the whole
 * iteration; of running sums of integers, a team (scan.c). */
#include "codegen/cuda/internal.h"

const sc_cuda_limits sc_cuda_default_limits = {
    .lanes = 8,
    .threads = 256,
    .team = 1024,
    .warps = 16,
    .cached = 48,
    .row = 32,
    .wanted = 1 << 17,
    .parts = 512,
    .few = 2048,
    .unroll = 4,
    .tile = 16,
    .held = 32,
};

static int64_t phase_points(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &c->e.k->phases.data[phase_index];
    int64_t points = 1;
    for (uint32_t i = 0; i < phase->dim_count; i++)
        points *= sc_printer_size_of(&c->e, phase->dims[i]);
    return points;
}

static uint32_t last_dim(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &c->e.k->phases.data[phase_index];
    return phase->dim_count == 0 ? SC_NONE : phase->dims[phase->dim_count - 1];
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- legality ---- */

/* True if the check is the same at all points of its phase. */
static bool is_uniform(const sc_cuda_printer *c, uint32_t item, uint64_t dims)
{
    const sc_kernel_item *check = &c->e.k->items.data[item];
    uint64_t of_check = c->e.nodes[check->value].dims |
                        (check->shown == SC_NONE ? 0 : c->e.nodes[check->shown].dims);
    return (of_check & dims) == 0;
}

/* Marks the phases whose checks differ between points. */
static void mark_finding(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    for (uint32_t i = 0; i < k->items.count; i++) {
        uint32_t p = c->e.items[i].phase;
        c->phases[p].finds |=
            k->items.data[i].kind == SC_ITEM_CHECK && !is_uniform(c, i, sc_kernel_phase_dims(k, p));
    }
}

/* True if additions at different points of a phase go to different elements. */
static bool adds_apart(sc_access_list *accesses, uint32_t item, uint64_t dims)
{
    for (uint32_t i = 0; i < accesses->list.count; i++) {
        const sc_access *access = &accesses->list.data[i];
        if (access->writes && access->item == item)
            return sc_access_apart(accesses, access, access, dims, false);
    }
    return true;
}

/* NULL, or why the points of the phases must run in order. */
static const char *why_in_order(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    sc_access_list accesses = {0};
    for (uint32_t i = 0; i < k->items.count; i++) {
        uint32_t p = c->e.items[i].phase;
        uint64_t dims = sc_kernel_phase_dims(k, p);
        if (dims == 0)
            continue;
        sc_item_kind kind = k->items.data[i].kind;
        if (c->e.items[i].running)
            return "a running reduction is sequential";
        if (kind == SC_ITEM_CHECK && !is_uniform(c, i, dims))
            c->phases[p].finds = true;
        if (kind != SC_ITEM_ADD)
            continue;
        if (accesses.k == NULL)
            sc_kernel_accesses(k, SC_NONE, &accesses);
        if (!adds_apart(&accesses, i, dims))
            return "additions to one element are sequential";
    }
    return NULL;
}

/* True if teams execute checks of their own. */
static bool has_checks(const sc_cuda_printer *c)
{
    return c->e.check_count > 0 && c->apart == 0;
}

static bool is_of_all(const sc_cuda_printer *c, sc_knode node)
{
    uint64_t outer = ((uint64_t)1 << c->e.k->outer_count) - 1;
    return node == SC_NONE || ((c->e.nodes[node].dims & outer) == 0 && !c->e.nodes[node].late &&
                               !c->e.nodes[node].reads_written);
}

/* The number of leading phases that contain all checks, and nothing else, if these are the same for
 * every outer iteration, like checks of ids that select the rows of a column sum. One block
 * executes them once, so that teams neither repeat them nor wait for each other's. */
static uint32_t checks_in_front(const sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    uint32_t phases = 0, checks = 0;
    for (bool all = true; all && phases < k->phases.count; phases += all) {
        const sc_kernel_phase *phase = &k->phases.data[phases];
        for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
            const sc_kernel_item *item = &k->items.data[i];
            all = all && item->kind == SC_ITEM_CHECK && is_of_all(c, item->value) &&
                  is_of_all(c, item->shown);
        }
        checks += all ? phase->item_count : 0;
    }
    return checks > 0 && checks == c->e.check_count ? phases : 0;
}

/* ---- lanes ---- */

static int element_bytes(const sc_cuda_printer *c, const sc_printer_access *access)
{
    return (int)sc_dtypes[c->e.k->args.data[access->arg].dtype].bytes;
}

static bool has_inner_dims(const sc_kernel *k)
{
    bool any = false;
    for (uint32_t p = 0; p < k->phases.count; p++)
        any |= k->phases.data[p].dim_count > 0;
    return any;
}

/* True if this many lanes pay off: at least half of the accesses become vector accesses of up to 16
 * bytes; for columns, whose sums take registers and scratch, more than half. */
static bool worth_lanes(const sc_cuda_printer *c, uint32_t dim, int lanes)
{
    const sc_kernel *k = c->e.k;
    int fit = 0, all = 0;
    for (uint32_t i = 0; i < k->nodes.count + k->items.count; i++) {
        bool node = i < k->nodes.count;
        bool counts = node ? k->nodes.data[i].kind == SC_NODE_load && c->e.nodes[i].uses > 0
                           : sc_item_writes(k->items.data[i - k->nodes.count].kind);
        const sc_printer_access *access =
            node ? &c->e.nodes[i].access : &c->e.items[i - k->nodes.count].access;
        if (!counts || !sc_cuda_is_run(c, access, dim, lanes))
            continue;
        fit += lanes * element_bytes(c, access) <= 16;
        all++;
    }
    return 2 * fit > all || (2 * fit == all && !(dim < k->outer_count && has_inner_dims(k)));
}

static int choose_lanes(const sc_cuda_printer *c, uint32_t dim)
{
    int lanes = c->limits->lanes;
    while (lanes > 1 &&
           (sc_printer_size_of(&c->e, dim) % lanes != 0 || !worth_lanes(c, dim, lanes)))
        lanes /= 2;
    return lanes;
}

/* ---- teams ---- */

static int power_above(int64_t x, int most)
{
    int power = 1;
    while (power < x && power < most)
        power *= 2;
    return power;
}

static int64_t outer_points(const sc_cuda_printer *c)
{
    int64_t points = 1;
    for (uint32_t i = 0; i < c->e.k->outer_count; i++)
        points *= sc_printer_size_of(&c->e, i);
    return points;
}

static void plan_threads(sc_cuda_printer *c)
{
    c->stage.form.team = SC_CUDA_THREADS;
    c->stage.form.team_threads = 1;
    c->stage.form.threads = c->limits->threads;
    while (c->stage.form.threads > SC_CUDA_WARP && c->teams <= c->stage.form.threads / 2)
        c->stage.form.threads /= 2;
}

/* The values that a thread has for all of the kernel: scalars that it reads, and reductions. */
static int values_held(const sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    int count = 0;
    for (sc_knode i = 0; i < k->nodes.count; i++)
        count += k->nodes.data[i].kind == SC_NODE_load && c->e.nodes[i].dims == 0;
    for (uint32_t i = 0; i < k->items.count; i++)
        count += sc_item_reduces(k->items.data[i].kind);
    return count;
}

/* Plans a team per row; the largest phase determines its points. */
static void plan_rows(sc_cuda_printer *c)
{
    int64_t most = 1, elements = 1;
    for (uint32_t p = 0; p < c->e.k->phases.count; p++) {
        uint32_t dim = last_dim(c, p);
        sc_cuda_phase *phase = &c->phases[p];
        phase->lanes =
            dim == SC_NONE || phase->finds || sc_cuda_scans(c, p) ? 1 : choose_lanes(c, dim);
        phase->points = phase_points(c, p) / phase->lanes;
        if (phase->points > most) {
            most = phase->points;
            elements = phase->points * phase->lanes;
        }
    }
    int threads = power_above(most < 2 ? 2 : most, SC_CUDA_WARP);
    while (threads < c->limits->team && elements > (int64_t)threads * c->limits->row)
        threads *= 2;
    while (threads < c->limits->team && c->teams * threads < c->limits->wanted && most > threads)
        threads *= 2;
    while (threads > c->limits->team / 2 && elements > (int64_t)threads * c->limits->cached &&
           c->teams * threads / 2 >= c->limits->wanted)
        threads /= 2; /* rows read again: smaller blocks overlap loads and reductions */
    if (threads == c->limits->team && values_held(c) > c->limits->held)
        threads /= 2; /* each thread of a smaller block has more registers */
    threads = (has_checks(c) || c->scans) && threads < SC_CUDA_WARP ? SC_CUDA_WARP : threads;
    c->stage.form.team = SC_CUDA_ROWS;
    c->stage.form.team_threads = threads;
    c->stage.form.threads =
        threads > SC_CUDA_WARP
            ? threads
            : (int)at_most(c->limits->threads, (c->teams * threads + 31) / 32 * 32);
    c->stage.form.live = threads < SC_CUDA_WARP && c->teams % (SC_CUDA_WARP / threads) != 0;
}

/* Distributes the rows of columns over warps if columns alone do not fill the GPU. */
static void plan_columns(sc_cuda_printer *c)
{
    int64_t most = 1;
    for (uint32_t p = 0; p < c->e.k->phases.count; p++)
        most = c->phases[p].points > most ? c->phases[p].points : most;
    int threads = 1;
    while (threads < c->limits->warps && c->teams * threads < c->limits->wanted &&
           most >= 4 * (int64_t)threads &&
           2 * 8 * 2 * threads * SC_CUDA_WARP * c->lanes <= 40 << 10)
        threads *= 2;
    if (threads == 1 || has_checks(c) || !c->parallel) {
        plan_threads(c);
        return;
    }
    c->stage.form.team = SC_CUDA_COLUMNS;
    c->stage.form.team_threads = threads;
    c->stage.form.threads = SC_CUDA_WARP * threads;
    c->stage.form.live = c->teams % SC_CUDA_WARP != 0;
}

/* ---- row cache ---- */

static bool may_cache(const sc_kernel_printer *e, sc_knode node, uint32_t phase)
{
    const sc_cuda_printer *c = (const sc_cuda_printer *)e;
    sc_node_kind kind = (sc_node_kind)e->k->nodes.data[node].kind;
    return (kind == SC_NODE_load || sc_printer_is_expensive(kind)) &&
           !e->nodes[node].reads_written && c->phases[phase].steps > 0 &&
           sc_printer_depends_on_all(e, node, phase);
}

/* Nodes that do not fit are recomputed; earlier nodes are preferred. */
static void choose_row_cache(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        int64_t steps =
            (c->phases[p].points + c->stage.form.team_threads - 1) / c->stage.form.team_threads;
        bool fits = p >= c->apart && c->stage.form.team == SC_CUDA_ROWS && !c->phases[p].finds &&
                    !c->scans && k->phases.data[p].dim_count > 0 &&
                    steps * c->phases[p].lanes <= c->limits->cached;
        c->phases[p].steps = fits ? steps : 0;
    }
    sc_printer_choose_cached(&c->e, may_cache);
    int64_t room = c->limits->cached;
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        uint32_t from = c->e.nodes[i].cached_from;
        if (from == SC_NONE)
            continue;
        room -= c->phases[from].steps * c->phases[from].lanes *
                (k->nodes.data[i].dtype == SC_DTYPE_f64 ? 2 : 1);
        if (room < 0)
            c->e.nodes[i].cached_from = SC_NONE;
    }
}

/* ---- the plan ---- */

static bool is_wide(const sc_cuda_printer *c, const sc_printer_access *access)
{
    double reach = access->constant < 0 ? -(double)access->constant : (double)access->constant;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        double times = term->times < 0 ? -(double)term->times : (double)term->times;
        reach +=
            term->dim == SC_NONE ? times : times * (double)sc_printer_size_of(&c->e, term->dim);
    }
    return reach > 1e9;
}

/* True if indices, or offsets computed from them, may need 64 bits. */
static bool needs_wide(const sc_cuda_printer *c)
{
    double points = (double)outer_points(c);
    bool wide = points * c->stage.form.team_threads > 1e9;
    for (uint32_t p = 0; p < c->e.k->phases.count; p++)
        wide |= (double)phase_points(c, p) > 1e9;
    for (sc_knode i = 0; i < c->e.k->nodes.count; i++)
        wide |= c->e.k->nodes.data[i].kind == SC_NODE_load && is_wide(c, &c->e.nodes[i].access);
    for (uint32_t i = 0; i < c->e.k->items.count; i++)
        wide |= is_wide(c, &c->e.items[i].access);
    return wide;
}

static void size_slots(sc_cuda_printer *c)
{
    if (c->stage.form.team == SC_CUDA_COLUMNS)
        c->slot_bytes = 8 * c->stage.form.team_threads * SC_CUDA_WARP * c->lanes;
    else if (c->stage.form.team == SC_CUDA_ROWS && c->stage.form.team_threads > SC_CUDA_WARP)
        c->slot_bytes = 8 * (c->stage.form.team_threads / SC_CUDA_WARP);
    if (c->apart > 0 && c->slot_bytes < 8 * SC_CUDA_WARP)
        c->slot_bytes = 8 * SC_CUDA_WARP;
    c->shared_bytes = 2 * c->slot_bytes;
}

/* ---- stages ---- */

static bool is_heavy(const sc_cuda_printer *c, uint32_t phase)
{
    return c->e.k->phases.data[phase].dim_count > 0 &&
           c->phases[phase].points >= 2 * (int64_t)c->stage.form.team_threads * c->limits->row;
}

/* Chooses enough parts of the phase to fill the GPU, none of them small. */
static void cut_phase(const sc_cuda_printer *c, sc_cuda_form *form, uint32_t phase)
{
    int64_t points = c->phases[phase].points, threads = c->teams * form->team_threads;
    int64_t parts =
        at_most((c->limits->wanted + threads - 1) / threads, points / (form->team_threads * 4));
    parts = at_most(parts, c->limits->parts);
    form->parts = 1;
    if (parts < 2)
        return;
    form->per_part = (points + parts - 1) / parts;
    form->per_part =
        (form->per_part + form->team_threads - 1) / form->team_threads * form->team_threads;
    form->parts = (points + form->per_part - 1) / form->per_part;
    form->whole = points;
}

/* Makes a stage of each heavy phase; light phases join the stage before them if it is not split.
 * False: too many, or nothing is split. */
static bool plan_stages(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    bool any = false, joins = false;
    c->stage_count = c->apart > 0;
    for (uint32_t p = c->apart; p < k->phases.count; p++) {
        bool heavy = is_heavy(c, p);
        if (!heavy && joins) {
            c->stages[c->stage_count - 1].end = p + 1;
            continue;
        }
        if (c->stage_count == SC_CUDA_MAX_STAGES)
            return false;
        sc_cuda_form *form = &c->stages[c->stage_count++];
        *form = c->stage.form;
        form->first = p;
        form->end = p + 1;
        if (heavy)
            cut_phase(c, form, p);
        any |= form->parts > 1;
        joins = form->parts == 1;
    }
    return any;
}

static void place_checks(sc_cuda_printer *c)
{
    int64_t points = 1;
    for (uint32_t p = 0; p < c->apart; p++)
        points = c->phases[p].points > points ? c->phases[p].points : points;
    int threads = power_above(points, c->limits->team);
    threads = threads < SC_CUDA_WARP ? SC_CUDA_WARP : threads;
    c->stages[0] = (sc_cuda_form){.end = c->apart,
                                  .team = SC_CUDA_ROWS,
                                  .team_threads = threads,
                                  .threads = threads,
                                  .parts = 1,
                                  .checks = true};
}

/* With few teams and much work, phases become stages whose points are split over more blocks.
 * Blocks stay small enough that threads have enough registers. */
static void split(sc_cuda_printer *c)
{
    bool small = c->teams * c->stage.form.team_threads < c->limits->wanted / 2;
    if (c->apart > 0)
        place_checks(c);
    c->stage.form.first = c->apart;
    c->stage.form.end = c->e.k->phases.count;
    c->stage.form.parts = c->stage.form.scatters ? c->stage.form.parts : 1;
    const sc_cuda_form whole = c->stage.form;
    if (c->stage.form.team == SC_CUDA_ROWS && c->stage.form.team_threads == c->limits->team &&
        c->stage.form.team_threads > SC_CUDA_WARP)
        c->stage.form.team_threads = c->stage.form.threads = c->stage.form.team_threads / 2;
    if (small && c->parallel && !c->scans && !has_checks(c) &&
        c->stage.form.team != SC_CUDA_THREADS && plan_stages(c)) {
        for (uint32_t p = 0; p < c->e.k->phases.count; p++)
            c->phases[p].steps = 0;
        for (sc_knode i = 0; i < c->e.k->nodes.count; i++)
            c->e.nodes[i].cached_from = SC_NONE;
        return;
    }
    c->stage.form = whole;
    c->stage_count = c->apart > 0;
    c->stages[c->stage_count++] = c->stage.form;
}

static bool check_depends(const sc_cuda_printer *c, uint32_t dim)
{
    bool depends = false;
    for (uint32_t i = 0; i < c->e.k->items.count; i++)
        depends |=
            c->e.k->items.data[i].kind == SC_ITEM_CHECK && !is_uniform(c, i, (uint64_t)1 << dim);
    return depends;
}

static int64_t most_points(const sc_cuda_printer *c)
{
    int64_t most = 1;
    for (uint32_t p = 0; p < c->e.k->phases.count; p++)
        most = phase_points(c, p) > most ? phase_points(c, p) : most;
    return most;
}

/* True if phases write to what an earlier one wrote, such as zeros that are then added to. */
static bool writes_again(const sc_kernel *k)
{
    for (uint32_t p = 0; p < k->phases.count; p++) {
        uint32_t end = k->phases.data[p].first_item + k->phases.data[p].item_count;
        for (uint32_t i = k->phases.data[p].first_item; i < end; i++) {
            for (uint32_t later = end; later < k->items.count; later++) {
                if (sc_item_writes(k->items.data[i].kind) &&
                    sc_item_writes(k->items.data[later].kind) &&
                    k->items.data[i].arg == k->items.data[later].arg)
                    return true;
            }
        }
    }
    return false;
}

void sc_cuda_plan(sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    c->phases = sc_arena_array(c->e.arena, k->phases.count + 1, sizeof *c->phases);
    const char *why = why_in_order(c);
    uint32_t vector = sc_printer_choose_vector(&c->e);
    if (why != NULL && sc_cuda_plan_scan(c, vector == SC_NONE ? 0 : outer_points(c))) {
        why = NULL;
        vector = SC_NONE;
        mark_finding(c);
    }
    if (why == NULL && vector != SC_NONE)
        c->apart = checks_in_front(c);
    /* warps that share columns would leave one by one */
    if (vector != SC_NONE) {
        for (uint32_t p = c->apart; p < k->phases.count; p++)
            why = c->phases[p].finds ? "the first check that fails is reported" : why;
    }
    c->parallel = why == NULL;
    c->lanes = 1;
    if (vector != SC_NONE && !check_depends(c, vector)) {
        int64_t points = outer_points(c) * (c->parallel && !has_checks(c) ? most_points(c) : 1);
        c->lanes = choose_lanes(c, vector);
        /* threads of a warp should sum columns side by side; where nothing is summed, rows of a few
         * runs are side by side in memory as well */
        int64_t least = has_inner_dims(k) ? SC_CUDA_WARP : 1;
        while (c->lanes > 1 && (points / c->lanes < c->limits->wanted / 4 ||
                                sc_printer_size_of(&c->e, vector) / c->lanes < least))
            c->lanes /= 2;
    }
    c->teams = outer_points(c) / c->lanes;
    for (uint32_t i = 0; i < k->outer_count; i++) {
        if (i != vector)
            c->order[c->order_count++] = i;
    }
    if (vector != SC_NONE)
        c->order[c->order_count++] = vector;
    c->e.shape = (sc_printer_shape){
        .vector = c->lanes > 1 ? vector : SC_NONE, .tile = SC_NONE, .block = c->lanes};
    for (uint32_t p = 0; p < k->phases.count; p++)
        c->phases[p] = (sc_cuda_phase){.points = phase_points(c, p),
                                       .lanes = p < c->apart ? 1 : c->lanes,
                                       .finds = c->phases[p].finds};
    if (vector == SC_NONE && has_inner_dims(k) && c->parallel)
        plan_rows(c);
    else
        plan_columns(c);
    if (sc_cuda_plan_tile(c)) {
        c->stages[0] = c->stage.form;
        c->stage_count = 1;
        sc_cuda_place_partials(c);
        c->wide = needs_wide(c);
        return;
    }
    bool alone = c->stage.form.team == SC_CUDA_THREADS && !c->parallel;
    c->why_simple = alone && !sc_cuda_plan_scatter(c) ? why : NULL;
    for (uint32_t i = 0; i < k->args.count; i++)
        c->exchange |= c->e.arg_shared[i];
    c->exchange =
        (c->exchange || c->e.writes_read || writes_again(k)) && c->stage.form.team_threads > 1;
    choose_row_cache(c);
    split(c);
    size_slots(c);
    sc_cuda_place_partials(c);
    c->wide = needs_wide(c);
}
