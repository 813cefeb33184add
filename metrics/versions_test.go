package metrics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Devices are counted by version, the most frequent first; what devices make up stays small.
func TestByVersion(t *testing.T) {
	got := ByVersion([]Device{{Name: "a", Version: "v2"}, {Name: "b", Version: "v1"}, {Name: "c"}, {Name: "d", Version: "v1"}})
	want := []DeviceVersion{{"v1", 2, []string{"b", "d"}}, {"v2", 1, []string{"a"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ByVersion([]Device{{Name: "a"}}); got != nil {
		t.Errorf("devices that told nothing: %v", got)
	}
	var devices []Device
	for i := range 400 {
		devices = append(devices, Device{Name: fmt.Sprint("d", i), Version: fmt.Sprint("v", i/10)})
	}
	many := ByVersion(devices)
	if len(many) != maxVersions || many[0].Devices != 10 || len(many[0].Names) != maxVersionNames {
		t.Errorf("%d versions, the first %+v", len(many), many[0])
	}
}
