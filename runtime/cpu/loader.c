/* Loads a shared object from memory: the bytes are written to an anonymous file, which dlopen opens
 * by its descriptor's path. The dynamic loader identifies objects by path, so the file stays open:
 * its number must not be reused while the object is loaded. */
#define _GNU_SOURCE
#include "runtime/cpu/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct sc_loader {
    void *handle;
    int file;
};

static void set_error(shardc_error *error, shardc_status status, const char *what, const char *why)
{
    error->status = status;
    snprintf(error->text, sizeof error->text, "%s: %s", what, why == NULL ? "unknown" : why);
}

/* True if everything that the headers load is present. dlopen maps missing parts without an error,
 * and reading them crashes. */
static bool is_whole(const char *bytes, size_t count)
{
    ElfW(Ehdr) head;
    if (count < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) ||
        head.e_phoff > count || head.e_phnum > (count - head.e_phoff) / sizeof(ElfW(Phdr)))
        return false;
    for (size_t i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) segment;
        memcpy(&segment, bytes + head.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD &&
            (segment.p_offset > count || segment.p_filesz > count - segment.p_offset))
            return false;
    }
    return true;
}

static int write_file(const char *bytes, size_t count)
{
    int file = memfd_create("shardc kernels", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            close(file);
            return -1;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return file;
}

/* Keeps the OpenMP runtime loaded. It was loaded with the object, and unloading it would remove the
 * code of threads that it keeps. */
static void keep_openmp(void *handle)
{
    Dl_info info;
    void *symbol = dlsym(handle, "omp_get_max_threads");
    if (symbol != NULL && dladdr(symbol, &info) != 0 && info.dli_fname != NULL)
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

sc_loader *sc_loader_open(const void *bytes, size_t count, shardc_error *error)
{
    if (!is_whole(bytes, count)) {
        set_error(error, SHARDC_ERROR_DATA, "the program's kernels do not load",
                  "the object is incomplete");
        return NULL;
    }
    sc_loader *loader = malloc(sizeof *loader);
    if (loader == NULL) {
        set_error(error, SHARDC_ERROR_MEMORY, "the program's kernels", "out of memory");
        return NULL;
    }
    loader->file = write_file(bytes, count);
    if (loader->file < 0) {
        set_error(error, SHARDC_ERROR_MEMORY, "the program's kernels", strerror(errno));
        free(loader);
        return NULL;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", loader->file);
    loader->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loader->handle == NULL) {
        set_error(error, SHARDC_ERROR_DATA, "the program's kernels do not load", dlerror());
        close(loader->file);
        free(loader);
        return NULL;
    }
    keep_openmp(loader->handle);
    return loader;
}

sc_kernel_function *sc_loader_symbol(sc_loader *loader, const char *name, shardc_error *error)
{
    sc_kernel_function *function = NULL;
    void *symbol = dlsym(loader->handle, name);
    if (symbol == NULL)
        set_error(error, SHARDC_ERROR_DATA, "the program's kernels", dlerror());
    else
        memcpy(&function, &symbol, sizeof function);
    return function;
}

void sc_loader_close(sc_loader *loader)
{
    if (loader == NULL)
        return;
    dlclose(loader->handle);
    close(loader->file);
    free(loader);
}
