#!/usr/bin/env bash
# nats-server 2.15.3: a reload cuts a leaf node off from a service whose subject ends with "*".
#
# One expects: the devices of a site, whose own server is a leaf node of the hub, are answered after a
# reload of the hub's accounts as before it, since neither their permissions nor the service have changed.
# It happens: the hub imports the service update.*.* into the account of the site, and the site's user may
# publish on update.pi.*. After a reload that adds another user to that account, requests of the site end
# with "no responders", until the site's server is started anew. If the user may publish on update.pi.>
# instead, which allows the same requests, all are answered after the reload, too.
# Why it matters: each new or revoked device changes the accounts of a deployment. The updates of a site's
# devices then get no answer, though nothing about the site has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'END'
module finding

go 1.26.0

require (
	github.com/nats-io/nats-server/v2 v2.15.3
	github.com/nats-io/nats.go v1.55.0
)
END
cat > main.go <<'END'
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	clientPort = 42721
	leafPort   = 42722
)

// start starts the server of the configuration file.
func start(file string) *server.Server {
	options, err := server.ProcessConfigFile(file)
	check(err)
	options.NoSigs = true
	options.NoLog = true
	s, err := server.NewServer(options)
	check(err)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server does not start")
	}
	return s
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// writeHub writes the hub's configuration. Account RUNS answers requests, and account DEVICES, to which the site's
// server belongs, imports that service. The site's user may publish on the subject allowed. The number of users beside
// it makes a reload build the account anew.
func writeHub(file, allowed string, users int) {
	more := ""
	for i := range users {
		more += fmt.Sprintf("    { user: more%d, password: x }\n", i)
	}
	text := fmt.Sprintf(`listen: 127.0.0.1:%d
leafnodes { listen: 127.0.0.1:%d }
accounts {
  RUNS { users: [ { user: lab, password: x } ], exports: [ { service: "update.*.*" } ] }
  DEVICES {
    users: [
    { user: site, password: x, permissions: { publish: [%q], subscribe: ["_INBOX.>"] } }
%s  ]
    imports: [ { service: { account: RUNS, subject: "update.*.*" } } ]
  }
}
`, clientPort, leafPort, allowed, more)
	check(os.WriteFile(file, []byte(text), 0o600))
}

// asked returns the error of a request that a client of the site's server sends to a client of the hub, the last one
// of at most twenty tries.
func asked(c *nats.Conn) error {
	var err error
	for range 20 {
		_, err = c.Request("update.pi.0", nil, time.Second)
		if err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// play returns the errors of a request before and after a reload of the hub, whose site may publish on allowed, and
// after the site's server was started anew.
func play(allowed string) (before, after, anew error) {
	const hubFile, siteFile = "hub.conf", "site.conf"
	writeHub(hubFile, allowed, 0)
	hub := start(hubFile)
	defer hub.Shutdown()
	site := fmt.Sprintf("listen: 127.0.0.1:-1\nleafnodes { remotes: [ { url: \"nats://site:x@127.0.0.1:%d\" } ] }\n", leafPort)
	check(os.WriteFile(siteFile, []byte(site), 0o600))
	leaf := start(siteFile)
	lab, err := nats.Connect(hub.ClientURL(), nats.UserInfo("lab", "x"))
	check(err)
	defer lab.Close()
	_, err = lab.Subscribe("update.pi.*", func(m *nats.Msg) { _ = m.Respond(nil) })
	check(err)
	check(lab.Flush())
	device, err := nats.Connect(leaf.ClientURL())
	check(err)
	defer device.Close()
	before = asked(device)
	writeHub(hubFile, allowed, 1)
	check(hub.Reload())
	after = asked(device)
	leaf.Shutdown()
	leaf = start(siteFile)
	defer leaf.Shutdown()
	again, err := nats.Connect(leaf.ClientURL())
	check(err)
	defer again.Close()
	return before, after, asked(again)
}

func main() {
	for _, allowed := range []string{"update.pi.*", "update.pi.>"} {
		before, after, anew := play(allowed)
		fmt.Printf("the site may publish on %s: before the reload %v, after it %v, with the site started anew %v\n",
			allowed, before, after, anew)
		lost := errors.Is(after, nats.ErrNoResponders)
		if before != nil || anew != nil || lost != (allowed == "update.pi.*") || !lost && after != nil {
			fmt.Println("this is not what nats-server 2.15.3 does")
			os.Exit(1)
		}
	}
}
END
GOFLAGS=-mod=mod go run .
