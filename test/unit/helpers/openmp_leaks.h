/* For tests that start teams: clang's OpenMP keeps what it knows of threads that a smaller team
 * left over, or whose master ended. */
#ifndef SHARDC_TEST_OPENMP_LEAKS_H
#define SHARDC_TEST_OPENMP_LEAKS_H

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libomp\n";
}

#endif
