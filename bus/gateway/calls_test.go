package gateway_test

import (
	"context"
	"testing"

	"fedpace/bus/auth"
	"fedpace/bus/gateway"
)

// A device hears who calls it without joining; with another's credentials it hears
// nobody.
func TestCalls(t *testing.T) {
	t.Parallel()
	o := openOffice(t, "r", nil)
	line := o.Connect(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "other"}))
	ctx, stop := context.WithCancel(t.Context())
	var called string
	if err := gateway.Calls(ctx, line, "other", func(run, version string) { called = run + " " + version; stop() }); err != nil || called != "r v1" {
		t.Errorf("called by %q, want r of version v1: %v", called, err)
	}
	if n := o.gateway.Stats().Present; n > 1 { // pi may have joined
		t.Errorf("%d devices have joined", n)
	}
	if err := gateway.Calls(t.Context(), line, "pi", func(string, string) { t.Error("it hears another's calls") }); err == nil {
		t.Error("it may listen for another")
	}
	if err := gateway.Calls(t.Context(), line, "9", nil); err == nil {
		t.Error("9 is a device's name")
	}
}
