package real

import (
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
