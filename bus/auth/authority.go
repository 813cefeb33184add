package auth

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"fedpace/bus"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
)

// Role is what a holder of credentials is to the server.
type Role string

// The roles.
const (
	// RoleDevice is a real client.
	RoleDevice Role = "device"
	// RoleHost answers for simulated clients and trains their models.
	RoleHost Role = "host"
	// RoleCoordinator drives runs.
	RoleCoordinator Role = "coordinator"
	// RoleSite is a server to which the devices of one place connect.
	RoleSite Role = "site"
)

// Authority issues the credentials of a server's users and revokes them. Its
// keys are in a folder of its own: every reader of that folder can impersonate
// every user.
//
//	operator.nk, system.nk, runs.nk, devices.nk   seeds (nkeys)
//	operator.jwt                                  the operator's claims, which must not change while a server runs
//	users/<role>-<id>.json                        the users that hold credentials
//
// Coordinators and hosts are users of one NATS account, devices of another,
// which reaches the first through a few kinds of subject only. Permissions alone
// would not keep them apart: a server answers a request on whatever reply
// subject it names, also on one that the asker may not publish on.
//
// Several processes may use one folder.
type Authority struct {
	dir                             string
	operator, system, runs, devices keyPair
}

// keyPair is a key and its public half as text.
type keyPair struct {
	nkeys.KeyPair
	public string
}

// ErrNoAuthority is wrapped by Open's error about a folder without keys.
var ErrNoAuthority = errors.New("there are no keys")

// key is one of an authority's keys, which has a file of its name.
type key struct {
	name string
	kind nkeys.PrefixByte
	pair *keyPair
}

// keys lists the authority's keys with their names, by which their files are called, their kinds, and where
// their pairs are in a.
func (a *Authority) keys() []key {
	return []key{
		{"operator", nkeys.PrefixByteOperator, &a.operator},
		{"system", nkeys.PrefixByteAccount, &a.system},
		{"runs", nkeys.PrefixByteAccount, &a.runs},
		{"devices", nkeys.PrefixByteAccount, &a.devices},
	}
}

// New opens the keys in the folder dir, and makes them first where there are none. Two processes
// may call it at once: a key that is there already is kept.
func New(dir string) (*Authority, error) {
	a, err := Open(dir)
	if !errors.Is(err, ErrNoAuthority) {
		return a, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "users"), 0o700); err != nil {
		return nil, fmt.Errorf("bus: folder of keys: %w", err)
	}
	// The operator's key comes last: Open takes its presence as the sign that all keys exist.
	for _, k := range slices.Backward(new(Authority).keys()) {
		pair, err := nkeys.CreatePair(k.kind)
		var seed []byte
		if err == nil {
			seed, err = pair.Seed()
		}
		if err != nil {
			return nil, fmt.Errorf("bus: make a key: %w", err)
		}
		if err := writeIfAbsent(filepath.Join(dir, k.name+".nk"), append(seed, '\n')); err != nil {
			return nil, err
		}
	}
	return Open(dir)
}

// writeIfAbsent writes a secret file in one step, so that no reader sees half of it. A file that exists
// stays: another process may have made it at the same time.
func writeIfAbsent(path string, b []byte) error {
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(temporary)
	err := os.WriteFile(temporary, b, 0o600)
	if err == nil {
		err = os.Link(temporary, path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("bus: keys: %w", err)
	}
	return nil
}

// Open opens the keys in the folder dir, all of which must exist and be of the right kind. The
// error wraps ErrNoAuthority where there are none.
func Open(dir string) (*Authority, error) {
	a := &Authority{dir: dir}
	for _, k := range a.keys() {
		path := filepath.Join(dir, k.name+".nk")
		seed, err := readSecret(path)
		if k.name == "operator" && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("bus: %w in %s (fedpace enroll makes them)", ErrNoAuthority, dir)
		}
		if err != nil {
			return nil, err
		}
		k.pair.KeyPair, err = nkeys.FromSeed(bytes.TrimSpace(seed))
		if err == nil {
			k.pair.public, err = k.pair.PublicKey()
		}
		// A key under another key's name would sign what no server accepts.
		if err == nil && nkeys.Prefix(k.pair.public) != k.kind {
			err = errors.New("it is of another kind than its name says")
		}
		if err != nil {
			return nil, fmt.Errorf("bus: keys: %s holds no seed: %w", path, err)
		}
	}
	return a, nil
}

// maxSecret bounds, in bytes, a file with a key or a user. maxToken bounds the signed claims of a user: a
// server accepts 64 KiB in the line by which another server joins it.
const (
	maxSecret = 1 << 20
	maxToken  = 48 << 10
)

