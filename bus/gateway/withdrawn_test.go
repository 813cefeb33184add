package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// rights are what a server lets an idle device listen to.
type rights struct {
	name string
	// allow are subjects, each in quotes, with commas between them.
	allow string
	// reason is part of what the run says of a device with these rights.
	reason string
}

// allRights are those of a device that may do all that it must.
const allRights = `"fedpace.*.client.pi.task", "_INBOX.>"`

// A reload of the server takes away what an idle device listens to: the run learns it from the device's heartbeats,
// and does not count the device as present. When the right is back, the device connects anew and takes part.
func TestGateway_RightsWithdrawn(t *testing.T) {
	t.Parallel()
	for _, c := range []rights{
		{"answers", `"fedpace.*.client.pi.task"`, "it gets no answers: its heartbeats arrive"},
		{"tasks", `"_INBOX.>"`, "it gets no tasks: its heartbeats arrive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			listen := testport.Held(t)
			file := filepath.Join(t.TempDir(), "nats.conf")
			write := func(allow string) {
				text := fmt.Sprintf(`listen: %q
					authorization { users: [
						{ user: run, password: x }
						{ user: pi, password: x, permissions: { publish: "fedpace.>", subscribe: { allow: [%s] } } }
					] }`, listen, allow)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(allRights)
			s := testserver.Start(t, file)
			connect := func(user string) *natsconn.Conn {
				url := fmt.Sprintf("nats://%s:x@%s", user, listen)
				conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: url, Patience: -1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(conn.Close)
				return conn
			}
			run, err := gateway.Open(t.Context(), connect("run"), "r", gateway.Config{
				Devices: []string{"pi"},
				Welcome: &bus.Welcome{
					Clients:          1,
					Params:           2,
					HeartbeatSeconds: 1,
					Spec:             &bus.Spec{Model: "linear:2,2", Batch: 1},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			joined := make(chan bool, 1)
			device, err := gateway.OpenDevice(t.Context(), connect("pi"), gateway.DeviceConfig{
				ID:   "pi",
				Run:  "r",
				Join: &bus.Join{Name: "pi"},
				Notice: func(line string) {
					if strings.HasPrefix(line, "Joined run") {
						joined <- true
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer device.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = device.Next(ctx) }()
			await(t, run, gateway.Joined)
			<-joined
			reload := func(allow string) {
				write(allow)
				if err := s.Reload(); err != nil {
					t.Fatal(err)
				}
			}
			reload(c.allow)
			withdrawn := time.Now()
			left := await(t, run, gateway.Departed)
			t.Logf("the device is not present %.1f s after: %s", time.Since(withdrawn).Seconds(), left.Text)
			if !strings.Contains(left.Text, c.reason) {
				t.Errorf("the run hears %q, want %q", left.Text, c.reason)
			}
			if n := run.Stats().Present; n != 0 {
				t.Errorf("%d devices are present, want none", n)
			}
			reload(allRights)
			given := time.Now()
			await(t, run, gateway.Joined)
			t.Logf("it takes part again %.1f s after it may", time.Since(given).Seconds())
		})
	}
}
