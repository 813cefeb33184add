package bus

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/protocol.txt anew")

// A host of any version serves the runs of its own protocol number, and no others.
func TestHosts_FitByProtocol(t *testing.T) {
	for _, x := range []struct {
		version, host string
		protocol      uint32
		want          string // "": it fits
	}{
		{"v1.2.0", "v1.2.0", HostProtocol, ""},
		{"v1.2.0", "v1.9.3", HostProtocol, ""},
		{"v1.9.3", "v1.2.0", HostProtocol, ""},
		{"v1.9.3", "v1.2.0", HostProtocol + 1, fmt.Sprintf(
			"it is coordinated by version v1.9.3 (protocol %d) and this host is version v1.2.0 (protocol %d), whose plans and sums may differ: update this host, or start a host of the coordinator's version", HostProtocol+1, HostProtocol)},
		{"v0.9.0", "v1.2.0", 0, fmt.Sprintf(
			"it is coordinated by version v0.9.0 (protocol 0) and this host is version v1.2.0 (protocol %d), whose plans and sums may differ: update the coordinator, or start a host of the coordinator's version", HostProtocol)},
	} {
		err := (&RunInfo{Version: x.version, Protocol: x.protocol}).CheckProtocol(x.host)
		if (err == nil) != (x.want == "") || err != nil && err.Error() != x.want {
			t.Errorf("a host of version %s for a run of %s, protocol %d: %v, want %q", x.host, x.version, x.protocol, err, x.want)
		}
	}
}

// What decides whether hosts of two builds fit is written down beside the number:
// every field of every message, and the results that the whole program is held to.
func TestProtocol_WrittenDown(t *testing.T) {
	results, err := os.ReadFile("../internal/samebits/testdata/digests.csv")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "protocol %d\nresults %.16x\n", HostProtocol, sha256.Sum256(results))
	messages := File_fedpace_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			kind := f.Kind().String()
			if f.Kind() == protoreflect.MessageKind {
				kind = string(f.Message().Name())
			}
			fmt.Fprintf(&text, "%s.%s %d %s %s\n", messages.Get(i).Name(), f.Name(), f.Number(), f.Cardinality(), kind)
		}
	}
	const path = "testdata/protocol.txt"
	if *rewrite {
		if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(written), "\n"), strings.Split(text.String(), "\n")
	var changes []string
	for _, line := range was {
		if !slices.Contains(is, line) {
			changes = append(changes, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			changes = append(changes, "+ "+line)
		}
	}
	if len(changes) > 0 {
		t.Errorf("messages or results have changed:\n%s\nIf a host of before would misread one, plan otherwise or compute another sum, raise HostProtocol. Then: go test ./bus -run Protocol -rewrite", strings.Join(changes, "\n"))
	}
}

// A commit is one version, however the go command names a build of it.
func TestVersionsDiffer_BuildsOfCommit(t *testing.T) {
	const built = "v0.0.0-20261125232112-9eb785dab17c"
	for other, differs := range map[string]bool{
		built: false, built + "+dirty": false, "9eb785dab17c": false, "v1.2.1-0.20261125232112-9eb785dab17c": false, "development": false, "": false,
		"v0.0.0-20261125232112-9eb785dab17d": true, "v1.2.0": true,
	} {
		if VersionsDiffer(built, other) != differs || VersionsDiffer(other, built) != differs {
			t.Errorf("%q differs: %v", other, !differs)
		}
	}
	if !VersionsDiffer("v1.2.0", "v1.2.1") || VersionsDiffer("v1.2.0", "v1.2.0+dirty") {
		t.Error("tags are compared otherwise")
	}
}

// Why a device leaves may end on a terminal: what cannot be printed, or is long, is refused, and a
// device of this program sends neither.
func TestReasons_Printable(t *testing.T) {
	for _, why := range []string{"\x1b[2J", "a\nb", strings.Repeat("x", maxWhy+1)} {
		if err := (&Heartbeat{Leaves: why}).Validate(); err == nil {
			t.Errorf("%.20q is taken", why)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		why := rapid.OneOf(rapid.String(), rapid.StringN(0, -1, 2*maxWhy), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "why")
		if _, err := Marshal(nil, &Heartbeat{Leaves: Printable(why)}); err != nil {
			t.Error(err)
		}
		if err := (&Heartbeat{Leaves: Printable(why)}).Validate(); err != nil {
			t.Error(err)
		}
	})
}
