#!/bin/sh
# signatures.sh CC SOURCE_DIR LIBRARY HEADER: compiles test/cuda/signatures.c for a library against its real header; exits with 77 where there
# is none.
cc=$1 source_dir=$2 library=$3 header=$4
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" "${CUDA_PATH:-/usr/local/cuda}/include" /usr/local/cuda/include /usr/include; do
    if [ -e "$folder/$header" ]; then
        found=$folder
        break
    fi
done
if [ -z "${found:-}" ]; then
    echo "skipped: no $header in \$CUDA_HOME/include, \$CUDA_PATH/include, /usr/local/cuda/include, /usr/include"
    exit 77
fi
for part in SIGNATURES NUMBERS; do
    "$cc" -std=gnu11 -fsyntax-only -Werror -I"$source_dir" -I"$source_dir/include" -isystem "$found" -DWITH_"$library" -D$part \
        "$source_dir/test/cuda/signatures.c" || exit 1
done
echo "$library agrees with $found/$header"
