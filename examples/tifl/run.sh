#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" tifl 60 "${1:-}" --grid 'select=uniform,{rule: tifl, tiers: 5, interval: 20}'
