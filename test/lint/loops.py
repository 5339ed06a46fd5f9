#!/usr/bin/env python3
"""loops.py ROOT: the header of a loop only iterates. Its condition names no flag of failure (`ok`, `status`, `error`..: the body breaks), and
nothing that the loop does not change (a guard, which goes before the loop). A search that stops at what it finds iterates:
`i < n && !found`, `at > 0 && order[at - 1] > x`; so does a limit: `i < n && count < MOST`.

What the body changes is read from its text: a name or field that it assigns, and what it passes to a call as a pointer that is not const. A
call in a condition is a guard if its arguments are values and const pointers that the body leaves alone. Loops that wait for another thread
are left out."""
import os
import re
import subprocess
import sys

FAILURES = 'status|error|errors|reason|wrong|problem|fault|why'
FLAG = re.compile(r'^!?(?:[\w.>-]*\b)?(?:ok|fine|good|failed|has_failed|gave_up|stopped|broken)$|^!?[\w.>-]+(?:->|\.)(?:equal|holds)$'
                  r'|\b(?:\w+_)?(?:%s)\b(?! ?\()' % FAILURES)
WAITS = re.compile(r'\bpthread_cond_(?:timed)?wait\b|\bsleep_for\b')
SKIPPED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
NAME = re.compile(r'[A-Za-z_]\w*')
PATH = re.compile(r'(?<![\w.>])([A-Za-z_]\w*)((?:(?:\.|->)\w+|\[(?:[^\[\]]|\[[^\]]*\])*\])*)(\s*\()?')
CONSTANT = re.compile(r'^(?:SC_\w+|SHARDC_\w+|[A-Z][A-Z0-9_]*|sizeof|u?int\d*_t|size_t|double|true|false)$')
ASSIGNED = r'\s*(?:=(?!=)|[-+*/|&^]=|<<=|>>=|\+\+|--)'
INDEX = r'(?:\[[^\]]*\])*'
FOLDERS = ('support', 'program', 'ir', 'passes', 'frontend', 'codegen', 'runtime', 'tools')
ALLOWED = {
    ('codegen/printer/array_helpers.h', 'c % (64 / (int64_t)sizeof *x) == 0'): 'text of emitted programs',
}

PLANTED = """
void f(const sc_op *op, list *l, walk *w, const char **out_error, bool is_new, int kind) {
    for (int i = 0; ok && i < n; i++) // ok
        x();
    for (int i = 0; op != NULL && i < op->count; i++) { x(); } // op != NULL
    for (int i = 0; i < n && is_new; i++) // is_new
        x();
    for (int i = 0; op->kind == SC_OP_add && i < l->count; i++) // op->kind == SC_OP_add
        l->data[i].uses++, x(op);
    for (int i = 0; l->kind == SC_OP_add && i < l->count; i++) // l->kind == SC_OP_add
        x(&l->data[i]);
    for (int i = 0; i < n && reads(op, kind); i++) // reads(op, kind)
        x(op);
    for (int i = 0; i < n && *out_error == NULL; i++) // *out_error == NULL
        *out_error = x();
    for (int i = 0; i < n && l->result->equal; i++) // l->result->equal
        x(l);
    while (ok && next(w)) // ok
        ok = x();
    while (status == SHARDC_OK) // status == SHARDC_OK
        status = x();
    while (l->count > 0 && next(w)) // l->count > 0
        x(w);
    do {
        status = x();
    } while (status == SHARDC_OK && next(w)); // status == SHARDC_OK
    for (; at > 0 && a[at] > b; at--)
        x();
    for (int i = 0; i < n && !found; i++)
        found = a[i] == b;
    for (int i = 0; i < n && l->count < SC_MOST; i++)
        add(l, i);
    for (int i = 0; i < n && w->found == SC_NONE; i++)
        w->found = x();
    for (int i = 0; i < n && accept(w); i++)
        x();
    do
        got = x();
    while (got < 0 && errno == EINTR);
    while (!w->has_failed && !w->is_done)
        pthread_cond_wait(&w->changed, &w->lock);
    while (next(w))
        x();
}
"""


def end_of_bracket(text, at):
    depth = 0
    for at in range(at, len(text)):
        depth += (text[at] in '({[') - (text[at] in ')}]')
        if depth == 0:
            return at
    return at


def begin_of_block(text, at):
    depth = 0
    for at in range(at, -1, -1):
        depth += (text[at] in ')}]') - (text[at] in '({[')
        if depth == 0:
            return at
    return at


def end_of_statement(text, at):
    """Far enough: of an unbraced statement, the first `;` or `}` at its level."""
    while at < len(text) and text[at] != ';':
        if text[at] in '({[':
            is_block = text[at] == '{'
            at = end_of_bracket(text, at)
            if is_block:
                return at
        at += 1
    return at


def split(text, separator):
    parts, depth, begin = [], 0, 0
    for at in range(len(text)):
        depth += (text[at] in '({[') - (text[at] in ')}]')
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[begin:at].strip())
            begin = at + len(separator)
    return parts + [text[begin:].strip()]


