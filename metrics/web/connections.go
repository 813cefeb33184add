package web

import (
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener has at most so many connections open. It closes further ones at once
// instead of letting them wait, so that clients with idle connections cannot keep a
// scrape waiting once there is room.
type limitedListener struct {
	net.Listener
	open atomic.Int64
	most int64
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &limitedConn{Conn: c, release: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.Close() // nothing was read or written
	}
}

// limitedConn is counted until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
