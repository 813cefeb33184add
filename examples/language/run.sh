#!/bin/sh
# Plays the example, and writes its tables and figures into this folder:
#   DATA=1994-01-100.zip SEEDS=3 sh run.sh     four links, on Shakespeare's text, to language.csv and language.svg
#   DATA=1994-01-100.zip SEEDS=3 sh run.sh mixed       two workers at each of four speeds, the slow one at 10 Gbit/s, to mixed.csv
#   DATA=1994-01-100.zip SEEDS=3 sh run.sh adapters    a base that half of the roles train, and adapters for the others
#   sh run.sh results                          prints the page's tables of what was played, and draws curves.svg
#   sh run.sh small                            a part of it, on made text
# What follows goes to compare, as --controls. The same command goes on with what was begun. FEDPACE is
# the program, PYTHON one with PyTorch, LINKS the speeds in Mbit/s, and OUT the folder of the runs.
# WIDTH and LAYERS are the model's: 512 and 8 make a GPT of 25 million parameters.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
out=${OUT:-../../runs/examples/language}
python=${PYTHON:-python3}
data=${DATA:-synthetic}
schedules='fixed,dsgd,h4=4,h8=8,rounds,error,cosine={eta: {rule: cosine, to: 0.0002, seconds: 40}},rising={k: {rule: quadratic, alpha: 0.004, max: 32}, eta: {rule: cosine, to: 0.0002, seconds: 40}}'

compare() {
	"$fedpace" compare --config language.yaml --trainer "$python gpt.py" --set data="$data" --schedules "$schedules" --seeds "${SEEDS:-1}" "$@"
}

adapters() { # NAME AVAILABLE-CLASSES SET...: a run of one half of the roles; one that is complete stays
	name=$1 fleet=$2
	shift 2
	grep -qs '"completed": true' "$out-adapters/$name-$seed/summary.json" || "$fedpace" run --force --config adapters.yaml --trainer "$python gpt.py" \
		--set data="$data" --set "seed=$seed" --set "fleet=$fleet" --out "$out-adapters/$name-$seed" "$@"
}

part=${1:-}
case $part in mixed | adapters | results | small) shift ;; esac
case $part in
small)
	export WIDTH=32 LAYERS=1
	set -- --set schedule.k0=2 --set batch=1 --set stop.virtual_seconds=1 --set evaluate.every_seconds=0.1 --set evaluate.samples=8 "$@"
	;;
mixed)
	fleet="{name: slow, count: 1, seconds_per_step: 0.2, download_mbps: 10000, upload_mbps: 10000}, {name: m10000, count: 1, seconds_per_step: 0.1, download_mbps: 10000, upload_mbps: 10000}"
	for mbps in 10 100 1000; do
		fleet="$fleet, {name: m$mbps, count: 2, seconds_per_step: 0.1, download_mbps: $mbps, upload_mbps: $mbps}"
	done
	compare --set "network={model_megabits: exact}" --set "fleet=[$fleet]" --out "$out-mixed" "$@"
	cp "$out-mixed/compare.csv" mixed.csv
	exit ;;
adapters)
	never='availability: {model: bernoulli, period_seconds: 1000000, probability: 0.000001}'
	rest="[{name: first, count: 8, $never}, {name: rest, count: 8}]"
	for seed in $(seq "${SEEDS:-1}"); do
		adapters base "[{name: first, count: 8}, {name: rest, count: 8, $never}]" "$@"
		BASE="$out-adapters/base-$seed" adapters lora "$rest" --set stop.virtual_seconds=20 "$@"
		adapters all "$rest" --set stop.virtual_seconds=20 --set init="$out-adapters/base-$seed/model.safetensors" "$@"
	done
	exit ;;
results)
	set --
	for dir in "$out" "$out-mixed" "$out-adapters"; do
		if [ -d "$dir" ]; then set -- "$@" "$dir"; fi
	done
	PYTHONPATH=../../python $python results.py curves.svg "$@"
	exit ;;
esac
grid=
for mbps in ${LINKS:-10 100 1000 10000}; do
	grid="$grid${grid:+,}{model_megabits: exact, download_mbps: $mbps, upload_mbps: $mbps}"
done
compare --grid "network=$grid" --out "$out" --figure language.svg "$@"
cp "$out/compare.csv" language.csv
