#!/bin/sh
# comm_mpi.sh PROGRAM HAS_MODULE SANITIZER MPIEXEC: runs `PROGRAM mpi` on three MPI processes; exits with 77 where there is no MPI.
if [ "$2" != 1 ]; then
    echo "skipped: CMake found no MPI (Debian: libopenmpi-dev openmpi-bin)"
    exit 77
fi
if [ "$3" = thread ]; then
    echo "skipped: the thread sanitizer does not see how the MPI library synchronises"
    exit 77
fi
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}" # the MPI library has some
# Several ranks a core, and as root in a container: Open MPI wants to be told so. Other libraries ignore it.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec timeout 500 "$4" -n 3 "$1" mpi
