/* The sort of a routed product's rows on GPUs: a block for each id of this rank, and one for all
 * others, counts the rows of lower ids and lists its own, in order. NAME is the kernel's name. */
/*@ text */
SC_DEVICE int64_t NAME_group(int64_t id)
{
    return id >= 0 && id < COUNT_EXPERTS ? id : COUNT_EXPERTS;
}

SC_DEVICE int NAME_count(uint32_t bits)
{
    bits = bits - (bits >> 1 & 0x55555555u);
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return (int)(((bits + (bits >> 4) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}

SC_KERNEL(256, 1) void NAME_0(PARAMETERS)
{
    int64_t *const starts = (int64_t *)scratch, *const first = starts + 2 * (COUNT_EXPERTS + 2),
                   *const second = first + COUNT_ROWS;
    const int64_t group = sc_block();
    const sc_shared_ptr<int64_t> part = sc_shared<int64_t>(0);
    int64_t place = 0;
    for (int64_t i = sc_thread(); i < COUNT_ROWS; i += 256) {
        const int64_t id = ids[NAME_ids_at(i)], least = FAILURE_LEAST,
                      shown = id < least    ? least
                              : id > ~least ? ~least
                                            : id;
        if (group == 0 && (id < LEAST_ID || id >= COUNT_BELOW))
            sc_fail(sc_failure, FAILURE_CHECK | ((uint64_t)shown & FAILURE_MASK));
        place += NAME_group(id - OFFSET) < group;
    }
    for (int mask = 16; mask > 0; mask /= 2)
        place += sc_shuffle_xor(place, mask);
    if (sc_lane() == 0)
        part[sc_warp()] = place;
    sc_sync();
    place = 0;
    for (int w = 0; w < 8; w++)
        place += part[w];
    if (sc_thread() == 0)
        starts[group] = place;
    if (sc_thread() == 0 && group == COUNT_EXPERTS)
        starts[group + 1] = COUNT_ROWS;
    for (int64_t from = 0; from < COUNT_ROWS; from += 256) {
        const int64_t i = from + sc_thread();
        const bool is_own = i < COUNT_ROWS && NAME_group(ids[NAME_ids_at(i)] - OFFSET) == group;
        const uint32_t own = sc_ballot(is_own);
        sc_sync();
        if (sc_lane() == 0)
            part[sc_warp()] = NAME_count(own);
        sc_sync();
        int64_t at = place + NAME_count(own & ((1u << sc_lane()) - 1u));
        for (int w = 0; w < 8; w++) {
            at += w < sc_warp() ? part[w] : 0;
            place += part[w];
        }
        if (is_own) {
            first[at] = NAME_first_at(i);
            second[at] = NAME_second_at(i);
        }
    }
}
