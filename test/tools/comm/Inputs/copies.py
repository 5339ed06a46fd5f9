"""copies.py FILE INSTANCES MICRO: the copies that `comm --format json` lists, of that many instances and micro-batches."""
import json
import sys

report = json.load(open(sys.argv[1]))
instances, micro = int(sys.argv[2]), int(sys.argv[3])
rows = report['copies']
assert rows and all(row['sent'] == 0 and row['axes'] == [] and row['group'] == 1 for row in rows), rows
assert not any(row['op'] in ('to_host', 'to_device') for row in report['collectives'] + report['totals'])
for kind, reason in (('opt', 'offload opt'), ('act', 'offload act'), ('param', 'offload param')):
    of_kind = [row for row in rows if row['why']['text'].startswith(reason)]
    if report['plan'] == 'params' and kind != 'param':
        assert of_kind == [], of_kind
        continue
    for op in ('to_host', 'to_device'):
        listed = [row for row in of_kind if row['op'] == op]
        layers = {row['layer'] for row in listed}
        # what the last instance saves is read before it is copied
        assert layers == set(range(instances)) or (kind == 'act' and layers == set(range(instances - 1))), (kind, op, layers)
        passes = {'opt': 1, 'act': 1, 'param': 1 if op == 'to_host' else len({row['phase'] for row in listed})}[kind]
        assert len(listed) == passes * len(layers), (kind, op, listed)
        for row in listed:
            times = 1 if row['phase'] == 'update' else micro
            assert row['count'] == times and row['scope'] == 'layers' and row['bytes'] > 0, row
for total in report['copied']:
    same = [row for row in rows if (row['op'], row['phase']) == (total['op'], total['phase'])]
    assert total['count'] == sum(row['count'] for row in same), total
    assert total['bytes'] == sum(row['count'] * row['bytes'] for row in same), total
assert len({(t['op'], t['phase']) for t in report['copied']}) == len(report['copied'])
