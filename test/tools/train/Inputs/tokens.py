"""tokens.py FILE COUNT [FIRST]: a file of COUNT bytes that a model can learn something of."""

import sys

first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
open(sys.argv[1], "wb").write(bytes((i * i * 7 + i // 5) % 61 + 32 for i in range(first, first + int(sys.argv[2]))))
