//go:build unix

package chaos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/parquet-go/parquet-go"

	"fedpace/cmd"
	"fedpace/internal/testkit/slow"
)

// serverVariable makes the test's binary a NATS server with these options, so
// that a server can be a process to be killed.
const serverVariable = "FEDPACE_TEST_NATS_SERVER"

// programVariable makes the test's binary the program under test, so that no test waits
// until another is linked.
const programVariable = "FEDPACE_TEST_AS_PROGRAM"

// adminName is the user of a server's system account in these tests, and its password.
const adminName = "admin"

// Paths of the program under test, and of the data of the courses.
var program, data string

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		cmd.Main()
	}
	if text := os.Getenv(serverVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(attackVariable); text != "" {
		if err := attack(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(stepDownVariable); url != "" {
		if err := stepDown(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fedpace-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program, data = filepath.Join(dir, "fedpace"), filepath.Join(dir, "data.parquet")
	if err := writeData(data, 30, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", programVariable, os.Args[0])
	if err := os.WriteFile(program, []byte(script), 0o777); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	slow.Beside(24)
	return m.Run()
}

// writeData writes 20 samples of two values for each client: little to compute with.
func writeData(path string, clients int, label int32) error {
	type row struct {
		Client string    `parquet:"client"`
		X      []float32 `parquet:"x,list"`
		Y      int32     `parquet:"y"`
	}
	var all []row
	for c := range clients {
		for i := range 20 {
			all = append(all, row{fmt.Sprint("site", c), []float32{float32(i) - 10, float32(c % 6)}, (int32(i/10) + label) % 2})
		}
	}
	return parquet.WriteFile(path, all)
}

// serverOptions are those of a server's process.
type serverOptions struct {
	Name        string
	Host        string // where it listens; empty: this machine alone
	Port        int
	Store       string
	ClusterPort int      // 0: alone
	Routes      []string // of the cluster
	NoJetStream bool
	Signals     bool   // it heeds those of NATS, such as SIGUSR2 for lame duck mode
	Admin       bool   // it has a system account with the user and the password adminName
	Config      string // a file in place of all that; Port must be its
}

// serve runs a server until the process ends.
func serve(text string) error {
	var o serverOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	options := &server.Options{
		ServerName: o.Name, Host: cmp.Or(o.Host, "127.0.0.1"), Port: o.Port, JetStream: !o.NoJetStream, StoreDir: o.Store,
		NoSigs: !o.Signals, PingInterval: 2 * time.Second,
	}
	if o.Admin {
		system := server.NewAccount(server.DEFAULT_SYSTEM_ACCOUNT)
		options.Accounts = []*server.Account{system}
		options.SystemAccount = system.Name
		options.Users = []*server.User{{Username: adminName, Password: adminName, Account: system}}
	}
	if o.Config != "" {
		var err error
		options, err = server.ProcessConfigFile(o.Config)
		if err != nil {
			return err
		}
		options.NoSigs = false // a reload is asked for by a signal
	}
	if o.ClusterPort != 0 {
		options.Cluster = server.ClusterOpts{Name: "test", Host: options.Host, Port: o.ClusterPort}
		for _, r := range o.Routes {
			options.RoutesStr = r + "," + options.RoutesStr
		}
		options.RoutesStr = options.RoutesStr[:len(options.RoutesStr)-1]
		options.Routes = server.RoutesFromStr(options.RoutesStr)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(patience) {
		return errors.New("the server does not get ready")
	}
	fmt.Println(listening)
	s.WaitForShutdown()
	return nil
}
