#!/bin/sh
# Plays the example, and writes compare.csv and fedcompass.svg into this folder:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
# FEDPACE is the program and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
case ${1:-} in
small) set -- --seeds 1 --set stop.virtual_seconds=20 ;;
*) set -- --seeds 3 ;;
esac
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/fedcompass}
"$fedpace" compare --config fedcompass.yaml --grid 'select=uniform,{rule: fit, least: 10}' --schedules fixed,rounds --out "$out/together" --figure fedcompass.svg "$@"
"$fedpace" compare --config fedcompass.yaml --grid select=uniform --set select=uniform --set 'close={rule: buffered, n: 5}' --set aggregate.algorithm=fedbuff --schedules fixed,rounds --out "$out/buffered" "$@"
cat "$out/together/compare.csv" > compare.csv
sed '1d; s/^uniform,/"uniform, buffered",/' "$out/buffered/compare.csv" >> compare.csv
