package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

func TestCompose_OwnType(t *testing.T) {
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

// Every container is as strict as the pods of Kubernetes: no root, no privileges, a root
// file system that nobody writes to, limits, and ports of this machine alone.
func TestCompose_StrictContainers(t *testing.T) {
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := loadCompose(t, text)
	if err != nil {
		t.Fatal(err)
	}
	all := p.AllServices()
	for name := range all {
		s := all[name]
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged || s.PidsLimit == 0 || s.MemLimit == 0 {
			t.Errorf("%s is less strict than a pod", name)
		}
		if user, _, _ := strings.Cut(s.User, ":"); user == "" || user == "0" || user == "root" {
			t.Errorf("%s runs as user %q", name, s.User)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is reached from other machines on port %s", name, port.Published)
			}
		}
		if s.NetworkMode != "" || len(s.Networks) == 0 {
			t.Errorf("%s is in the network of everybody", name)
		}
		checkImage(t, name, s.Image)
	}
	if len(all) != 7 {
		t.Errorf("%d services, want 7", len(all))
	}
	if host := all["host"]; len(host.Networks) != 1 || !p.Networks["bus"].Internal || !p.Networks["watch"].Internal {
		t.Error("a host reaches more than the servers")
	}
	for key := range all["grafana"].Environment {
		if key == "GF_SECURITY_ADMIN_PASSWORD" {
			t.Error("Grafana's password stands in the file")
		}
	}
}

// exact is an image whose tag is one version of a program, perhaps with its digest. The
// project's own is built on the machine that runs it.
var exact = regexp.MustCompile(`^[a-z0-9/]+:v?\d+\.\d+\.\d+(-[a-z]+)?(@sha256:[0-9a-f]{64})?$`)

func checkImage(t *testing.T, name, image string) {
	t.Helper()
	if image != "fedpace:local" && !exact.MatchString(image) {
		t.Errorf("%s: image %s is not of one version", name, image)
	}
}

// The image is built from one version of Go, and its program is nobody's root.
func TestImage_OneVersion(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	from := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(from) != 2 || from[1][1] != "scratch" {
		t.Fatalf("images %v", from)
	}
	checkImage(t, "Dockerfile", from[0][1])
	if !strings.Contains(string(text), "GOOS=$TARGETOS GOARCH=$TARGETARCH go build") {
		t.Error("the image of another platform would have this one's program")
	}
	if user := regexp.MustCompile(`(?m)^USER (\d+)`).FindStringSubmatch(string(text)); user == nil || user[1] == "0" {
		t.Errorf("it runs as %v", user)
	}
}

// The command that writes digests asks for each image's, and writes it behind the tag.
func TestDigests_WrittenIntoFiles(t *testing.T) {
	dir := t.TempDir()
	want := "sha256:" + strings.Repeat("ab", 32)
	files := map[string][2]string{
		"compose.yaml":       {"  image: nats:2.15.2-alpine\n  image: fedpace:local\n  image: prom/prometheus:v3.5.0@sha256:" + strings.Repeat("0", 64) + "\n", "  image: nats:2.15.2-alpine@" + want + "\n  image: fedpace:local\n  image: prom/prometheus:v3.5.0@" + want + "\n"},
		"Dockerfile":         {"FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build\nFROM scratch\n", "FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm@" + want + " AS build\nFROM scratch\n"},
		"kubernetes/2.yaml":  {"          image: nats:2.15.2-alpine\n", "          image: nats:2.15.2-alpine@" + want + "\n"},
		"kubernetes/no.yaml": {"kind: NetworkPolicy\n", "kind: NetworkPolicy\n"},
	}
	if err := os.Mkdir(filepath.Join(dir, "kubernetes"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text[0]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// In the place of a registry's client.
	docker := "#!/bin/sh\n[ \"$1 $2 $3\" = 'buildx imagetools inspect' ] && case $4 in *@*) exit 1 ;; *) echo " + want + " ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../digests.sh")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", script, dir)
	c.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for name, text := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text[1] {
			t.Errorf("%s is\n%s%v", name, got, err)
		}
	}
}

// The check can fail: a mistyped key is found.
func TestCompose_MistypedService(t *testing.T) {
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loadCompose(t, bytes.Replace(text, []byte("depends_on:"), []byte("depend_on:"), 1)); err == nil {
		t.Error("a mistyped key is accepted")
	}
}