// readSecret returns the content of a file with a secret. It is an error if other users of the machine
// may read the file, or if it is longer than maxSecret. A missing file wraps [fs.ErrNotExist].
func readSecret(path string) (b []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.Mode().Perm()&0o077 != 0:
		err = fmt.Errorf("others may read %s (mode %#o); make it 0600", path, info.Mode().Perm())
	case info.Size() > maxSecret:
		err = fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), maxSecret)
	default:
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: keys: %w", err)
	}
	return b, nil
}

// Grant is what credentials are issued for.
type Grant struct {
	Role Role `json:"role"`
	// ID is a device's id, or the name of a host or coordinator. A device's
	// starts with a letter (simulated clients have the numbers).
	ID string `json:"id"`
	// Run limits a device to one run. Empty means every run that takes it.
	Run string `json:"run,omitempty"`
	// Samples is the largest number of samples that a device may report, 0 for any number.
	Samples uint64 `json:"samples,omitempty"`
	// Devices are the devices that connect through a site. They must have credentials
	// already: a site may do what they may, and nothing else.
	Devices []string `json:"devices,omitempty"`
	// Lifetime is how long the credentials are good for, in whole seconds. 0 means until
	// they are revoked.
	Lifetime time.Duration `json:"-"`
	// Renew issues new credentials and revokes the old ones. Run, Samples, Devices and
	// Lifetime stay as they were where they are not given.
	Renew bool `json:"-"`
}

// Check returns an error if there cannot be credentials for this grant: the role is unknown, an id
// is not valid, or the grant has a field that its role does not have.
func (g *Grant) Check() error {
	switch g.Role {
	case RoleDevice:
		if err := names.CheckDevice(g.ID); err != nil {
			return err
		}
	case RoleHost, RoleCoordinator, RoleSite:
		if err := names.CheckToken(string(g.Role), g.ID); err != nil {
			return err
		}
	default:
		return fmt.Errorf("bus: %q is not a role (device, host, coordinator or site)", g.Role)
	}
	switch {
	case g.Lifetime < 0 || g.Lifetime%time.Second != 0:
		return fmt.Errorf("bus: credentials for %v, want whole seconds", g.Lifetime)
	// Only devices are restricted to a run and to a number of samples.
	case g.Role != RoleDevice && g.Run != "":
		return fmt.Errorf("bus: credentials of a %s are for all runs", g.Role)
	case g.Role != RoleDevice && g.Samples != 0:
		return fmt.Errorf("bus: a %s has no samples of its own to limit", g.Role)
	case g.Role != RoleSite && len(g.Devices) > 0:
		return fmt.Errorf("bus: a %s speaks for no other devices", g.Role)
	case g.Samples > bus.MaxDeviceSamples:
		return fmt.Errorf("bus: at most %d samples, want at most %d", g.Samples, uint64(bus.MaxDeviceSamples))
	case g.Run != "":
		return names.CheckToken("run", g.Run)
	}
	return nil
}

// ErrEnrolled is wrapped by Issue's error about an id that has credentials.
var ErrEnrolled = errors.New("has credentials already")