def declaration(name, before):
    """'const' or 'pointer' for a pointer, 'value'; None if the function's text so far does not declare the name."""
    function = before[before.rfind('\n}') + 1:]
    found = list(re.finditer(r'((?:const )?(?:struct )?\b[A-Za-z_]\w* (?:\w+ )*)((?:[^;(){}]*?, ?)?)(\**)%s\b(?=[\s,;=)\[])' % name, function))
    found = [f for f in found if not f[1].startswith(('return ', 'else ', 'sizeof '))]
    if not found:
        return None
    is_const = found[-1][1].startswith('const ')
    return 'value' if not found[-1][3] else 'const' if is_const else 'pointer'


def is_changed(base, rest, is_pointer, body, before):
    """Whether the body may change the variable `base`, or what it points to, or what the fields and indices `rest` select in it."""
    name = r'(?<![\w.>])' + base
    if re.search(name + INDEX + ASSIGNED + r'|(?:\+\+|--)' + name + r'\b|&' + name + r'\b(?![\w.\[]|->)', body):
        return True
    fields = re.findall(r'(?:\.|->)(\w+)', rest)
    for field in fields:
        path = r'[\w\])](?:\.|->)' + field
        if re.search(path + r'\b' + INDEX + ASSIGNED + r'|(?:\+\+|--|&)(?:\w|\.|->|\[[^\[\]]*\])*' + path + r'\b', body):
            return True
    if not is_pointer and '->' not in rest and '[' not in rest:
        return False
    is_passed = re.search(r'[(,]\s*' + name + r'\s*[,)]|\*' + name + r'\)?' + ASSIGNED, body) is not None
    return is_passed and declaration(base, before) != 'const'


def is_fixed(conjunct, body, before):
    """Whether nothing in it changes while the loop runs, as far as the text shows."""
    names = [found.groups() for found in PATH.finditer(conjunct)]
    for _, rest, _ in names[:]:
        names += [found.groups() for index in re.findall(r'\[(.*?)\]', rest) for found in PATH.finditer(index)]
    variables = [(base, rest) for base, rest, call in names if not call and not CONSTANT.match(base)]
    calls = [rest for base, rest, call in names if call and not CONSTANT.match(base)]
    if not variables or 'errno' in conjunct or any(calls): # a call through a field
        return False
    for base, rest in variables:
        is_pointer = re.search(r'(?:^|[(!] ?|[&|=<>] )\*' + base + r'\b', conjunct) is not None
        if is_changed(base, rest, is_pointer, body, before):
            return False
        if calls and (declaration(base, before) not in ('const', 'value') or rest == '' and '&' + base in conjunct):
            return False
    return True


def faults_of(conjuncts, own, body, before):
    for conjunct in conjuncts:
        if own & set(NAME.findall(conjunct)) or re.search(r'\+\+|--| = ', conjunct):
            continue
        others = ' '.join('(%s);' % other for other in conjuncts if other != conjunct)
        if WAITS.search(body + others):
            continue
        if FLAG.search(conjunct) or len(conjuncts) > 1 and is_fixed(conjunct, body + others, before):
            yield conjunct


def loops(text):
    """(begin, conjuncts of the condition, the loop's own variables, text that runs in each turn)"""
    for found in re.finditer(r'\b(for|while) \(', text):
        end = end_of_bracket(text, found.end() - 1)
        header = re.sub(r'\s+', ' ', text[found.end():end])
        if found[1] == 'for':
            parts = split(header, ';')
            if len(parts) == 3:
                own = set(NAME.findall(parts[2])) | set(re.findall(r'(\w+) =(?!=)', parts[0]))
                conjuncts = [c for c in split(parts[1], '&&') if c]
                yield found.start(), conjuncts if len(conjuncts) > 1 else [], own, text[end:end_of_statement(text, end + 1)]
        elif re.search(r'\bdo\s[^;]*;\s*$|\}\s*$', text[:found.start()]) and re.match(r'\s*;', text[end + 1:]):
            last = text[:found.start()].rstrip()
            begin = begin_of_block(text, len(last) - 1) if last.endswith('}') else [d.start() for d in re.finditer(r'\bdo\s', last)][-1]
            yield found.start(), split(header, '&&'), set(), text[begin:len(last)]
        else:
            yield found.start(), split(header, '&&'), set(), text[end:end_of_statement(text, end + 1)]


def faults(text):
    """[(line, conjunct)]"""
    text = SKIPPED.sub(lambda found: re.sub(r'[^\n]', '0', found[0]), text)
    for begin, conjuncts, own, body in loops(text):
        for conjunct in faults_of(conjuncts, own, body, text[:begin]):
            yield text.count('\n', 0, begin) + 1, conjunct


def main():
    root = sys.argv[1]
    found = [(line, conjunct) for line, conjunct in faults(PLANTED)]
    wanted = [(n, line.rsplit('// ', 1)[1]) for n, line in enumerate(PLANTED.split('\n'), 1) if '// ' in line]
    assert found == wanted, (found, wanted)
    names = subprocess.run(['git', '-C', root, 'ls-files', '*.c', '*.h', '*.inc'], capture_output=True, text=True, check=True).stdout.splitlines()
    wrong, count = [], 0
    for name in names:
        if name.startswith(tuple(folder + '/' for folder in FOLDERS)) and os.path.exists(os.path.join(root, name)):
            count += 1
            with open(os.path.join(root, name)) as file:
                wrong += ['%s:%d: `%s` does not iterate' % (name, line, conjunct) for line, conjunct in faults(file.read())
                          if (name, conjunct) not in ALLOWED]
    if wrong:
        sys.exit('\n'.join(wrong))
    print('%d files' % count)


if __name__ == '__main__':
    main()
