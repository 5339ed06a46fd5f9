#!/bin/sh
# at_level.sh SHARDC LEVEL COMMAND..: runs the command with SHARDC_CPU=LEVEL; exits with 77 where the CPU lacks the instructions.
compiler=$1
SHARDC_CPU=$2
export SHARDC_CPU
shift 2
message=$("$compiler" help usage 2>&1 >/dev/null) && exec "$@"
case $message in
*"this CPU lacks"*) echo "skipped: $message"; exit 77 ;;
esac
echo "$message"
exit 1
