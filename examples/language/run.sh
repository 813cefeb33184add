#!/bin/sh
# Plays the example, and writes language.csv and language.svg into this folder:
#   DATA=1994-01-100.zip SEEDS=3 sh run.sh     all links, on Shakespeare's text; what follows goes to compare, as --controls
#   DATA=1994-01-100.zip sh run.sh mixed       two workers at each of four speeds, to mixed.csv
#   DATA=1994-01-100.zip sh run.sh adapters    a base that half of the roles train, and adapters for the others
#   sh run.sh small                            a part of it, on made text
# A run of 350 steps takes some 30 s of a core: the first 16 minutes for each seed, the second four, the
# third two. FEDPACE is the program, PYTHON one with PyTorch, LINKS the speeds in Mbit/s, MEGABITS how
# large a transfer is (exact: as the model), and OUT the folder of the runs. WIDTH=256 LAYERS=8 is a
# GPT of six million parameters, WIDTH=512 one of 25 million.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/language}
size="model_megabits: ${MEGABITS:-32}"
trainer="${PYTHON:-python3} gpt.py"
data=${DATA:-synthetic}
seed=${SEED:-1}
schedules='fixed,dsgd,h10=10,h25=25,rounds,error,cosine={eta: {rule: cosine, to: 0.0003, seconds: 40}},rising={k: {rule: quadratic, alpha: 0.01, max: 150}, eta: {rule: cosine, to: 0.0003, seconds: 40}}'

compare() {
	"$fedpace" compare --config language.yaml --trainer "$trainer" --set data="$data" --schedules "$schedules" --seeds "${SEEDS:-1}" "$@"
}

adapters() { # NAME AVAILABLE-CLASSES SET...: a run of one half of the roles
	name=$1 fleet=$2
	shift 2
	"$fedpace" run --config adapters.yaml --trainer "$trainer" --set data="$data" --set seed="$seed" --set "fleet=$fleet" --out "$out/$name-$seed" "$@"
}

case ${1:-} in
small)
	size='model_megabits: exact'
	set -- --set schedule.k0=2 --set batch=1 --set stop.virtual_seconds=1 --set evaluate.samples=8
	;;
mixed)
	fleet="{name: slow, count: 1, seconds_per_step: 0.1, download_mbps: 10, upload_mbps: 10}, {name: m10, count: 1, seconds_per_step: 0.05, download_mbps: 10, upload_mbps: 10}"
	for mbps in 100 1000 10000; do
		fleet="$fleet, {name: m$mbps, count: 2, seconds_per_step: 0.05, download_mbps: $mbps, upload_mbps: $mbps}"
	done
	compare --set "network={$size}" --set "fleet=[$fleet]" --out "$out-mixed"
	cp "$out-mixed/compare.csv" mixed.csv
	exit ;;
adapters)
	never='availability: {model: bernoulli, period_seconds: 1000000, probability: 0.000001}'
	rest="[{name: first, count: 8, $never}, {name: rest, count: 8}]"
	adapters base "[{name: first, count: 8}, {name: rest, count: 8, $never}]"
	BASE="$out/base-$seed" adapters lora "$rest" --set stop.virtual_seconds=20
	adapters all "$rest" --set stop.virtual_seconds=20 --set init="$out/base-$seed/model.safetensors"
	exit ;;
esac
grid=
for mbps in ${LINKS:-10 100 1000 10000}; do
	grid="$grid${grid:+,}{$size, download_mbps: $mbps, upload_mbps: $mbps}"
done
compare --grid "network=$grid" --out "$out" --figure language.svg "$@"
cp "$out/compare.csv" language.csv
