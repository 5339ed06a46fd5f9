#!/usr/bin/env python3
"""layers.py BUILD ROOT: the layers of the source as the linker sees them. From the symbols of the objects in BUILD:

- a file calls only what its folder's library may use, which BUILD/layers.txt has from CMakeLists.txt: a line `FOLDER USED..` a library;
- folders do not call each other in a c(?:ycle|ircle), and files do not either, but for the files that HEADER names, which are the recursion of the
  language itself.
With --print, prints the calls between folders instead."""
import collections
import json
import os
import re
import subprocess
import sys

HEADER = 'frontend/elaborate/internal.h'
RECURSION = re.compile(r'((?:\w+\.c(?:, | and )?)+) call each other in a c(?:ycle|ircle)')


def objects(build, root):
    """The object of each source of a library: sources by their path in ROOT, generated ones by that in BUILD."""
    found = {}
    with open(os.path.join(build, 'compile_commands.json')) as file:
        for command in json.load(file):
            path, output = command['file'], os.path.join(build, re.search(r' -o (\S+)', command['command'])[1])
            base = build if path.startswith(build + os.sep) else root
            if os.path.exists(output):
                found[os.path.relpath(path, base)] = output
    return found


def symbols(path):
    """What an object defines and what it needs."""
    defined, needed = set(), set()
    for line in subprocess.run(['nm', '-P', path], capture_output=True, text=True, check=True).stdout.splitlines():
        name, kind = line.split()[:2]
        if kind == 'U':
            needed.add(name)
        elif kind in 'TDRBCVW':
            defined.add(name)
    return defined, needed


def calls(table):
    """{file: {file: symbols}}"""
    owner, needs = {}, {}
    for source, path in table.items():
        defined, needs[source] = symbols(path)
        owner.update(dict.fromkeys(defined, source))
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, names in needs.items():
        for name in names:
            if owner.get(name, source) != source:
                graph[source][owner[name]].add(name)
    return graph


def circles(graph):
    """Strongly connected parts of more than one node (Tarjan 1972), without recursion."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in list(graph):
        work = [(start, iter(graph.get(start, ())))] if start not in index else []
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            advanced = False
            for other in rest:
                if other not in index:
                    work.append((other, iter(graph.get(other, ()))))
                    advanced = True
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                part = []
                while not part or part[-1] != node:
                    part.append(stack.pop())
                    on_stack.discard(part[-1])
                if len(part) > 1:
                    found.append(sorted(part))
    return found


def libraries(build):
    """{folder: folders that it may use}, with what these may use."""
    uses = {}
    with open(os.path.join(build, 'layers.txt')) as file:
        for line in file:
            folder, *used = line.split()
            uses[folder] = set(used)
    closed = {}

    def close(folder):
        if folder not in closed:
            closed[folder] = set().union(uses[folder], *(close(used) for used in uses[folder]))
        return closed[folder]
    for folder in uses:
        close(folder)
    return closed


def by_folder(graph):
    folders = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, called in graph.items():
        for other, names in called.items():
            if os.path.dirname(source) != os.path.dirname(other):
                folders[os.path.dirname(source)][os.path.dirname(other)].update((source, other, name) for name in names)
    return folders


def recursion(root):
    with open(os.path.join(root, HEADER)) as file:
        text = re.sub(r'\s*\n \*\s*', ' ', file.read())
    found = RECURSION.search(text)
    return {os.path.join(os.path.dirname(HEADER), name) for name in re.findall(r'\w+\.c\b', found[1])} if found else set()


def edges_of(part, graph):
    return ['  %s -> %s: %s' % (a, b, ' '.join(sorted(graph[a][b])[:4])) for a in part for b in sorted(graph[a]) if b in part]


def check(build, root):
    may_use = libraries(build)
    table = {source: path for source, path in objects(build, root).items() if os.path.dirname(source) in may_use}
    missing = set(may_use) - {os.path.dirname(source) for source in table}
    graph = calls(table)
    folders, wrong = by_folder(graph), ['no objects of %s' % folder for folder in sorted(missing)]
    for folder, called in sorted(folders.items()):
        for other in sorted(set(called) - may_use[folder]):
            source, target, name = min(called[other])
            wrong.append('%s may not use %s: %s calls %s of %s' % (folder, other, source, name, target))
    for part in circles(folders):
        wrong.append('folders call each other in a c(?:ycle|ircle): ' + ', '.join(part))
    allowed = recursion(root)
    for part in circles(graph):
        if not set(part) <= allowed:
            wrong.append('\n'.join(['files call each other in a c(?:ycle|ircle): ' + ', '.join(part)] + edges_of(part, graph)))
    return wrong, folders, len(table)


def self_test():
    graph = {'a': {'b': 1}, 'b': {'c': 1, 'd': 1}, 'c': {'a': 1}, 'd': {'e': 1}, 'e': {'e': 1}, 'f': {'g': 1}, 'g': {'f': 1, 'a': 1}}
    return sorted(circles(graph)) == [['a', 'b', 'c'], ['f', 'g']]


def main():
    build, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if not self_test():
        sys.exit('layers.py does not find circles')
    wrong, folders, count = check(build, root)
    if '--print' in sys.argv[3:]:
        for folder, called in sorted(folders.items()):
            print(folder, '->', ' '.join(sorted(called)))
    if wrong:
        sys.exit('\n'.join(wrong))
    print('%d objects in %d folders call each other downwards only' % (count, len(folders)))


if __name__ == '__main__':
    main()
