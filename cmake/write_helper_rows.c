/* write_helper_rows OUT FILES..: writes the sections of files of helpers (program/kernel_helpers.h
 * says what a section is) as rows of the table in codegen/printer/helpers.c: [SC_HELPER_name] =
 * {"name", the set of needs, text}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MARK[] = "/*@ ";

static void fail(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(1);
}

/* `/` + `*@ name: need need *` + `/` begins a row. */
static void begin_row(FILE *out, const char *path, char *line)
{
    char *name = strtok(line + sizeof MARK - 1, ": "), *word;
    if (name == NULL)
        fail(path, "a section without a name");
    fprintf(out, "[SC_HELPER_%s] = {\"%s\", 0", name, name);
    while ((word = strtok(NULL, ": \n")) != NULL && strcmp(word, "*/") != 0)
        fprintf(out, " | SC_HELPER(%s)", word);
    fprintf(out, ",\n");
}

static void write_line(FILE *out, const char *line)
{
    fputs("    \"", out);
    for (const char *c = line; *c != 0 && *c != '\n'; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', out);
        fputc(*c, out);
    }
    fputs("\\n\"\n", out);
}

/* Blank lines are written when a line of the same section follows. */
static void write_file(FILE *out, const char *path)
{
    FILE *in = fopen(path, "r");
    char line[1024];
    int blank = 0, is_inside = 0;
    if (in == NULL)
        fail(path, "cannot be read");
    while (fgets(line, sizeof line, in) != NULL) {
        if (strchr(line, '\n') == NULL)
            fail(path, "a line is too long");
        if (strncmp(line, MARK, sizeof MARK - 1) == 0) {
            fputs(is_inside ? "},\n" : "", out);
            begin_row(out, path, line);
            is_inside = 1;
            blank = 0;
        } else if (is_inside && line[0] == '\n') {
            blank++;
        } else if (is_inside) {
            /* the end of the include guard is no text */
            long here = ftell(in);
            int is_last = fgetc(in) == EOF;
            fseek(in, here, SEEK_SET);
            if (is_last)
                break;
            for (; blank > 0; blank--)
                write_line(out, "");
            write_line(out, line);
        }
    }
    fputs(is_inside ? "},\n" : "", out);
    fclose(in);
}

int main(int argc, char **argv)
{
    FILE *out = argc > 2 ? fopen(argv[1], "w") : NULL;
    if (out == NULL)
        return 1;
    for (int i = 2; i < argc; i++)
        write_file(out, argv[i]);
    return fclose(out) == 0 ? 0 : 1;
}
