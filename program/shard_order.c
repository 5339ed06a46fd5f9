#include "program/shard_order.h"

void sc_shard_runs(const sc_shard_order *order, int64_t shard, int64_t local, sc_run runs[SC_RUNS])
{
    runs[0] = (sc_run){0, shard * local, local};
    runs[1] = (sc_run){local, 0, 0};
    if (order->members <= 1)
        return;
    int64_t inner = shard % order->inner, member = shard / order->inner % order->members,
            part = shard / order->inner / order->members;
    /* what a member holds is two chunks; the shard begins at `from` of it */
    int64_t held = local * order->inner, chunk = held / 2, from = inner * local,
            begin = part * order->members * held, left = from < chunk ? chunk - from : 0,
            first = left < local ? left : local,
            second = begin + (2 * order->members - 1 - member) * chunk;
    runs[0] = (sc_run){0, begin + member * chunk + from, first};
    runs[1] = (sc_run){first, second + from + first - chunk, local - first};
}

int64_t sc_shard_position(const sc_shard_order *order, int64_t shard, int64_t local, int64_t i)
{
    sc_run runs[SC_RUNS];
    sc_shard_runs(order, shard, local, runs);
    const sc_run *run = &runs[i >= runs[1].at && runs[1].count > 0];
    return run->first + i - run->at;
}

int64_t sc_shard_find(const sc_shard_order *order, int64_t shard, int64_t local, int64_t position)
{
    sc_run runs[SC_RUNS];
    sc_shard_runs(order, shard, local, runs);
    for (uint32_t r = 0; r < SC_RUNS; r++) {
        if (position >= runs[r].first && position < runs[r].first + runs[r].count)
            return runs[r].at + position - runs[r].first;
    }
    return -1;
}
