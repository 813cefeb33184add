package simbus_test

import (
	"testing"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/bustest/simbus"
)

// open returns a simulated bus without a network, as the conformance tests want it.
func open(testing.TB) *conformance.Bus {
	b := simbus.New(nil)
	return &conformance.Bus{Connect: func(t testing.TB) bus.Transport { return b.Connect(t.Name()) }}
}

func TestConformance(t *testing.T) { conformance.Test(t, open) }
func TestLines(t *testing.T)       { conformance.TestLines(t, open) }
