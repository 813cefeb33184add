package web

import (
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener accepts so many connections at a time. What comes beyond is
// closed at once rather than left to wait: who holds connections open without
// need must not keep a scrape from getting one when there is room again.
type limitedListener struct {
	net.Listener
	open atomic.Int64
	most int64
}

func limit(l net.Listener, most int64) *limitedListener {
	return &limitedListener{Listener: l, most: most}
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
		_ = c.Close() // it was of no use to anybody
	}
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
