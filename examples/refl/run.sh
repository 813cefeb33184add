#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" refl 8 "${1:-}" --grid 'late=drop,use' --grid 'select=uniform,{rule: least_available, seconds: 1, error: 0.1}'
