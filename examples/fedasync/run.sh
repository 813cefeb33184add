#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" fedasync 4 "${1:-}" --grid 'aggregate={algorithm: fedasync, staleness: constant},{algorithm: fedasync, staleness: polynomial},{algorithm: fedasync, staleness: hinge}' --grid cohort=4,20
