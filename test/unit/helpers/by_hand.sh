#!/bin/bash
# by_hand.sh RANKS COMMAND..: starts the command as every rank of a world on this machine, as a user would by hand; fails when one does.
# A port that somebody else has is given up for another one.
ranks=$1
shift
for try in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 10000))
    output=$(
        pids=()
        for ((r = 0; r < ranks; r++)); do
            RANK=$r WORLD_SIZE=$ranks MASTER_PORT=$port "$@" 2>&1 &
            pids+=($!)
        done
        failures=0
        for pid in "${pids[@]}"; do wait "$pid" || failures=1; done
        exit $failures
    )
    result=$?
    [[ $output == *"cannot listen on"* ]] || break
done
printf '%s\n' "$output"
exit $result
