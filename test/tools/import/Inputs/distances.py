"""distances.py SHARDC FOLDER: the term of every distance of T5 is the published one.

BORDERS are the first distances of the terms that longer distances share, as transformers 5.24 gives them (`_relative_position_bucket`)."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "property"))
from tensor_files import write_integers  # noqa: E402

S = 300
BORDERS = {
    (16, 128): [8, 12, 16, 23, 32, 46, 64, 91],
    (32, 128): [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113],
    (4, 8): [2, 4],
    (8, 8): [4, 5, 6, 7],
    (64, 256): [32, 35, 37, 39, 42, 45, 48, 51, 54, 58, 62, 66, 70, 75, 80, 85, 91, 97, 104, 110, 118, 126, 134, 143, 153, 163, 174, 185, 198, 211, 225, 240],
}


def main():
    folder, wrong = pathlib.Path(sys.argv[2]), 0
    for (count, far), borders in BORDERS.items():
        half = count // 2
        want = [n if n < half else half - 1 + sum(n >= border for border in borders) for n in range(S)]
        write_integers(folder / "want.safetensors", (S,), {"want": want})
        (folder / "m.shard").write_text(f"""lang 1;
import "shardc/t5.shard";
model m {{
  entry wrong(want: i32[S]) -> [] {{
    return sum[S](ne(term(positions[S](), count = {count}, far = {far}), want));
  }}
}}
plan alone for m {{}}
""")
        for how in ([], ["--interpret"]):
            command = [sys.argv[1], "eval", str(folder / "m.shard"), "--plan", "alone", "--entry", "wrong", "--bind", f"S={S}"]
            done = subprocess.run(command + ["--input", f"want={folder}/want.safetensors:want", *how], capture_output=True, text=True)
            print(count, far, *how, done.stdout.strip(), done.stderr.strip())
            wrong += done.stdout.split() != ["loss", "0"]
    sys.exit(1 if wrong else 0)


main()
