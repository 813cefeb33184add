#!/bin/sh
# Plays the example, and writes compare.csv and regression.svg into this folder:
#   sh run.sh          all of it, some seconds
#   sh run.sh small    a part of it
# FEDPACE is the program and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
case ${1:-} in
small) set -- --seeds 1 --set stop.virtual_seconds=4 ;;
*) set -- --seeds 3 ;;
esac
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/regression}
"$fedpace" compare --config regression.yaml --grid schedule.k=fixed,rounds,error --out "$out" "$@"
"$fedpace" report "$out" -o regression.svg
cp "$out/compare.csv" .
