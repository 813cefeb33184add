package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// branch is a deployment with a hub, where the run and its hosts are, and a site whose devices come through a server of
// their own. All are processes.
type branch struct {
	t    *testing.T
	keys *keys
	// dir has the configurations of the servers, and out is the folder of the run, on a small disk of its own.
	dir, out  string
	hub, site *natsServer
	run, host *process
	devices   [2]*process
	// leafs is the port to which the site's server connects.
	leafs int
}

// newBranch starts all of it, and waits until the devices have joined.
func newBranch(t *testing.T) *branch {
	t.Helper()
	b := &branch{
		t:     t,
		keys:  newKeys(t),
		dir:   t.TempDir(),
		leafs: heldPort(t),
	}
	b.out = filepath.Join(smallDisk(t), "run")
	for _, args := range [][]string{{"--coordinator"}, {"--host", "box"}, {"pi0"}, {"pi1"}, {"guest"}} {
		b.keys.enroll(args...)
	}
	b.keys.enroll("--site", "home", "--devices", "pi0,pi1")
	hubPort := heldPort(t)
	b.writeHub(hubPort)
	b.hub = newServer(t, serverOptions{Config: filepath.Join(b.dir, "hub.conf"), Port: hubPort})
	sitePort := heldPort(t)
	text := b.keys.enroll("--site-config", fmt.Sprintf("nats://127.0.0.1:%d", b.leafs))
	text = strings.Replace(text, `"site.creds"`, fmt.Sprintf("%q", b.keys.creds("home")), 1)
	b.write("site.conf", fmt.Sprintf("listen: 127.0.0.1:%d\nserver_name: site\n%s", sitePort, text))
	b.site = newServer(t, serverOptions{Config: filepath.Join(b.dir, "site.conf"), Port: sitePort})
	b.startHost()
	for i := range b.devices {
		b.startDevice(i)
	}
	args := []string{
		"coordinator", "--nats", b.hub.url(), "--creds", b.keys.creds("coordinator"), "--set", "pace=1",
		"--set", "devices={names: [pi0, pi1], include: every_round, liveness_seconds: 300, link: modelled}",
		"--set", "devices.keep_updates=true", "--set", "checkpoint.seconds=0.5",
	}
	b.run = fedpace(t, append(args, branchCourse.flags(b.out)...)...)
	for i := range b.devices {
		b.run.until(fmt.Sprintf("Device pi%d has joined", i), patience)
	}
	return b
}

// branchCourse is the run that is disturbed, of 12 rounds.
var branchCourse = &course{name: "branch", args: []string{"--set", "stop.rounds=12"}}

