package run

import (
	"context"

	"fedpace/config"
)

// prepare prepares the problem of a configuration. Close it after use.
// remote says that hosts on other machines do the work.
func prepare(c config.Config, remote bool) (*experiment, error) {
	o := Options{Place: Place{RemoteHosts: remote}}
	return o.prepare(context.Background(), c)
}
