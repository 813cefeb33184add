package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCustom_LinkTracesReplaceSpeeds(t *testing.T) {
	const file = "task: custom\ntrain: false\nclients: 3\nschedule: {k0: 4, eta0: 0.1}\ncompute: {seconds_per_step: 0.1}\n" +
		"stop: {rounds: 2}\nnetwork: {model_megabits: 1%s}\n"
	path := filepath.Join(t.TempDir(), "c.yaml")
	for links, asked := range map[string]bool{"": true, ", links: links.csv": false} {
		if err := os.WriteFile(path, fmt.Appendf(nil, file, links), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, nil)
		if asksForSpeed := err != nil && strings.Contains(err.Error(), "network.download_mbps: is not set"); asksForSpeed != asked {
			t.Errorf("network: {model_megabits: 1%s}: %v", links, err)
		}
		if err != nil && !asked {
			t.Error(err)
		}
	}
}

func TestFleet_RemovedAttacks(t *testing.T) {
	for name, want := range map[string]string{"loss_lie": "plug-in", "slow": "seconds_per_step or slowdown"} {
		_, err := Load("", []string{"fleet=[{name: a}, {name: b, attack: " + name + "}]"})
		if err == nil || !strings.Contains(err.Error(), "was removed") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
