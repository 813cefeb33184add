#!/bin/sh
# Plays the example, and writes compare.csv and layers.svg into this folder:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
# FEDPACE is the program and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
case ${1:-} in
small) set -- --seeds 1 --set stop.rounds=2 --set clients=20 --set schedule.k0=2 ;;
*) set -- --seeds 1 ;;
esac
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/layers}
net='[conv: {maps: 8, size: 5, stride: 2}, norm: 4, relu, flatten, dense]'
"$fedpace" compare --config layers.yaml --grid "model=task,$net" --schedules fixed,rounds --out "$out" --figure layers.svg "$@"
cp "$out/compare.csv" .
