package gateway_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/gateway"
)

// Silent is who fell silent, neither who said that it leaves nor who is shut out.
func TestGateway_SilentDevices(t *testing.T) {
	t.Parallel()
	o := openOffice(t, "r", nil)
	line := o.Connect(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "other"}))
	says := func(verb string, m proto.Message, want gateway.EventKind) {
		t.Helper()
		b, err := bus.Marshal(nil, m)
		if err == nil {
			err = line.Publish("fedpace.r.client.other."+verb, b)
		}
		if err != nil {
			t.Fatal(err)
		}
		o.await(want)
	}
	silent := func(want int, after string) {
		t.Helper()
		if n := o.gateway.Stats().Silent; n != want {
			t.Errorf("%d devices are silent after one %s, want %d", n, after, want)
		}
	}
	join := &bus.Join{Name: "other"}
	says("join", join, gateway.Joined)
	o.gateway.GiveUp(1)
	silent(1, "was given up")
	says("join", join, gateway.Joined)
	silent(0, "came back")
	says("heartbeat", &bus.Heartbeat{Leaves: "lunch"}, gateway.Departed)
	silent(0, "left")
	says("join", join, gateway.Joined)
	o.gateway.Ban(1)
	silent(0, "was shut out")
}