// smallDisk is a file system of 24 MiB.
func smallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", storeBytes)); err != nil {
		t.Skipf("a small disk cannot be mounted here, which root may: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func (b *branch) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// writeHub writes the configuration of the hub's server, with the accounts as they are.
func (b *branch) writeHub(port int) {
	b.t.Helper()
	b.write("hub.conf", fmt.Sprintf(
		"listen: 127.0.0.1:%d\nserver_name: hub\njetstream { store_dir: %q }\nleafnodes { listen: \"127.0.0.1:%d\" }\n%s",
		port, filepath.Join(b.dir, "js"), b.leafs, b.keys.enroll("--server-config"),
	))
}

func (b *branch) startHost() {
	b.t.Helper()
	b.host = host(b.t, b.hub.url(), "--creds", b.keys.creds("box"))
}

func (b *branch) startDevice(i int) {
	b.t.Helper()
	id := fmt.Sprint("pi", i)
	own := filepath.Join(b.dir, id+".parquet")
	if err := writeData(own, 1, int32(i)); err != nil {
		b.t.Fatal(err)
	}
	b.devices[i] = fedpace(b.t, "actor", "--nats", b.site.url(), "--client", id, "--creds", b.keys.creds(id), "--data", own)
}

// resume starts another coordinator.
func (b *branch) resume() {
	b.t.Helper()
	b.run = fedpace(b.t, "resume", b.out, "--elsewhere", "--nats", b.hub.url(), "--creds", b.keys.creds("coordinator"))
}

// reload revokes credentials that nobody uses, and has the hub's server read its accounts again.
func (b *branch) reload() {
	b.t.Helper()
	b.keys.enroll("--revoke", "guest")
	b.writeHub(b.hub.options.Port)
	signal(b.t, b.hub.process, syscall.SIGHUP)
}

// rounds is how many rounds the run has reported in its folder.
func (b *branch) rounds() int { return roundsIn(b.out) }

// awaitRounds waits until the run has reported that many rounds, and fails if it ends before.
func (b *branch) awaitRounds(n int) {
	b.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.After(patience); b.rounds() < n; {
		select {
		case <-b.run.done:
			if b.rounds() < n {
				b.t.Fatalf("the run ended before round %d: %s", n, b.run.lastLine())
			}
		case <-end:
			b.t.Fatalf("the run has not come to round %d within %v", n, patience)
		case <-look.C:
		}
	}
}

// replayed returns the result of a replay of the run from its folder.
func (b *branch) replayed() result {
	b.t.Helper()
	again := filepath.Join(b.t.TempDir(), "again")
	fedpace(b.t, "run", "--replay", b.out, "--out", again, "--quiet", "--set", "pace=0").finish(patience)
	return resultOf(b.t, again)
}

// pairs are faults of two parts of a branch that meet.
var pairs = map[string]func(b *branch){
	"nothing": func(*branch) {},
	"site down while the run is resumed": func(b *branch) {
		b.site.kill()
		b.run.kill()
		b.resume()
		b.run.until("Waiting for the lease", patience)
		outage(5 * time.Second)
		b.site.start()
	},
	"site killed and back, host killed": func(b *branch) {
		b.site.kill()
		b.host.kill()
		outage(3 * time.Second)
		b.site.start()
		b.startHost()
	},
	"accounts reloaded, coordinator killed": func(b *branch) {
		b.reload()
		b.run.kill()
		outage(time.Second)
		b.resume()
	},
	"coordinator and device killed": func(b *branch) {
		b.devices[0].kill()
		b.run.kill()
		b.startDevice(0)
		b.resume()
	},
	"disk full, host killed": func(b *branch) {
		free := fillDisk(b.t, filepath.Dir(b.out))
		b.host.kill()
		b.startHost()
		b.run.fails("no space left on device", patience)
		free()
		b.resume()
	},
	"accounts reloaded, site killed and back": func(b *branch) {
		b.reload()
		b.site.kill()
		outage(time.Second)
		b.site.start()
	},
	"hub killed and back, device killed": func(b *branch) {
		b.hub.kill()
		b.devices[1].kill()
		outage(2 * time.Second)
		b.hub.start()
		b.startDevice(1)
	},
	"hub killed twice, both devices killed": func(b *branch) {
		for i := range b.devices {
			b.hub.kill()
			b.devices[i].kill()
			outage(time.Second)
			b.hub.start()
			b.startDevice(i)
		}
	},
	"hub and site killed and back, device killed": func(b *branch) {
		b.hub.kill()
		b.site.kill()
		b.devices[1].kill()
		b.hub.start()
		b.startDevice(1)
		outage(2 * time.Second)
		b.site.start()
	},
	"hub paused, device killed": func(b *branch) {
		signal(b.t, b.hub.process, syscall.SIGSTOP)
		b.devices[1].kill()
		b.startDevice(1)
		outage(5 * time.Second)
		signal(b.t, b.hub.process, syscall.SIGCONT)
	},
	"device paused, accounts reloaded": func(b *branch) {
		signal(b.t, b.devices[0], syscall.SIGSTOP)
		b.reload()
		outage(5 * time.Second)
		signal(b.t, b.devices[0], syscall.SIGCONT)
	},
}

// Two parts of a deployment with devices behind a leaf node fail at once. The run comes to the model of an undisturbed
// one, by as many updates, and a replay of it to its bits.
//
//	FEDPACE_LONG=1 go test ./internal/chaos -v -run Branch_Pairs -timeout 1h -trials 3
func TestBranch_PairsOfFaults(t *testing.T) {
	slow.Test(t, "it runs two servers, a host, and two devices for each pair")
	undisturbed := newBranch(t)
	undisturbed.run.finish(patience)
	want := resultOf(t, undisturbed.out)
	for seed := range *trials {
		for name, play := range pairs {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				t.Parallel()
				b := newBranch(t)
				b.awaitRounds(2 + int(seed)%4)
				outage(startInRound(seed))
				play(b)
				last := time.Now()
				b.awaitRounds(b.rounds() + 2)
				t.Logf("%s: the second round after ended %.1f s after the last fault", name, time.Since(last).Seconds())
				b.run.finish(patience)
				got := resultOf(t, b.out)
				if got.Model != want.Model || got.Rounds != want.Rounds || got.Outcomes["accepted"] != want.Outcomes["accepted"] {
					t.Errorf("it came to %+v, the undisturbed run to %+v", got, want)
				}
				b.replayed().equals(t, got, "replayed")
			})
		}
	}
}

// startInRound is how long after the end of a round the faults of a seed begin, from 0 to the 1.7 s that a round takes.
// Seeds in a row are spread over the round.
func startInRound(seed uint64) time.Duration {
	const round = 1700 * time.Millisecond
	const step = 618 * time.Millisecond
	return time.Duration(seed) * step % round
}

// roundsIn is how many rounds a run has reported in its folder.
func roundsIn(out string) int {
	text, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "\n") - 1
}
