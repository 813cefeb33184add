#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" flanp 20 "${1:-}" --grid 'select=uniform,{rule: flanp, begin: 4}'
