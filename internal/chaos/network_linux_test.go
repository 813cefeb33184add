package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// machines are network namespaces of this machine, one for each machine of a deployment, on one bridge. What is
// cut here is cut as by a cable or a firewall: neither end is told.
type machines struct {
	t testing.TB
	// prefix begins the names of the namespaces, which are the whole machine's.
	prefix string
}

// These are the machines of a cluster test, by the last number of their addresses, which is not 0.
const (
	// Servers are 1 to 3.
	coordinatorMachine = 11
	hostMachine        = 12
	otherHostMachine   = 13
)

// networks counts the networks of this process, so that tests that run at once have namespaces of their own.
var networks atomic.Int64

// newMachines makes a machine for each number. It skips the test, with a message, where that needs rights that
// this process lacks.
func newMachines(t testing.TB, numbers ...int) *machines {
	t.Helper()
	m := &machines{t: t, prefix: fmt.Sprintf("fp%d-%d-", os.Getpid(), networks.Add(1))}
	installed.Program(t, "ip", "iproute2")
	probe := exec.Command("ip", "netns", "add", m.prefix+"hub")
	if said, err := probe.CombinedOutput(); err != nil {
		t.Skipf("network namespaces cannot be made here, which root may: %v: %s", err, said)
	}
	t.Cleanup(func() { m.try("netns", "del", m.prefix+"hub") })
	m.inside("hub", "link", "add", "bridge", "type", "bridge")
	m.inside("hub", "link", "set", "bridge", "up")
	for _, number := range numbers {
		m.add(number)
	}
	return m
}

// add makes one machine and plugs it into the bridge.
func (m *machines) add(number int) {
	m.t.Helper()
	name := m.prefix + fmt.Sprint(number)
	port := fmt.Sprint("port", number)
	m.ip("netns", "add", name)
	m.t.Cleanup(func() { m.try("netns", "del", name) })
	m.inside("hub", "link", "add", port, "type", "veth", "peer", "name", "plug", "netns", name)
	m.inside("hub", "link", "set", port, "master", "bridge")
	m.inside("hub", "link", "set", port, "up")
	m.inside(fmt.Sprint(number), "link", "set", "lo", "up")
	m.inside(fmt.Sprint(number), "address", "add", address(number)+"/24", "dev", "plug")
	m.inside(fmt.Sprint(number), "link", "set", "plug", "up")
}

// address is the IPv4 address of a machine. All networks have the same ones.
func address(number int) string { return fmt.Sprintf("10.77.0.%d", number) }

