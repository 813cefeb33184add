#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" fedbuff 8 "${1:-}" --grid 'close=all,{rule: buffered, n: 5},{rule: buffered, n: 1}'
