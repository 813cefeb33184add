package run

import (
	"fmt"

	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/round"
)

// shareServer adds what transfers share at the server.
func (p *problem) shareServer(r *round.Config) error {
	n := p.config.Network
	for _, way := range []struct {
		key  string
		mbps float64
		need *fairshare.Work
	}{
		{"network.server_download_mbps", n.ServerDownloadMbps, &r.Server.Download},
		{"network.server_upload_mbps", n.ServerUploadMbps, &r.Server.Upload},
	} {
		if way.mbps == 0 {
			continue
		}
		need, err := fairshare.Need(p.modelBits, way.mbps)
		if err != nil {
			return fmt.Errorf("%s: %g Mbit/s are too few for a model of %g Mbit: one transfer would take years", way.key, way.mbps, float64(p.modelBits)/1e6)
		}
		*way.need = need
	}
	if n.Shared() && p.config.EverAbsent() {
		r.Leaves = func(client int, t round.Time) (round.Time, bool) {
			at, ok := p.fleet.Leaves(client, int64(t))
			return round.Time(at), ok
		}
	}
	return nil
}
