/* In each shared object of kernels: what machine.h calls, forwarded to the engine's table; and what
 * -fsanitize=thread makes a compiler call at each access to memory that may be another's, which
 * tells the engine of every access to global memory. It is not linked with that sanitizer's
 * runtime, and itself compiled without it. */
#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default"))) const sc_machine_table *sc_machine_hooks;

int sc_machine_thread(void)
{
    return sc_machine_hooks->thread();
}
int sc_machine_threads(void)
{
    return sc_machine_hooks->threads();
}
int64_t sc_machine_block(void)
{
    return sc_machine_hooks->block();
}
void sc_machine_sync(int line)
{
    sc_machine_hooks->sync(line);
}
void sc_machine_together(int line, int what, sc_machine_lane *lane)
{
    sc_machine_hooks->together(line, what, lane);
}
void sc_machine_shared_load(int line, int64_t at, void *to, int bytes, int align)
{
    sc_machine_hooks->shared_load(line, at, to, bytes, align);
}
void sc_machine_shared_store(int line, int64_t at, const void *from, int bytes, int align)
{
    sc_machine_hooks->shared_store(line, at, from, bytes, align);
}
void sc_machine_global_load(int line, const void *from, void *to, int bytes, int align)
{
    sc_machine_hooks->global_load(line, from, to, bytes, align);
}
void sc_machine_global_store(int line, void *to, const void *from, int bytes, int align)
{
    sc_machine_hooks->global_store(line, to, from, bytes, align);
}
void sc_machine_copy_async(int line, int64_t to, const void *from, int bytes)
{
    sc_machine_hooks->copy_async(line, to, from, bytes);
}
void sc_machine_copy_commit(int line)
{
    sc_machine_hooks->copy_commit(line);
}
void sc_machine_copy_wait(int line, int newest)
{
    sc_machine_hooks->copy_wait(line, newest);
}
void sc_machine_global_add(int line, void *at, int64_t value, int bytes)
{
    sc_machine_hooks->global_add(line, at, value, bytes);
}
void sc_machine_fail(int line, uint64_t *failure, uint64_t value)
{
    sc_machine_hooks->fail(line, failure, value);
}

#define TOUCHES(size)                                                                              \
    void __tsan_read##size(void *at)                                                               \
    {                                                                                              \
        sc_machine_hooks->touch(__builtin_return_address(0), at, size, 0);                         \
    }                                                                                              \
    void __tsan_write##size(void *at)                                                              \
    {                                                                                              \
        sc_machine_hooks->touch(__builtin_return_address(0), at, size, 1);                         \
    }                                                                                              \
    void __tsan_unaligned_read##size(void *at)                                                     \
    {                                                                                              \
        sc_machine_hooks->touch(__builtin_return_address(0), at, size, 0);                         \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *at)                                                    \
    {                                                                                              \
        sc_machine_hooks->touch(__builtin_return_address(0), at, size, 1);                         \
    }
TOUCHES(1)
TOUCHES(2)
TOUCHES(4)
TOUCHES(8)
TOUCHES(16)
void __tsan_read_range(void *at, long bytes)
{
    sc_machine_hooks->touch(__builtin_return_address(0), at, bytes, 0);
}
void __tsan_write_range(void *at, long bytes)
{
    sc_machine_hooks->touch(__builtin_return_address(0), at, bytes, 1);
}
void __tsan_init(void) {}
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void) {}

#ifdef __cplusplus
}
#endif
