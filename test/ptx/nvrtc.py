"""Where NVRTC is: the names and folders that codegen/toolchain/nvrtc.c takes, then the wheel of PyPI, which is installed there or in a folder.
    nvrtc.py --install FOLDER
gets the wheel where there is no NVRTC; a machine that cannot have it keeps tests that are skipped."""

import ctypes
import os
import site
import subprocess
import sys

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
WHEEL, PLACES = "nvidia-cuda-nvrtc", ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")


def loads(path):
    try:
        ctypes.CDLL(path)
        return True
    except OSError:
        return False


def find(folder):
    """What $SHARDC_NVRTC must be: '' where it need not be set; None: there is no NVRTC."""
    given = os.environ.get("SHARDC_NVRTC")
    if given:
        return given if loads(given) else None
    homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] + ["/usr/local/cuda"]
    if any(map(loads, [*NAMES, *(os.path.join(home, lib, name) for name in NAMES for home in homes for lib in ("lib64", "lib"))])):
        return ""
    return of_wheel([folder, *site.getsitepackages(), site.getusersitepackages()])


def of_wheel(folders):
    return next(filter(loads, (os.path.join(f, place, name) for f in folders for place in PLACES for name in NAMES)), None)


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--install":
        sys.exit(__doc__)
    if find(sys.argv[2]) is None:
        print("installing " + WHEEL, flush=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", sys.argv[2], WHEEL], check=False)


if __name__ == "__main__":
    main()
