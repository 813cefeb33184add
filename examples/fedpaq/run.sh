#!/bin/sh
# Plays the example by ../compare.sh:
#   sh run.sh          all of it
#   sh run.sh small    a part of it, some seconds
exec sh "$(dirname "$0")/../compare.sh" fedpaq 10 "${1:-}" --grid 'compress=null,{method: qsgd, levels: 10},{method: qsgd, levels: 5},{method: qsgd, levels: 1}'
