package metrics

import (
	"cmp"
	"slices"
)

// DeviceVersion is a version of the program of some real devices.
type DeviceVersion struct {
	Version string   `json:"version"`
	Devices int      `json:"devices"` // that said so when they joined last
	Names   []string `json:"names"`   // of the first of them
}

// Limits of what is shown of versions, which devices may make up.
const (
	maxVersions      = 16
	maxVersionsNames = 8
)

// ByVersion groups devices by the version that each of them told, the most frequent
// version first. Devices whose version is empty told none and are left out.
func ByVersion(devices []DeviceSeen) (list []DeviceVersion) {
	at := map[string]int{}
	for _, d := range devices {
		v := d.Version
		if v == "" {
			continue
		}
		if _, ok := at[v]; !ok {
			at[v] = len(list)
			list = append(list, DeviceVersion{Version: v})
		}
		of := &list[at[v]]
		if of.Devices++; len(of.Names) < maxVersionsNames {
			of.Names = append(of.Names, d.Name)
		}
	}
	slices.SortFunc(list, func(a, b DeviceVersion) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Version, b.Version))
	})
	return list[:min(len(list), maxVersions)]
}
