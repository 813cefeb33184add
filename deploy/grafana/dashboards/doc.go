// Package dashboards holds the dashboards for Grafana, so that who has the binary
// alone has them, too.
package dashboards

import "embed"

// Files are the dashboards.
//
//go:embed *.json
var Files embed.FS
