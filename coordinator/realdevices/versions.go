package realdevices

import (
	"fmt"

	"fedpace/bus"
	"fedpace/internal/human"
)

// programs are the versions of the devices' programs, as they said when they joined.
type programs struct {
	versions []string // by device; empty: it has not joined, or does not say
	differ   []int    // devices of another version than the coordinator's that the user has not been told of
}

// joined notes the version of a device. One that joins again with the same is not told
// of again.
func (p *programs) joined(device int, version, own string) {
	if version != p.versions[device] && bus.Differ(version, own) {
		p.differ = append(p.differ, device)
	}
	p.versions[device] = version
}

// reportVersions tells the user once which devices are of another version than the
// coordinator.
func (d *Devices) reportVersions() {
	if len(d.differ) == 0 {
		return
	}
	var list []string
	for _, device := range d.differ {
		list = append(list, fmt.Sprintf("%s (%s)", d.Names[device], d.versions[device]))
	}
	d.differ = d.differ[:0]
	d.notice("The coordinator is of version %s, and these devices of another: %s.", d.Welcome.Version, human.Some(list))
}