// Issue makes credentials and records their user. It returns a file as NATS clients read it, which has
// the only copy of the user's key. An id that has valid credentials gets no second ones, unless the grant
// renews them.
func (a *Authority) Issue(g Grant) ([]byte, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	now := time.Now()
	u := new(user)
	old, err := readUser(a.userPath(g.Role, g.ID))
	switch {
	// A second key for a user in force is issued only on request.
	case err == nil && !g.Renew && old.inForce(now):
		return nil, fmt.Errorf("bus: %s %s %w", g.Role, g.ID, ErrEnrolled)
	case err == nil:
		u = old
		u.revoke(now)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	// A renewal keeps what it does not change.
	if g.Renew {
		g.inherit(u)
	}
	devices, err := a.siteDevices(&g)
	if err != nil {
		return nil, err
	}
	public, creds, err := a.newUser(g, devices)
	if err != nil {
		return nil, err
	}
	key := userKey{Public: public, Issued: now.Unix()}
	u.Lifetime = int64(g.Lifetime / time.Second)
	if u.Lifetime > 0 {
		key.Expires = key.Issued + u.Lifetime
	}
	u.Grant = g
	u.Keys = append(u.Keys, key)
	return creds, a.save(u)
}

// inherit sets the fields that a renewal leaves empty (run, samples, lifetime and devices) from u, the
// user as it was before.
func (g *Grant) inherit(u *user) {
	g.Run = cmp.Or(g.Run, u.Run)
	g.Samples = cmp.Or(g.Samples, u.Samples)
	g.Lifetime = cmp.Or(g.Lifetime, time.Duration(u.Lifetime)*time.Second)
	if len(g.Devices) == 0 {
		g.Devices = u.Devices
	}
}

// siteDevices returns the grants of the devices that come through the site of grant g; none for
// other roles. Each of them must have credentials that are in force.
func (a *Authority) siteDevices(g *Grant) (list []Grant, err error) {
	if g.Role == RoleSite && len(g.Devices) == 0 {
		return nil, errors.New("bus: a site without devices can do nothing: name those that come through it")
	}
	for _, id := range g.Devices {
		if err := names.CheckDevice(id); err != nil {
			return nil, err
		}
		u, err := readUser(a.userPath(RoleDevice, id))
		// Credentials that were revoked or have ended do not count.
		isEnrolled := err == nil && u.inForce(time.Now())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if !isEnrolled {
			return nil, fmt.Errorf("bus: device %s of site %s has no credentials: enroll it first", id, g.ID)
		}
		list = append(list, u.Grant)
	}
	return list, nil
}

// newUser makes a user's key and signs credentials that say what grant g lets it do. devices are
// the grants of a site's devices. It returns the public key, and the text of the credentials with
// the secret key in it.
func (a *Authority) newUser(g Grant, devices []Grant) (public string, creds []byte, err error) {
	pair, err := nkeys.CreateUser()
	var seed []byte
	if err == nil {
		seed, err = pair.Seed()
	}
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		return "", nil, fmt.Errorf("bus: make a key: %w", err)
	}
	c := jwt.NewUserClaims(public)
	c.Name = string(g.Role) + " " + g.ID
	// The account that signs decides which subjects the user reaches at all.
	signer := a.runs
	switch g.Role {
	case RoleDevice:
		signer = a.devices
		c.Limits.Subs = deviceSubscriptions
		c.Limits.Payload = deviceMessage
	case RoleSite:
		signer = a.devices
		c.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeLeafnode}
	}
	if g.Lifetime > 0 {
		c.Expires = time.Now().Add(g.Lifetime).Unix()
	}
	c.Pub.Allow, c.Sub.Allow = permissions(g, devices)
	token, err := c.Encode(signer)
	// The token of a site grows with its devices, and servers bound its length.
	if err == nil && len(token) > maxToken {
		err = fmt.Errorf("%d devices are too many for one site: make several", len(devices))
	}
	if err == nil {
		creds, err = jwt.FormatUserConfig(token, seed)
	}
	if err != nil {
		return "", nil, fmt.Errorf("bus: sign credentials: %w", err)
	}
	return public, creds, nil
}

// Revoke ends the credentials of a role's id. An embedded server in another process sees it
// within seconds (embedded.Config.Authority), an external server when its configuration is
// made and loaded again (ServerConfiguration).
func (a *Authority) Revoke(role Role, id string) error {
	if err := (&Grant{Role: role, ID: id}).Check(); err != nil {
		return err
	}
	u, err := readUser(a.userPath(role, id))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bus: %s %s has no credentials by the keys in %s", role, id, a.dir)
	}
	if err != nil {
		return err
	}
	u.revoke(time.Now())
	return a.save(u)
}

// user is the record of a holder of credentials, as its file holds it.
type user struct {
	Grant
	// Lifetime is in seconds.
	Lifetime int64     `json:"lifetime,omitempty"`
	Keys     []userKey `json:"keys"`
}

// userKey is one key of a user. Each issue of credentials makes another.
type userKey struct {
	Public string `json:"public"`
	// Issued is the time of issue, in Unix seconds.
	Issued int64 `json:"issued"`
	// Expires is in Unix seconds, 0 for never.
	Expires int64 `json:"expires,omitempty"`
	// Revoked is the time of revocation in Unix seconds, 0 if the key is not revoked.
	Revoked int64 `json:"revoked,omitempty"`
}

// inForce reports whether any key of the user is good for a connection now.
func (u *user) inForce(now time.Time) bool {
	return slices.ContainsFunc(
		u.Keys,
		func(k userKey) bool { return k.Revoked == 0 && (k.Expires == 0 || now.Unix() < k.Expires) },
	)
}

// revoke marks all keys of the user that are not yet revoked as revoked at the time now. The server
// refuses them from the next reading of the accounts on.
func (u *user) revoke(now time.Time) {
	for i := range u.Keys {
		if u.Keys[i].Revoked == 0 {
			u.Keys[i].Revoked = now.Unix()
		}
	}
}

