#!/bin/sh
# Plays the example, and writes language.csv and language.svg into this folder:
#   DATA=1994-01-100.zip sh run.sh          all of it, on Shakespeare's text
#   sh run.sh small                         a part of it, on made text
# FEDPACE is the program, PYTHON one with PyTorch, LINKS the speeds in Mbit/s, and OUT the folder of
# the runs. WIDTH=256 LAYERS=8 is a GPT of six million parameters, WIDTH=512 one of 25 million.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/language}
case ${1:-} in
small) set -- --set schedule.k0=2 --set batch=1 --set stop.virtual_seconds=1 --set evaluate.samples=8 ;;
*) set -- ;;
esac
grid=
for mbps in ${LINKS:-10 100 1000 10000}; do
	grid="$grid${grid:+,}{model_megabits: exact, download_mbps: $mbps, upload_mbps: $mbps}"
done
"$fedpace" compare --config language.yaml --trainer "${PYTHON:-python3} gpt.py" --set data="${DATA:-synthetic}" \
	--schedules 'fixed,dsgd,h10=10,rounds,error,cosine={eta: {rule: cosine, to: 0.0003, seconds: 40}},rising={k: {rule: quadratic, alpha: 0.01, max: 150}, eta: {rule: cosine, to: 0.0003, seconds: 40}}' \
	--grid "network=$grid" --seeds "${SEEDS:-1}" --out "$out" --figure language.svg "$@"
cp "$out/compare.csv" language.csv
