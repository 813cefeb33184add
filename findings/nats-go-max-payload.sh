#!/usr/bin/env bash
# github.com/nats-io/nats.go 1.55.0 with nats-server 2.15.3: a lowered max_payload ends a client for good.
#
# One expects: a client with endless reconnects (MaxReconnects(-1)) connects again when the server has
# closed its connection, and learns the server's new max_payload.
# It happens: a reload lowers max_payload, the client still believes the old one, and publishes a message
# between the two. The server closes the connection, and the client is closed, too: it never connects
# again. The same client connects again after the server was started anew.
# Why it matters: a host or a device that is to wait for its server for ever ends, because an
# administrator has changed one number; those that send less stay.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'END'
module finding

go 1.25

require (
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/nats-io/nats.go v1.55.0
)
END
cat > main.go <<'END'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// start starts the server of the configuration file.
func start(file string) *server.Server {
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		panic(err)
	}
	options.NoSigs = true
	options.NoLog = true
	s, err := server.NewServer(options)
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server does not start")
	}
	return s
}

func write(file string, maxPayload int) {
	text := fmt.Sprintf("listen: 127.0.0.1:42711\nmax_payload: %d\n", maxPayload)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
}

// play lowers max_payload and returns whether the client is closed in the end.
func play(reload bool) bool {
	const file = "nats.conf"
	write(file, 1<<20)
	s := start(file)
	closed := make(chan bool, 1)
	back := make(chan bool, 1)
	c, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ClosedHandler(func(*nats.Conn) { closed <- true }), nats.ReconnectHandler(func(*nats.Conn) { back <- true }))
	if err != nil {
		panic(err)
	}
	write(file, 1000)
	if reload {
		if err := s.Reload(); err != nil {
			panic(err)
		}
		if err := c.Publish("a", make([]byte, 2000)); err != nil {
			panic(err)
		}
	} else {
		s.Shutdown()
		s.WaitForShutdown()
		s = start(file)
	}
	defer s.Shutdown()
	select {
	case <-closed:
		return true
	case <-back:
		return false
	case <-time.After(time.Minute):
		panic("the client neither is closed nor connects again")
	}
}

func main() {
	for _, reload := range []bool{true, false} {
		isClosed := play(reload)
		fmt.Printf("max_payload lowered by a reload: %v; the client is closed for good: %v\n", reload, isClosed)
		if isClosed != reload {
			fmt.Println("this is not what nats.go 1.55.0 does")
			os.Exit(1)
		}
	}
}
END
GOFLAGS=-mod=mod go run .