// userPath returns the path of the file of a user.
func (a *Authority) userPath(role Role, id string) string {
	return filepath.Join(a.dir, "users", string(role)+"-"+id+".json")
}

// readUser reads the file of a user at path and checks its public keys. A missing file is an error
// that wraps [fs.ErrNotExist].
func readUser(path string) (*user, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	var u user
	if err := json.Unmarshal(b, &u); err != nil {
		return nil, fmt.Errorf("bus: keys: %s: %w", path, err)
	}
	for _, k := range u.Keys {
		if !nkeys.IsValidPublicUserKey(k.Public) {
			return nil, fmt.Errorf("bus: keys: %s: %q is not a user's public key", path, k.Public)
		}
	}
	return &u, nil
}

// save writes the file of user u, in place of an existing one, readable by its owner alone. The
// file is complete or not changed.
func (a *Authority) save(u *user) error {
	b, err := json.MarshalIndent(u, "", "  ")
	if err == nil {
		err = atomicfile.WriteSecret(a.userPath(u.Role, u.ID), atomicfile.Bytes(append(b, '\n')))
	}
	if err != nil {
		return fmt.Errorf("bus: keys: %w", err)
	}
	return nil
}

// userFiles returns the paths of all users' files.
func (a *Authority) userFiles() []string {
	// Glob fails only on a malformed pattern, and this one is well formed.
	files, _ := filepath.Glob(filepath.Join(a.dir, "users", "*.json"))
	return files
}

