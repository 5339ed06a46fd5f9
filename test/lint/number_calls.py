#!/usr/bin/env python3
"""number_calls.py ROOT: no source prints or reads a number by itself. The C library's functions do it as the locale says; support/number.h and
support/json.h do not. Forbidden anywhere else: strtod and its like; jansson's texts; formats that others hand in (vsnprintf); floating
conversions in calls of the C library's own printf and scanf; what depends on the locale besides (isalpha, tolower, setlocale)."""
import glob
import os
import re
import sys

FOLDERS = ['support', 'program', 'ir', 'frontend', 'passes', 'codegen', 'runtime', 'tools']
OWN = ['support/number.c', 'support/json.c']
BANNED = [(re.compile(r'\b(strto(?:d|f|ld)|atof|v?[fs]?scanf)\s*\('), 'sc_strtod of support/number.h'),
          (re.compile(r'\b(json_(?:dump|load)\w*)\s*\('), 'support/json.h'),
          (re.compile(r'\b(v(?:sn?|f|as|d)?printf)\s*\('), 'sc_vsnprintf of support/number.h'),
          (re.compile(r'\b((?:new|use|dup|free|set)locale|localeconv|nl_langinfo|strcoll|strxfrm|strftime)\s*\('), 'no locale'),
          (re.compile(r'\b(is(?:alpha|alnum|space|print|punct|upper|lower|graph|cntrl|blank)|to(?:upper|lower)|strn?casecmp)\s*\('),
           'comparisons of characters')]
# sscanf of whole numbers has no decimal point
SCANF = re.compile(r'\bs?scanf\s*\(')
PRINTF = re.compile(r'\b((?:f|sn?|d|as)?printf|s?scanf)\s*\(')
FLOATING = re.compile(r'%[-+ #0\']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:l|L)?[aAeEfFgG]')
TEXTS = re.compile(r'"((?:[^"\\]|\\.)*)"')


def without_comments(text):
    """Comments become blanks; strings stay."""
    pattern = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
    return pattern.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]) if m[0].startswith('/') else m[0], text)


def arguments(text, begin):
    depth, at = 1, begin
    while at < len(text) and depth > 0:
        string = TEXTS.match(text, at)
        at = string.end() if string else at + 1
        depth += 0 if string else {'(': 1, ')': -1}.get(text[at - 1], 0)
    return text[begin:at]


def faults(path, text):
    code = without_comments(text)
    # what stands in texts is no call: emitted C, messages
    bare = TEXTS.sub(lambda m: '"' + ' ' * (len(m[0]) - 2) + '"', code)
    for pattern, instead in BANNED:
        for found in pattern.finditer(bare):
            if not SCANF.match(found[0]) or FLOATING.search(arguments(code, found.end())):
                yield bare.count('\n', 0, found.start()) + 1, '%s: use %s' % (found[1], instead)
    for found in PRINTF.finditer(bare):
        if FLOATING.search('\0'.join(TEXTS.findall(arguments(code, found.end()))).replace('%%', '')):
            yield bare.count('\n', 0, found.start()) + 1, '%s of a floating number: use sc_%s of support/number.h' % (found[1], found[1])


def self_test():
    bad = ['snprintf(a, b, "%.3g", x)', 'fprintf(f, "a"\n "%5.2f", x)', 'x = strtod(a, NULL);', 'sscanf(t, "%lf", &x)', 'printf("%e", x)',
           'vsnprintf(a, b, c, d)', 'json_dumps(root, 0)', 'isalpha(c)']
    good = ['/* strtod(a) */', 'sc_snprintf(a, b, "%.3g", x)', 'snprintf(a, b, "%.*s %5d %%f", x)', 'sscanf(t, "%9u", &x)', 'f("strtod(x)")']
    return [text for text in bad if not list(faults('', text))] + [text for text in good if list(faults('', text))]


def main():
    root, wrong = sys.argv[1], ['the lint itself is wrong about: ' + text for text in self_test()]
    for folder in FOLDERS:
        for path in sorted(found for pattern in ('*.[chlyi]', '*.inc', '*.def')
                           for found in glob.glob(os.path.join(root, folder, '**', pattern), recursive=True)):
            name = os.path.relpath(path, root)
            if name not in OWN:
                wrong += ['%s:%d: %s' % (name, line, what) for line, what in faults(name, open(path).read())]
    if wrong:
        sys.exit('\n'.join(wrong))


if __name__ == '__main__':
    main()
