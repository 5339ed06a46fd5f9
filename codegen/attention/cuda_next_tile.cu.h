/* A function of emitted CUDA. NAME is the kernel's name, TILES the number of tiles of queries.
 *
 * NAME_next: the first tile from `at` on in which some query sees a key in low .. high. `found`
 * caches the answer for 32 tiles, one bit each. */
/*@ text */
SC_DEVICE int NAME_next(const int32_t *hulls, int at, uint32_t &found, int low, int high)
{
    for (; at < TILES; at++) {
        if (at % 32 == 0) {
            bool sees = false;
            if (at + sc_lane() < TILES) {
                const sc_vec<int32_t, 4> hull = sc_load<4>(hulls + 4 * (at + sc_lane()));
                sees = hull[0] < high && hull[1] > low;
            }
            found = sc_ballot(sees);
        }
        if ((found >> at % 32 & 1) != 0)
            return at;
        if (found >> at % 32 == 0)
            at |= 31;
    }
    return TILES;
}