// UsersState returns a text that changes whenever the file of a user does: paths, sizes and times
// of change. A server compares it with an earlier one to notice revocations.
func (a *Authority) UsersState() (state string) {
	for _, path := range a.userFiles() {
		if info, err := os.Stat(path); err == nil {
			state += fmt.Sprintln(path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return state
}

// InProcess returns the options of a connection within the server's process, with credentials of a
// coordinator whose key never leaves memory.
func (a *Authority) InProcess() ([]nats.Option, error) {
	_, creds, err := a.newUser(Grant{Role: RoleCoordinator, ID: "inside"}, nil)
	return []nats.Option{nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(InboxPrefix("inside"))}, err
}

// forever is the time up to which a revocation applies to credentials, by when they were signed. It is
// far in the future because the clock may have been set back since they were signed. No key is enrolled
// twice, so nothing else is revoked by it.
var forever = time.Unix(1<<53-1, 0)

// accounts are the claims of a server's accounts, with all revocations.
type accounts struct{ system, runs, devices *jwt.AccountClaims }

// accounts builds the claims of the three accounts: that of the server's own events, that of
// coordinators and hosts, and that of devices, which reaches the second through the gates alone.
func (a *Authority) accounts() (*accounts, error) {
	account := func(name string, k keyPair) *jwt.AccountClaims {
		c := jwt.NewAccountClaims(k.public)
		c.Name = name
		c.Revocations = jwt.RevocationList{}
		return c
	}
	c := &accounts{account("system", a.system), account("runs", a.runs), account("devices", a.devices)}
	const unlimited = int64(jwt.NoLimit)
	c.runs.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: unlimited,
		DiskStorage:   unlimited,
		Streams:       unlimited,
		Consumer:      unlimited,
	}
	// A gate is a subject that the account of runs exports to that of devices.
	for _, g := range gates {
		c.runs.Exports.Add(&jwt.Export{Name: g.name, Subject: jwt.Subject(g.subject), Type: g.kind})
		c.devices.Imports.Add(&jwt.Import{
			Name:    g.name,
			Subject: jwt.Subject(g.subject),
			Account: a.runs.public,
			Type:    g.kind,
		})
	}
	c.devices.Imports.Add(&jwt.Import{
		Name:         "models for sites",
		Subject:      anyModel,
		LocalSubject: siteModel,
		Account:      a.runs.public,
		Type:         jwt.Service,
	})
	for _, path := range a.userFiles() {
		u, err := readUser(path)
		if err != nil {
			return nil, err
		}
		// Keys are revoked in the account that signed them.
		list := c.runs.Revocations
		if u.Role == RoleDevice || u.Role == RoleSite {
			list = c.devices.Revocations
		}
		for _, k := range u.Keys {
			if k.Revoked != 0 {
				list.Revoke(k.Public, forever)
			}
		}
	}
	return c, nil
}

// operatorToken returns the signed claims of the operator. They are signed once and kept in the folder,
// since a running server refuses a configuration in which they differ. Claims of other keys are an error.
func (a *Authority) operatorToken() (string, error) {
	o := jwt.NewOperatorClaims(a.operator.public)
	o.Name = "fedpace"
	o.SystemAccount = a.system.public
	path := filepath.Join(a.dir, "operator.jwt")
	b, err := readSecret(path)
	// The first call signs the claims; another process may do so at the same time.
	if errors.Is(err, fs.ErrNotExist) {
		token, signErr := o.Encode(a.operator)
		if signErr != nil {
			return "", fmt.Errorf("bus: sign the operator's claims: %w", signErr)
		}
		if err := writeIfAbsent(path, []byte(token+"\n")); err != nil {
			return "", err
		}
		b, err = readSecret(path)
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	stored, err := jwt.DecodeOperatorClaims(token)
	isOurs := err == nil && stored.Subject == o.Subject && stored.SystemAccount == o.SystemAccount
	if !isOurs {
		return "", fmt.Errorf("bus: keys: %s is not of these keys; remove it", path)
	}
	return token, nil
}

// configuration returns the part of a server's configuration file that names the operator and these
// accounts, with a signed token for each.
func (a *Authority) configuration(accounts ...*jwt.AccountClaims) (string, error) {
	operator, err := a.operatorToken()
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n",
		operator,
		a.system.public,
	)
	err = a.sign(accounts, func(c *jwt.AccountClaims, token string) error {
		text += fmt.Sprintf("  %s: %s\n", c.Subject, token)
		return nil
	})
	return text + "}\n", err
}

// sign signs the claims of each account with the operator's key and passes both to emit, in their
// order. It ends at the first error.
func (a *Authority) sign(accounts []*jwt.AccountClaims, emit func(c *jwt.AccountClaims, token string) error) error {
	for _, c := range accounts {
		token, err := c.Encode(a.operator)
		if err == nil {
			err = emit(c, token)
		}
		if err != nil {
			return fmt.Errorf("bus: account %s: %w", c.Name, err)
		}
	}
	return nil
}

// Revocations passes the two accounts in which credentials can be revoked to emit, with all
// revocations so far and as signed tokens.
func (a *Authority) Revocations(emit func(c *jwt.AccountClaims, token string) error) error {
	c, err := a.accounts()
	if err != nil {
		return err
	}
	return a.sign([]*jwt.AccountClaims{c.runs, c.devices}, emit)
}

// ServerConfiguration returns the text that the configuration file of an external nats-server needs in
// order to accept these credentials, with the revocations so far. After revocations the file must be
// written again and loaded by nats-server --signal reload, which also closes open connections.
func (a *Authority) ServerConfiguration() (string, error) {
	c, err := a.accounts()
	if err != nil {
		return "", err
	}
	text, err := a.configuration(c.system, c.runs, c.devices)
	return "# Accounts of fedpace: coordinators and hosts in one, devices in the other.\n" + text, err
}

// siteLimits bound a server to which only devices connect: all connections, and what may wait for one
// that does not read.
const siteLimits = "max_connections: 4096\nmax_pending: 8MB\nwrite_deadline: \"10s\"\n"

// siteFormat is the format of the configuration of a site's server: of its accounts, and of the addresses, the
// account, the credentials and the TLS settings of its leaf node.
const siteFormat = "# A site's server of fedpace: its devices, and the way to the runs.\n" + siteLimits + `%sleafnodes {
  remotes: [ { urls: [%s], account: %s, credentials: %q%s } ]
}
`

// SiteConfiguration returns the text that the configuration file of a site's own
// server needs: a leaf node of the servers at urls, to which the devices of the site
// connect with their own credentials. It holds no key; creds is the path of the
// credentials of a RoleSite there, and ca that of the authority whose certificates
// the servers have, empty for one that the system knows.
func (a *Authority) SiteConfiguration(urls []string, creds, ca string) (string, error) {
	c, err := a.accounts()
	if err != nil {
		return "", err
	}
	c.devices.Mappings = jwt.Mapping{anyModel: []jwt.WeightedMapping{{Subject: siteModel}}}
	// The account is not on this server: messages go to the other end of the leaf connection.
	c.devices.Imports = nil
	text, err := a.configuration(c.system, c.devices)
	tls := ""
	if ca != "" {
		tls = fmt.Sprintf(", tls: { ca_file: %q }", ca)
	}
	return fmt.Sprintf(
		siteFormat,
		text,
		strings.Join(names.Of(urls, strconv.Quote), ", "),
		a.devices.public,
		creds,
		tls,
	), err
}
