#!/usr/bin/env bash
# github.com/cloudflare/circl 1.6.5: RandomScalar of the group Ristretto255 ignores its reader.
#
# One expects: group.RandomScalar(reader) takes its randomness from the reader, so that equal readers
# give equal scalars, as with P-256, P-384 and P-521.
# It happens: with Ristretto255 twenty equal readers give twenty scalars, and none of the readers is
# read. The randomness is the system's.
# Why it matters: secure aggregation shares secrets as numbers of such a group. Who passes a seeded
# reader, to play a protocol again to the same bits or to test it by vectors, gets other shares each
# time and no error; who derives a secret from a device's own key gets one that cannot be derived again.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'END'
module finding

go 1.25

require github.com/cloudflare/circl v1.6.5
END
cat > main.go <<'END'
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/cloudflare/circl/group"
)

// play returns how many different scalars twenty equal readers give, and whether they were read.
func play(g group.Group) (scalars int, wasRead bool) {
	seen := map[string]bool{}
	for range 20 {
		reader := bytes.NewReader(make([]byte, 1<<16))
		text, err := g.RandomScalar(reader).MarshalBinary()
		if err != nil {
			panic(err)
		}
		seen[string(text)] = true
		wasRead = wasRead || reader.Len() < 1<<16
	}
	return len(seen), wasRead
}

func main() {
	for _, g := range []group.Group{group.P256, group.P384, group.P521, group.Ristretto255} {
		scalars, wasRead := play(g)
		fmt.Printf("%v: %d scalars from 20 equal readers, which were read: %v\n", g, scalars, wasRead)
		ignores := g == group.Ristretto255
		if (scalars == 20) != ignores || wasRead == ignores {
			fmt.Println("this is not what circl 1.6.5 does")
			os.Exit(1)
		}
	}
}
END
GOFLAGS=-mod=mod go run .
