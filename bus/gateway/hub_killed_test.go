package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// siteOfPi is a run's gateway at a hub, and a site's server behind it to which the device pi connects.
type siteOfPi struct {
	*testing.T
	hubFile, hubURL, siteURL string
	hub                      *server.Server
	gateway                  *gateway.Gateway
}

// openSiteOfPi starts the servers and the gateway.
func openSiteOfPi(t *testing.T) *siteOfPi {
	t.Helper()
	hub := testport.Held(t)
	leafs := testport.Held(t)
	site := testport.Held(t)
	s := &siteOfPi{
		T:       t,
		hubURL:  "nats://" + hub,
		siteURL: "nats://" + site,
		hubFile: testserver.File(t, "hub", fmt.Sprintf("listen: %q\nserver_name: hub\nleafnodes { listen: %q }\n", hub, leafs)),
	}
	s.hub = testserver.Start(t, s.hubFile)
	testserver.Start(t, testserver.File(t, "site", fmt.Sprintf("listen: %q\nserver_name: site\n"+
		"leafnodes { remotes: [ { url: \"nats://%s\" } ] }\n", site, leafs)))
	run, err := gateway.Open(t.Context(), connectPatiently(t, s.hubURL), "r", gateway.Config{
		Devices: []string{"pi"},
		Calls:   100 * time.Millisecond,
		Yield:   time.Second,
		Welcome: &bus.Welcome{
			Clients:          1,
			Params:           2,
			HeartbeatSeconds: 0.5,
			Spec:             &bus.Spec{Model: "linear:2,2", Batch: 1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	s.gateway = run
	return s
}

// start starts a process of the device, which waits for any run that calls. kill ends it without a word, and its first
// task goes to tasks.
func (s *siteOfPi) start() (tasks <-chan *gateway.DeviceTask, kill func()) {
	s.Helper()
	conn := connectPatiently(s, s.siteURL)
	device, err := gateway.OpenDevice(s.Context(), conn, gateway.DeviceConfig{ID: "pi", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		s.Fatal(err)
	}
	got := make(chan *gateway.DeviceTask, 1)
	ctx, cancel := context.WithCancel(s.Context())
	go func() {
		task, err := device.Next(ctx)
		if err == nil {
			got <- task
		}
	}()
	kill = func() {
		conn.Close()
		cancel()
		_ = device.Close()
	}
	s.Cleanup(kill)
	return got, kill
}

// restartHub ends the hub's server without a word to the gateway and the site, and starts it again with nothing.
func (s *siteOfPi) restartHub(meanwhile func()) {
	s.Helper()
	s.hub.Shutdown()
	s.hub.WaitForShutdown()
	meanwhile()
	s.hub = testserver.Start(s.T, s.hubFile)
}

// A device at a site is killed while it works on a task, and its hub restarts. The site's server lets the device
// connect all the time, and all that the run says before the two servers have found each other is lost. The run calls
// the new process, which knows no run, because the old one is silent, and it gets the task.
func TestSite_HubAndDeviceRestart(t *testing.T) {
	t.Parallel()
	s := openSiteOfPi(t)
	tasks, kill := s.start()
	await(t, s.gateway, gateway.Joined)
	if err := s.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	<-tasks
	for !s.gateway.WorksOnTask(0) {
		time.Sleep(time.Millisecond)
	}
	s.restartHub(func() {
		kill()
		tasks, _ = s.start()
	})
	began := time.Now()
	await(t, s.gateway, gateway.Joined)
	t.Logf("the new process has joined after %.1f s", time.Since(began).Seconds())
	if s.gateway.WorksOnTask(0) {
		t.Error("the new process counts as at work on the task of the old one")
	}
	if err := s.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	if task := <-tasks; task.Task.Task != deviceTask(1).Task {
		t.Errorf("it gets task %d, want %d", task.Task.Task, deviceTask(1).Task)
	}
}
