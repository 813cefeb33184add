#!/bin/sh
# Plays the four examples in a simulation:
#   sh run.sh          all of it, some minutes on two cores
#   sh run.sh small    a part of it, some seconds
# FEDPACE is the program, PYTHON one with PyTorch, and OUT the folder of the runs.
set -eu
cd "$(dirname "$0")"
fedpace=${FEDPACE:-../../fedpace}
python=${PYTHON:-python3}
out=${OUT:-../../runs/examples/python}
case ${1:-} in
small) set -- --set schedule.k0=2 --set cohort=2 --set batch=4 --set stop.rounds=2 --set evaluate.samples=20 ;;
*) set -- --set stop.rounds=40 --set evaluate.samples=1000 ;;
esac
play() {
	name=$1
	shift
	"$fedpace" run --trainer "$python $name.py" --out "$out/$name" --force "$@"
}
play femnist --set task=femnist --set clients=60 --set cohort=10 --set schedule.k0=20 "$@"
play batchnorm --set task=femnist --set clients=60 --set cohort=10 --set schedule.k0=10 --set schedule.eta0=0.1 "$@"
play transformer --set task=shakespeare --set clients=60 --set cohort=5 --set schedule.k0=5 --set schedule.eta0=0.3 "$@"
play regression --set data=trainer --set clients=all --set cohort=6 --set batch=16 --set schedule.k0=20 --set schedule.eta0=0.1 "$@"
