package real

import (
	"encoding/binary"
	"errors"
	"testing"

	"fedpace/bus"
)

// A device whose owner insists on secure aggregation takes part in no run without it, or with sums of
// fewer updates; another takes part in any.
func TestCheckSecure_Terms(t *testing.T) {
	for _, c := range []struct {
		name    string
		want    int
		terms   *bus.SecureTerms
		refused bool
	}{
		{"any run", 0, nil, false},
		{"without masks", 3, nil, true},
		{"too few", 10, &bus.SecureTerms{Minimum: 9}, true},
		{"enough", 10, &bus.SecureTerms{Minimum: 10}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Open(Config{ID: "d", Data: SyntheticData, Survivors: c.want})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			err = d.Prepare(t.Context(), "run", &bus.Welcome{Spec: &bus.Spec{Model: "no model"}, Secure: c.terms, Task: "logistic", Clients: 1})
			if got := errors.Is(err, ErrNotSecure); got != c.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

// What is no group, or would let an update weigh more than the run allows, is refused.
func TestReadGroup_Refuses(t *testing.T) {
	group := func(round uint32, factor uint64) []byte {
		b := binary.LittleEndian.AppendUint32(nil, round)
		return binary.LittleEndian.AppendUint64(b, factor)
	}
	for _, c := range []struct {
		name    string
		payload []byte
		refused bool
	}{
		{"the largest factor", group(7, 1024), false},
		{"a small factor", group(7, 1), false},
		{"too large", group(7, 1025), true},
		{"no weight", group(7, 0), true},
		{"no round", group(0, 1024), true},
		{"too short", group(7, 1024)[1:], true},
		{"nothing", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readGroup(c.payload, 1024); (err != nil) != c.refused {
				t.Errorf("%v", err)
			}
		})
	}
}
