"""FILE TOKEN TARGET: a batch of 2 rows of 8 that are all 1 but for the last token and the last target."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "property"))
from tensor_files import write_integers  # noqa: E402

write_integers(pathlib.Path(sys.argv[1]), (2, 8), {"t": 15 * [1] + [int(sys.argv[2])], "y": 15 * [1] + [int(sys.argv[3])]})
