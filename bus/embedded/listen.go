package embedded

import (
	"fmt"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// splitListen reads "host:port"; port 0 is any free one.
func splitListen(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("bus: listen address %q: %w; want host:port", addr, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("bus: listen address %q: port %q is not 0 to 65535", addr, p)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}
