package check

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func loadCompose(t *testing.T, text []byte) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	}, func(o *loader.Options) { o.SkipResolveEnvironment = true })
}

func TestComposeFileIsComposesOwnType(t *testing.T) {
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := loadCompose(t, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nats-1", "nats-2", "nats-3", "coordinator", "host"} {
		if _, ok := p.Services[name]; !ok {
			t.Errorf("no service %s", name)
		}
	}
	if n := p.Services["host"].Deploy.Replicas; n == nil || *n < 2 {
		t.Error("hosts are not scaled by replicas")
	}
	routes := p.Services["nats-1"].Environment["NATS_ROUTES"]
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		s := p.Services[name]
		if got := s.Environment["NATS_NAME"]; got == nil || *got != name {
			t.Errorf("server %s is not called so", name)
		}
		if got := s.Environment["NATS_ROUTES"]; got == nil || *got != *routes || !strings.Contains(*got, "//"+name+":") {
			t.Errorf("server %s has other routes than nats-1", name)
		}
	}
}

// The check can fail: a mistyped key is found.
func TestAMistypedServiceIsRefused(t *testing.T) {
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loadCompose(t, bytes.Replace(text, []byte("depends_on:"), []byte("depend_on:"), 1)); err == nil {
		t.Error("a mistyped key is accepted")
	}
}
