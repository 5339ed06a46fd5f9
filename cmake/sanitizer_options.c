/* Options of the sanitizers, in every executable of their builds: what they report then does not
 * depend on how it is started. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

/* The leak check of clang 14 takes the word before a block of dynamic TLS that begins 16 bytes into
 * a page for a glibc header, and dies (`Tracer caught signal 11`) once in some hundred runs of a
 * program that opens libraries with such blocks. The blocks are found through the threads' own
 * tables all the same. */
const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}

/* What LLVM's OpenMP library, which is not instrumented, does to its own memory is no race of ours.
 */
const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}
