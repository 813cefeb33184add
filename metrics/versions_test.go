package metrics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Devices are counted by version, the most frequent first; what devices make up stays small.
func TestByVersion(t *testing.T) {
	got := ByVersion([]string{"a", "b", "c", "d"}, []string{"v2", "v1", "", "v1"})
	want := []DeviceVersion{{"v1", 2, []string{"b", "d"}}, {"v2", 1, []string{"a"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ByVersion([]string{"a"}, []string{""}); got != nil {
		t.Errorf("devices that told nothing: %v", got)
	}
	var names, versions []string
	for i := range 400 {
		names, versions = append(names, fmt.Sprint("d", i)), append(versions, fmt.Sprint("v", i/10))
	}
	many := ByVersion(names, versions)
	if len(many) != maxVersions || many[0].Devices != 10 || len(many[0].Names) != maxVersionsNames {
		t.Errorf("%d versions, the first %+v", len(many), many[0])
	}
}
