package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Seal sets the stamp, which depends on all that decides plans and sums: equal
// stamps, equal plans and sums.
func (r *RunInfo) Seal() error {
	w := proto.CloneOf(r)
	w.Run, w.Version, w.Stamp = "", "", 0
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(w)
	if err != nil {
		return fmt.Errorf("bus: encode RunInfo: %w", err)
	}
	sum := sha256.Sum256(b)
	r.Stamp = max(binary.LittleEndian.Uint64(sum[:]), 1) // 0 says that there is none
	return nil
}
