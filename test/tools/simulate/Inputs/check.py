"""check.py JSON TRACE: what `simulate` prints and writes agrees with itself. The end of a stage is what its first stream computes and waits;
nothing is hidden that was not there; slices of a track come one after the other; waits in the trace are what is exposed."""

import collections
import json
import sys


def near(a, b, whole):
    return abs(a - b) <= 1e-9 * whole


answer = json.load(open(sys.argv[1]))
events = [e for e in json.load(open(sys.argv[2]))["traceEvents"] if e["ph"] == "X"]
whole = answer["seconds"]
assert whole == max(s["end"] for s in answer["stages"]) > 0
for number, stage in enumerate(answer["stages"]):
    beside = [r for r in stage["rows"] if r["kind"] in ("collectives", "host copies", "messages")]
    computed = [r for r in stage["rows"] if r not in beside]
    assert near(sum(r["seconds"] for r in computed), stage["busy"], whole), number
    waits = sum(r["exposed"] for r in beside)
    assert near(stage["busy"] + waits, stage["end"], whole), number
    assert near(sum(r["exposed"] for r in beside if r["kind"] == "messages"), stage["waiting"], whole), number
    own = [e for e in events if e["pid"] == number]
    assert near(1e-6 * sum(e["dur"] for e in own if e["cat"] == "wait"), waits, whole), number
    assert near(1e-6 * max(e["ts"] + e["dur"] for e in own if e["cat"] != "wait" or e["dur"] > 0), stage["end"], whole) or number != len(answer["stages"]) - 1
tracks = collections.defaultdict(list)
for e in events:
    tracks[e["pid"], e["tid"]].append((e["ts"], e["dur"]))
for slices in tracks.values():
    for (start, length), (following, _) in zip(slices, slices[1:]):
        assert following >= start + length - 1e-6 * 1e6 * whole * 1e-9
print("%d stages, %d tracks, %d slices" % (len(answer["stages"]), len(tracks), len(events)))
