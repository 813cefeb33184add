//go:build linux

package device

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asRoot plays install.sh as its users do, as root and without DESTDIR, in a namespace in which /etc and
// /usr/local/bin are its own. systemctl says what it is told, and starts what the unit file names.
const asRoot = `
set -e
mount -t tmpfs none /etc
mount -t tmpfs none /usr/local/bin
mkdir /etc/bin
cat >/etc/bin/systemctl <<'END'
#!/bin/sh
echo "systemctl $*"
[ "$1" = restart ] || exit 0
. "/etc/fedpace/${2#*@}.env"
id=${2#*@}
CREDENTIALS_DIRECTORY=/etc/credentials
mkdir -p $CREDENTIALS_DIRECTORY
cp "/etc/fedpace/$id.creds" $CREDENTIALS_DIRECTORY/creds
eval "$(sed -n 's/^ExecStart=//p' "/etc/systemd/system/${2%@*}@.service" | sed "s/%i/$id/")"
END
chmod 755 /etc/bin/systemctl
export PATH=/etc/bin:$PATH
echo x >/etc/own.csv
chmod 640 /etc/own.csv
! ./install.sh pi.creds nats://lab:4222 /etc/own.csv
./install.sh pi.creds nats://lab:4222 trainer
./install.sh --withhold loss pi.creds nats://other:4222
cp pi.creds hall.creds
./install.sh hall.creds nats://lab:4222
stat -c '%a %n' /etc/fedpace/* /etc/systemd/system/* /usr/local/bin/*
./install.sh --remove pi
ls /etc/fedpace
./install.sh --remove hall
ls /etc/systemd/system /usr/local/bin
test ! -e /etc/fedpace
`

const asRootSays = `install.sh: the service cannot read /etc/own.csv: sudo chmod o+r /etc/own.csv
systemctl daemon-reload
systemctl enable fedpace-actor@pi
systemctl restart fedpace-actor@pi
started with actor --nats nats://lab:4222 --tls-ca --client pi --creds /etc/credentials/creds --data trainer --withhold=
Device pi is installed. It starts with this machine; journalctl -u fedpace-actor@pi shows what it does.
systemctl daemon-reload
systemctl enable fedpace-actor@pi
systemctl restart fedpace-actor@pi
started with actor --nats nats://other:4222 --tls-ca --client pi --creds /etc/credentials/creds --data trainer --withhold=loss
Device pi is installed. It starts with this machine; journalctl -u fedpace-actor@pi shows what it does.
systemctl daemon-reload
systemctl enable fedpace-actor@hall
systemctl restart fedpace-actor@hall
started with actor --nats nats://lab:4222 --tls-ca --client hall --creds /etc/credentials/creds --data synthetic --withhold=
Device hall is installed. It starts with this machine; journalctl -u fedpace-actor@hall shows what it does.
600 /etc/fedpace/hall.creds
644 /etc/fedpace/hall.env
600 /etc/fedpace/pi.creds
644 /etc/fedpace/pi.env
644 /etc/systemd/system/fedpace-actor@.service
755 /usr/local/bin/fedpace-device
systemctl disable --now fedpace-actor@pi
systemctl daemon-reload
Device pi is removed.
hall.creds
hall.env
systemctl disable --now fedpace-actor@hall
systemctl daemon-reload
Device hall is removed.
/etc/systemd/system:

/usr/local/bin:
`

func TestInstall_AsRoot(t *testing.T) {
	if said, err := exec.CommandContext(t.Context(), "unshare", "-r", "-m", "mount", "-t", "tmpfs", "none", "/etc").CombinedOutput(); err != nil {
		t.Skipf("no namespace of users and mounts can be had here: %v: %s", err, said)
	}
	b := newBoard(t)
	b.put(filepath.Join(b.unpacked, "fedpace-device"), "#!/bin/sh\n[ \"$1\" = version ] || echo started with \"$@\"\n")
	c := exec.CommandContext(t.Context(), "unshare", "-r", "-m", "sh", "-c", asRoot)
	c.Dir = b.unpacked
	said, err := c.CombinedOutput()
	// What is empty is an argument of its own to systemd, which the line does not show.
	if got := strings.ReplaceAll(string(said), "--tls-ca  ", "--tls-ca "); err != nil || got != asRootSays {
		t.Errorf("%v: it says\n%s\nwant\n%s", err, got, asRootSays)
	}
}
