/* Reads the JSON beside a file of ids. */
#include "runtime/files/tokens_about.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/file.h"
#include "support/json.h"

enum { MOST_BYTES = 1 << 20 };

/* Returns the first `length` bytes of `path` and ".json". */
static char *with_json(const char *path, size_t length)
{
    static const char end[] = ".json";
    char *text = malloc(length + sizeof end);
    if (text != NULL) {
        memcpy(text, path, length);
        memcpy(text + length, end, sizeof end);
    }
    return text;
}

char *sc_tokens_about_path(const char *path)
{
    const char *name = strrchr(path, '/'), *dot = strrchr(path, '.');
    name = name == NULL ? path : name + 1;
    return with_json(path, dot == NULL || dot <= name ? strlen(path) : (size_t)(dot - path));
}

static bool is_there(const char *path)
{
    struct stat about;
    return path != NULL && lstat(path, &about) == 0;
}

/* ---- keys ---- */

static bool read_count(const json_t *root, const char *key, uint64_t most, bool *is_given,
                       uint64_t *out)
{
    const json_t *value = json_object_get(root, key);
    *is_given = value != NULL && !json_is_null(value);
    if (!*is_given)
        return true;
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0 && *out <= most;
}

/* Returns NULL, or what is wrong. */
static const char *read_keys(const json_t *root, sc_tokens_about *out)
{
    const json_t *dtype = json_object_get(root, "dtype");
    const char *name = json_string_value(dtype);
    uint64_t eos = 0;
    if (!json_is_object(root))
        return "it is not a JSON object";
    if (dtype != NULL && name == NULL)
        return "its \"dtype\" is not \"u16\" or \"u32\"";
    if (name != NULL)
        out->width = strcmp(name, "u16") == 0 ? 2 : strcmp(name, "u32") == 0 ? 4 : 0;
    if (name != NULL && out->width == 0)
        return "its \"dtype\" is not \"u16\" or \"u32\"";
    if (!read_count(root, "tokens", INT64_MAX, &out->has_tokens, &out->tokens))
        return "its \"tokens\" is not a number of tokens";
    if (!read_count(root, "eos", UINT32_MAX, &out->has_eos, &eos))
        return "its \"eos\" is not an id";
    out->eos = (uint32_t)eos;
    return NULL;
}

static bool read_file(const char *path, sc_tokens_about *out, char *error, size_t error_size)
{
    json_error_t problem;
    size_t size = 0;
    const char *reason = NULL;
    char *bytes = sc_file_read(path, MOST_BYTES, &size, &reason);
    if (bytes == NULL) {
        snprintf(error, error_size, "%s cannot be read: %s", path, reason);
        return false;
    }
    json_t *root = sc_json_read(bytes, size, JSON_REJECT_DUPLICATES, &problem);
    free(bytes);
    if (root == NULL) {
        snprintf(error, error_size, "%s:%d: %s", path, problem.line, problem.text);
        return false;
    }
    reason = read_keys(root, out);
    json_decref(root);
    if (reason != NULL)
        snprintf(error, error_size, "%s: %s", path, reason);
    return reason == NULL;
}

bool sc_tokens_about_read(const char *path, sc_tokens_about *out, char *error, size_t error_size)
{
    char *full = with_json(path, strlen(path)), *brief = sc_tokens_about_path(path);
    const char *found = is_there(full) ? full : is_there(brief) ? brief : NULL;
    bool ok = full != NULL && brief != NULL;
    *out = (sc_tokens_about){0};
    if (!ok)
        snprintf(error, error_size, "there is not enough memory");
    if (ok && is_there(full) && is_there(brief)) {
        snprintf(error, error_size, "both %s and %s are beside it: remove one", full, brief);
        ok = false;
    }
    if (ok && found != NULL)
        ok = read_file(found, out, error, error_size);
    free(full);
    free(brief);
    return ok;
}