// ip runs the program ip, and fails the test if that fails.
func (m *machines) ip(args ...string) {
	m.t.Helper()
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		m.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// try runs the program ip where a failure does not matter.
func (m *machines) try(args ...string) { _ = exec.Command("ip", args...).Run() }

// inside runs the program ip within a machine.
func (m *machines) inside(machine string, args ...string) {
	m.t.Helper()
	m.ip(append([]string{"-n", m.prefix + machine}, args...)...)
}

// command is a command that runs on a machine.
func (m *machines) command(number int, name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", m.prefix + fmt.Sprint(number), name}, args...)...)
}

// unplug cuts a machine off from all others.
func (m *machines) unplug(number int) {
	m.t.Helper()
	m.inside("hub", "link", "set", fmt.Sprint("port", number), "down")
}

// plug undoes unplug.
func (m *machines) plug(number int) {
	m.t.Helper()
	m.inside("hub", "link", "set", fmt.Sprint("port", number), "up")
}

// mute drops what one machine sends to another. What the other sends still arrives.
func (m *machines) mute(from, to int) {
	m.t.Helper()
	m.inside(fmt.Sprint(from), "route", "add", "blackhole", address(to)+"/32")
}

// servers is how many servers the cluster of these tests has.
const servers = 3

// deployment is a cluster of NATS servers, a coordinator and hosts, each on a machine of its own.
type deployment struct {
	*machines
	// nodes are the servers, by their number less one.
	nodes [servers]*node
	// out is the folder of the run.
	out string
	// run is the process of the coordinator.
	run *process
}

// node is a server of the cluster.
type node struct {
	*process
	number int
	store  string
}

// storeBytes is how much the disk of a server holds.
const storeBytes = 24 << 20

// newDeployment starts the servers.
func newDeployment(t testing.TB) *deployment {
	t.Helper()
	d := &deployment{
		machines: newMachines(t, 1, 2, 3, coordinatorMachine, hostMachine, otherHostMachine),
		out:      filepath.Join(t.TempDir(), "run"),
	}
	for i := range servers {
		d.nodes[i] = &node{number: i + 1, store: d.disk()}
		d.start(i + 1)
	}
	return d
}

// disk is a small file system of its own.
func (d *deployment) disk() string {
	d.t.Helper()
	return smallDisk(d.t)
}

// start starts a server, for the first time or again, and waits until it listens.
func (d *deployment) start(number int) {
	d.t.Helper()
	var routes []string
	for i := range servers {
		routes = append(routes, fmt.Sprintf("nats://%s:6222", address(i+1)))
	}
	n := d.nodes[number-1]
	text, err := json.Marshal(serverOptions{
		Name:        fmt.Sprint("s", number),
		Host:        address(number),
		Port:        4222,
		Store:       n.store,
		ClusterPort: 6222,
		Routes:      routes,
		Signals:     true,
		Admin:       true,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := d.command(number, self)
	cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
	n.process = start(d.t, fmt.Sprint("NATS server ", number), cmd)
	n.until(listening, patience)
}

// stop kills a server, as a power cut does.
func (d *deployment) stop(number int) { d.nodes[number-1].kill() }

// signal sends a signal to a server.
func (d *deployment) signal(number int, signal syscall.Signal) {
	d.t.Helper()
	if err := d.nodes[number-1].cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
}

// wipe takes away all that a server that is down has on its disk.
func (d *deployment) wipe(number int) {
	d.t.Helper()
	entries, err := os.ReadDir(d.nodes[number-1].store)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.nodes[number-1].store, e.Name())); err != nil {
			d.t.Fatal(err)
		}
	}
}

// fill fills the disk of a server.
func (d *deployment) fill(number int) {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.nodes[number-1].store, "filler"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4<<10)
	for range storeBytes / len(block) {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// url is the address of all servers.
func (d *deployment) url() string {
	var urls []string
	for i := range servers {
		urls = append(urls, fmt.Sprintf("nats://%s:4222", address(i+1)))
	}
	return strings.Join(urls, ",")
}

// begin starts hosts and a coordinator, and waits until the run has come to a round.
func (d *deployment) begin(c *course, round int, flags ...string) {
	d.t.Helper()
	for i, machine := range []int{hostMachine, otherHostMachine} {
		name := fmt.Sprint("h", i)
		cmd := d.command(machine, program, "host", "--nats", d.url(), "--workers", "1", "--name", name)
		start(d.t, "fedpace host "+name, cmd)
	}
	args := append([]string{"coordinator", "--nats", d.url()}, c.flags(d.out, flags...)...)
	d.run = start(d.t, "fedpace coordinator", d.command(coordinatorMachine, program, args...))
	d.awaitRounds(round, "")
}

// resume starts another coordinator, which goes on from the last checkpoint.
func (d *deployment) resume() {
	d.t.Helper()
	cmd := d.command(coordinatorMachine, program, "resume", d.out, "--elsewhere", "--nats", d.url())
	d.run = start(d.t, "fedpace resume", cmd)
}

// stepDown has all groups of the cluster elect other leaders.
func (d *deployment) stepDown() {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := d.command(coordinatorMachine, self)
	cmd.Env = append(os.Environ(), stepDownVariable+"="+d.url())
	start(d.t, "step down", cmd).finish(patience)
}

// rounds is how many rounds the run has reported in its folder.
func (d *deployment) rounds() int { return roundsIn(d.out) }

// skipUnlessLong skips tests of deployments unless tests may take long.
func skipUnlessLong(t testing.TB) {
	t.Helper()
	slow.Test(t, "it runs a cluster of servers on machines of its own, and disturbs it")
}
