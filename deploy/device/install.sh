#!/bin/sh
# Installs fedpace-device on a Linux board as a service that starts with it, or takes it
# away. Giving the same command again upgrades the program and keeps the settings that
# are not given: the URL, DATA and what is withheld.
#
#   sudo ./install.sh [--withhold samples,loss,log|nothing] pi-kitchen.creds tls://lab:4222 [DATA]
#   sudo ./install.sh --remove pi-kitchen
#   sudo ./install.sh                 in an archive of "fedpace enroll --list"
#
# DATA is the path of the device's own samples, readable for all users, or synthetic, as
# they are where nothing was ever given. --withhold keeps how many there are, the device's
# losses, or what it logs, from the run.
# A ca.pem beside the credentials is the authority that the server's certificate must be of.
# DESTDIR=FOLDER installs below a folder and starts nothing.
set -eu

root=${DESTDIR:-}
etc=$root/etc/fedpace
here=$(dirname "$0")

fail() { echo "install.sh: $*" >&2; exit 1; }

# service COMMAND...: systemctl, on the machine itself.
service() { [ -n "$root" ] || systemctl "$@"; }

# was KEY: what the device's settings have so far.
was() { [ ! -e "$env" ] || sed -n "s/^$1=//p" "$env"; }

# name_of ID: refuses what is no device's name.
name_of() {
	case $1 in
	'' | [!a-zA-Z]* | *[!a-zA-Z0-9_-]*) fail "$1 is no device's name: letters, digits, - and _, the first a letter" ;;
	esac
	echo "$1"
}

if [ "${1:-}" = --remove ]; then
	[ $# -eq 2 ] || fail "want --remove and the name of one device"
	id=$(name_of "$2")
	[ -e "$etc/$id.creds" ] || fail "no device $id is installed here"
	service disable --now "fedpace-actor@$id" || true
	rm -f "$etc/$id.creds" "$etc/$id.env" "$etc/$id.ca.pem"
	if ! ls "$etc"/*.creds >/dev/null 2>&1; then # it was the last one here
		rm -rf "$etc" "$root/usr/local/bin/fedpace-device" "$root/etc/systemd/system/fedpace-actor@.service"
	fi
	service daemon-reload
	echo "Device $id is removed."
	exit 0
fi

if [ $# -eq 0 ] && [ -r "$here/settings" ]; then
	{ read -r id && read -r url && read -r data; } <"$here/settings" || fail "settings is cut off: unpack the archive again"
	set -- "$here/$id.creds" "$url" "$data"
fi
withhold=
if [ "${1:-}" = --withhold ]; then
	withhold=${2:-}
	for what in $(echo "${withhold:-?}" | tr , ' '); do
		case $what in
		samples | loss | log) ;;
		*) [ "$withhold" = nothing ] || fail "--withhold $withhold: want samples, loss, log, or several of them with commas, or nothing" ;;
		esac
	done
	shift 2
	[ $# -ge 2 ] || fail "--withhold belongs to the server's URL, which is missing"
fi
[ $# -ge 1 ] && [ $# -le 3 ] || fail "want a file of credentials, a server's URL and perhaps a path of data (see the head of this file)"
creds=$1
[ -r "$creds" ] || fail "$creds cannot be read: copy the file that fedpace enroll made for this device here"
id=$(name_of "$(basename "$creds" .creds)")
env=$etc/$id.env
[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "it writes to /usr/local and /etc: run it with sudo"
[ -n "${2:-}" ] || [ -e "$env" ] || fail "the server's URL is missing: install.sh $creds tls://host:4222"
case ${3:-synthetic} in # the service sees neither homes nor /tmp
synthetic | trainer) ;;
/home/* | /root/* | /tmp/* | /var/tmp/*) fail "the service cannot see $3: move it to /var/lib/fedpace" ;;
/*)
	[ -e "$3" ] || fail "$3 does not exist"
	[ -n "$(find -L "$3" -prune -perm -004)" ] || fail "the service cannot read $3: sudo chmod o+r $3"
	;;
*) fail "$3: give the whole path of the data, such as /var/lib/fedpace/own.parquet" ;;
esac
"$here/fedpace-device" version >/dev/null || fail "this is the program of another architecture: uname -m says $(uname -m)"

install -D -m 755 "$here/fedpace-device" "$root/usr/local/bin/fedpace-device"
install -D -m 644 "$here/fedpace-actor@.service" "$root/etc/systemd/system/fedpace-actor@.service"
install -D -m 600 "$creds" "$etc/$id.creds"
ca=$(dirname "$creds")/ca.pem
if [ -r "$ca" ]; then install -m 644 "$ca" "$etc/$id.ca.pem"; fi
if [ -n "${2:-}" ]; then
	known=
	if [ -e "$etc/$id.ca.pem" ]; then known=/etc/fedpace/$id.ca.pem; fi
	data=${3:-$(was FEDPACE_DATA)}
	withhold=${withhold:-$(was FEDPACE_WITHHOLD)}
	[ "$withhold" != nothing ] || withhold=
	printf 'FEDPACE_NATS=%s\nFEDPACE_DATA=%s\nFEDPACE_WITHHOLD=%s\nFEDPACE_CA=%s\n' "$2" "${data:-synthetic}" "$withhold" "$known" >"$env.new"
	chmod 644 "$env.new"
	mv "$env.new" "$env"
fi
service daemon-reload
service enable "fedpace-actor@$id"
service restart "fedpace-actor@$id"
echo "Device $id is installed. It starts with this machine; journalctl -u fedpace-actor@$id shows what it does."
