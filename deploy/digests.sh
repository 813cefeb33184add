#!/bin/sh
# Writes behind the tag of each image in the files of deploy/ the digest that its registry
# has for it now, so that what is started later is that very image. It needs docker and
# the network; look at the difference before you commit it.
#
#   deploy/digests.sh [FOLDER]
set -eu

cd "${1:-$(dirname "$0")}"

# tags FILE: the images of others, without digests.
tags() {
	sed -nE 's/^ *image: ([^ @]+).*/\1/p; s/^FROM (--platform=[^ ]+ )?([^ @]+).*/\2/p' "$1" | grep -vE '^(scratch|fedpace:local)$' | sort -u
}

for file in compose.yaml Dockerfile kubernetes/*.yaml; do
	for tag in $(tags "$file"); do
		digest=$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
		case $digest in
		sha256:*) ;;
		*) echo "digests.sh: $tag: the registry says $digest" >&2; exit 1 ;;
		esac
		sed -E "s|^( *image: \|FROM (--platform=[^ ]+ )?)$tag(@sha256:[0-9a-f]+)?|\1$tag@$digest|" "$file" >"$file.new"
		cat "$file.new" >"$file"
		rm "$file.new"
		echo "$file: $tag@$digest"
	done
done
