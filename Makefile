# What a release is made of. Everything else is the go command's.

PLATFORMS = linux-amd64 linux-arm64 linux-armv7 darwin-arm64 windows-amd64

.PHONY: build dist check clean

# One static binary for this machine.
build:
	CGO_ENABLED=0 go build -trimpath -o fedpace ./cmd/fedpace

# Static binaries of all platforms in dist/, with their checksums, manual pages and
# completion scripts: arm64 for a Raspberry Pi with a 64-bit system, armv7 for one
# with a 32-bit system.
dist: $(PLATFORMS:%=dist/%)
	go run ./cmd/fedpace man dist/man
	mkdir -p dist/completion
	for shell in bash zsh fish powershell; do go run ./cmd/fedpace completion $$shell > dist/completion/fedpace.$$shell || exit 1; done
	cd dist && sha256sum fedpace-* > SHA256SUMS

dist/%:
	@mkdir -p dist
	CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(patsubst armv7,arm,$(word 2,$(subst -, ,$*))) GOARM=7 \
		go build -trimpath -ldflags="-s -w" -o dist/fedpace-$*$(if $(filter windows-%,$*),.exe) ./cmd/fedpace

check:
	bash .ci/run

clean:
	rm -rf dist fedpace
