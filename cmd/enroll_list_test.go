//go:build linux

package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fedpace/internal/testkit/testport"
)

// A list of devices becomes an archive each. What is unpacked from one, and installed as it says itself,
// takes part in a run whose server asks for credentials and encrypts.
func TestEnroll_ListBecomesArchives(t *testing.T) {
	t.Parallel()
	s := &site{T: t, dir: t.TempDir()}
	s.keys = s.path("keys")
	address, platform := testport.Held(t), "linux-"+runtime.GOARCH
	if _, stderr, exit := finish(t, fedpace(t, "certificate", "--host", "127.0.0.1", "--keys", s.keys)); exit != 0 {
		t.Fatal(stderr)
	}
	_, port, _ := strings.Cut(address, ":")
	program, err := smallDevice()
	if err != nil {
		t.Fatal(err)
	}
	shell := func(script string, environment ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir, c.Env = s.dir, append(os.Environ(), environment...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	deploy, err := filepath.Abs("../deploy/device")
	if err != nil {
		t.Fatal(err)
	}
	shell(`mkdir -p dist made/fedpace-device
cp "$DEPLOY/install.sh" "$DEPLOY/fedpace-actor@.service" made/fedpace-device
cp "$PROGRAM" made/fedpace-device/fedpace-device
tar -C made -czf dist/fedpace-device-v1-$PLATFORM.tar.gz fedpace-device`, "DEPLOY="+deploy, "PROGRAM="+program, "PLATFORM="+platform)

	list := "\ufeffname,platform,class,data\npi-kitchen," + platform + ",board,\npi-hall," + platform + ",,synthetic.csv\npi-old,,,\n"
	enroll := []string{"enroll", "--list", s.path("list.csv"), "--server", "tls://" + address, "--keys", s.keys, "--dist", s.path("dist"), "--out", s.path("boards")}
	for want, text := range map[string]string{
		`list.csv:3: data "synthetic.csv" is not a whole path`:           list,
		"list.csv:3: device pi is there twice":                           "name,platform,class,data\npi,,,\npi,,,\n",
		"list.csv:2: platform plan9-arm: there are 0 archives":           strings.Replace(list, platform, "plan9-arm", 1),
		`list.csv:2: device "9" starts with '9', want a letter`:          "name,platform,class,data\n9,,,\n",
		`list.csv:1: the header is "id", want "name,platform,class,data`: "id\npi\n",
	} {
		s.config("list.csv", text)
		if _, stderr, exit := finish(t, fedpace(t, enroll...)); exit != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s", want, exit, stderr)
		}
	}
	if _, err := os.Stat(s.path("boards")); err == nil {
		t.Error("a list that is refused leaves archives")
	}
	list = strings.Replace(list, "synthetic.csv", "", 1)
	s.config("list.csv", list)
	for _, want := range []string{"3 archives are made in ", ", 3 were there;"} {
		if _, stderr, exit := finish(t, fedpace(t, enroll...)); exit != 0 || !strings.Contains(stderr, want) {
			t.Fatalf("exit %d, %s, want %s", exit, stderr, want)
		}
	}
	if got := shell(`tar tzf boards/pi-old.tar.gz | sort; tar xzOf boards/pi-old.tar.gz fedpace-device/settings`); got !=
		"fedpace-device/ca.pem\nfedpace-device/pi-old.creds\nfedpace-device/settings\npi-old\ntls://"+address+"\nsynthetic\n" {
		t.Errorf("the archive of a device that has the program: %s", got)
	}

	devices := map[string]*lines{}
	for _, id := range []string{"pi-kitchen", "pi-hall", "pi-old"} {
		root := s.path("root-" + id)
		start := shell(`mkdir unpacked-$ID
[ $ID != pi-old ] || tar xzf dist/*.tar.gz -C unpacked-$ID
tar xzf boards/$ID.tar.gz -C unpacked-$ID
cd unpacked-$ID/fedpace-device
stat -c %a $ID.creds settings ca.pem
./install.sh
. "$DESTDIR/etc/fedpace/$ID.env"
CREDENTIALS_DIRECTORY=$DESTDIR/etc/fedpace
mv $CREDENTIALS_DIRECTORY/$ID.creds $CREDENTIALS_DIRECTORY/creds
eval "echo $(sed -n 's/^ExecStart=//p' "$DESTDIR/etc/systemd/system/fedpace-actor@.service" | sed "s/%i/$ID/")"`, "ID="+id, "DESTDIR="+root)
		lines := strings.Split(strings.TrimSpace(start), "\n")
		if strings.Join(lines[:3], " ") != "600 600 600" {
			t.Errorf("modes of what is unpacked: %v", lines[:3])
		}
		words := strings.Fields(lines[len(lines)-1]) // what systemd starts
		for i, w := range words {
			if strings.HasPrefix(w, "/usr/") || strings.HasPrefix(w, "/etc/") {
				words[i] = root + w
			}
		}
		devices[id] = s.listen(exec.CommandContext(t.Context(), words[0], append(words[1:], "--once")...))
		devices[id].await(t, "No server answers")
	}
	config := s.config("run.yaml", `name: boards
clients: 5
cohort: 2
batch: 4
schedule: {k: fixed, k0: 1}
stop: {rounds: 3}
evaluate: {samples: 10}
fleet: [{name: phone, weight: 1}, {name: board, seconds_per_step: 0.02}]
devices: {liveness_seconds: 300}
nats: {listen: '0.0.0.0:`+port+`'}
`)
	s.run = fedpace(t, "run", "--config", config, "--config", s.path("boards/devices.yaml"), "--keys", s.keys, "--out", s.path("run"))
	s.lines = s.listen(s.run)
	s.end()
	_, real := s.tasks("run")
	by := map[int]int{}
	for _, task := range real {
		by[task.Client]++
	}
	if len(by) != 3 || by[5] != 3 || by[6] != 3 || by[7] != 3 {
		t.Errorf("tasks by device: %v, want three each:\n%v", by, s.lines)
	}
}
