package memory_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/memory"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, func(testing.TB) *conformance.Bus {
		b := memory.New()
		return &conformance.Bus{Connect: func(t testing.TB) bus.Transport { return b.Connect(t.Name()) }}
	})
}

// A run has one coordinator at a time, and nothing is left for the next.
func TestOpenCoordinator_SecondOne(t *testing.T) {
	b := memory.New()
	open := func() (bus.Coordinator, error) {
		return b.Connect("c").OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go"})
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "run r has a coordinator already") {
		t.Errorf("a second coordinator: %v", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A coordinator that closes with a sum in its hands keeps no host waiting.
func TestSendSum_ClosedRun(t *testing.T) {
	b := memory.New()
	c, err := b.Connect("c").OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Connect("h").OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	digest := bus.DigestOf([]float32{1})
	job := &bus.Job{Job: 1, Kind: bus.Train, ModelDigest: digest[:], Params: 1, Kernel: "go", Spec: &bus.Spec{Batch: 1}, Clients: []*bus.ClientWork{{Task: 7, LocalSteps: 1}}}
	if err := c.SendJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		sum := &bus.Sum{Job: 1, ModelDigest: digest[:], Clients: []*bus.ClientLoss{{Task: 7}}}
		sent <- h.SendSum(context.WithoutCancel(t.Context()), &bus.Result{Sum: sum, Values: []int64{1}})
	}()
	if _, err := c.TakeSum(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(t.Context()), <-sent, h.Close()); err != nil {
		t.Error(err)
	}
}

// A task arrives whole, also a field that is added to the message later.
func TestSendTask_CopiesEveryField(t *testing.T) {
	sent := &bus.Task{}
	v := reflect.ValueOf(sent).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !v.Type().Field(i).IsExported() || v.Type().Field(i).Name == "Others": // one task is sent at a time
		case f.CanUint():
			f.SetUint(3)
		case f.CanInt():
			f.SetInt(3)
		case f.CanFloat():
			f.SetFloat(0.5)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.String:
			f.SetString("x")
		default:
			f.SetBytes(make([]byte, 32))
		}
	}
	b := memory.New()
	c, err := b.Connect("c").OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Connect("h").OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	err = h.ServeTasks(t.Context(), func(client int, got *bus.Task, p *bus.Plan) error {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Type().Field(i).IsExported() && !reflect.DeepEqual(v.Field(i).Interface(), reflect.ValueOf(got).Elem().Field(i).Interface()) {
				t.Errorf("%s is lost", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendTask(1, sent); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TakePlans(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
