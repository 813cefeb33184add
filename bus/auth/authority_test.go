package auth_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"fedpace/bus/auth"
)

func TestKeys_Kept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := auth.Open(dir); !errors.Is(err, auth.ErrNoAuthority) {
		t.Errorf("got %v", err)
	}
	a, err := auth.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"17", "", "a.b", "a b", "é", "_x", strings.Repeat("x", 65)} {
		if _, err := a.Issue(auth.Grant{Role: auth.RoleDevice, ID: id}); err == nil {
			t.Errorf("%q is enrolled", id)
		}
	}
	if _, err := a.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s (%v)", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A server that is running refuses another operator when it reloads.
	operator := func() string {
		text, err := a.ServerConfiguration()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = strings.Cut(text, "operator: ")
		line, _, _ := strings.Cut(text, "\n")
		return line
	}
	claims, err := jwt.DecodeOperatorClaims(operator())
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "operator.nk"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		t.Fatal(err)
	}
	claims.Tags.Add("earlier")
	earlier, err := claims.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.jwt"), []byte(earlier+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := operator(); now != earlier {
		t.Errorf("the operator was %q, is %q", earlier, now)
	}
	if err := os.Chmod(filepath.Join(dir, "runs.nk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Open(dir); err == nil || !strings.Contains(err.Error(), "make it 0600") {
		t.Errorf("a seed that others may read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.nk"), []byte("SUAOOPS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Open(dir); err == nil || !strings.Contains(err.Error(), "operator.nk holds no seed") {
		t.Errorf("a broken seed: %v", err)
	}
}

// A renewal never lets its holder do more than before, unless that is said.
func TestIssue_RenewalKeepsLimits(t *testing.T) {
	a, err := auth.New(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(g auth.Grant) auth.Holder {
		t.Helper()
		creds, err := a.Issue(g)
		if err != nil {
			t.Fatal(err)
		}
		h, err := auth.ReadHolder(creds)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := auth.Grant{Role: auth.RoleDevice, ID: "pi", Run: "r", Samples: 100, Lifetime: 720 * time.Hour}
	h := issue(first)
	if left := time.Until(h.Expires); h.Samples != 100 || left > 720*time.Hour || left < 719*time.Hour {
		t.Errorf("credentials for %d samples and %v", h.Samples, left)
	}
	again := issue(auth.Grant{Role: auth.RoleDevice, ID: "pi", Renew: true})
	if left := time.Until(again.Expires); again.Samples != 100 || left > 720*time.Hour || left < 719*time.Hour {
		t.Errorf("renewed for %d samples and %v", again.Samples, left)
	}
	if more := issue(auth.Grant{Role: auth.RoleDevice, ID: "pi", Samples: 200, Lifetime: time.Hour, Renew: true}); more.Samples != 200 || time.Until(more.Expires) > time.Hour {
		t.Errorf("renewed for %d samples until %v", more.Samples, more.Expires)
	}
	if err := a.Revoke(auth.RoleDevice, "pi"); err != nil {
		t.Fatal(err)
	}
	if free := issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"}); free.Samples != 0 || !free.Expires.IsZero() {
		t.Errorf("enrolled anew for %d samples until %v", free.Samples, free.Expires)
	}
	for want, g := range map[string]auth.Grant{
		"want whole seconds":         {Role: auth.RoleDevice, ID: "a", Lifetime: time.Millisecond},
		"want at most 16777216":      {Role: auth.RoleDevice, ID: "a", Samples: 1<<24 + 1},
		"has no samples of its own":  {Role: auth.RoleHost, ID: "a", Samples: 1},
		"speaks for no other device": {Role: auth.RoleDevice, ID: "a", Devices: []string{"b"}},
	} {
		if _, err := a.Issue(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
}

// Credentials that were enrolled by a clock that was a day ahead end, too, when they are revoked.
func TestRevoke_ClockSetBack(t *testing.T) {
	a, err := auth.New(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := a.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		revoked := false
		err := a.Revocations(func(c *jwt.AccountClaims, _ string) error {
			revoked = revoked || c.Revocations.IsRevoked(user.Subject, time.Now().Add(24*time.Hour))
			return nil
		})
		if err != nil || revoked != want {
			t.Errorf("revoked %v, %v; want %v", revoked, err, want)
		}
		if err := a.Revoke(auth.RoleDevice, "pi"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHolder_Expiry(t *testing.T) {
	now := time.Date(2027, 1, 2, 3, 4, 5, 0, time.Local)
	for _, c := range []struct {
		role    auth.Role
		left    time.Duration
		renewal string
		usable  bool
	}{
		{auth.RoleDevice, auth.Soon + time.Hour, "", true},
		{auth.RoleDevice, auth.Soon - time.Hour, "fedpace enroll --renew x", true},
		{auth.RoleSite, time.Second, "fedpace enroll --renew --site x", true},
		{auth.RoleHost, 0, "fedpace enroll --renew --host x", false},
		{auth.RoleCoordinator, -time.Hour, "fedpace enroll --renew --coordinator x", false},
	} {
		h := auth.Holder{Role: c.role, ID: "x", Expires: now.Add(c.left)}
		if _, renewal := h.RenewalDue(now); renewal != c.renewal || (h.CheckExpiry(now) == nil) != c.usable {
			t.Errorf("%s with %v left: renewed by %q, usable: %v", c.role, c.left, renewal, h.CheckExpiry(now))
		}
	}
	if h := (auth.Holder{}); h.CheckExpiry(now) != nil || h.Until() != "until they are revoked" {
		t.Errorf("credentials without an end: %v", h.CheckExpiry(now))
	}
}
