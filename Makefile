# What a release is made of. Everything else is the go command's.

PLATFORMS = linux-amd64 linux-arm64 linux-armv7 darwin-arm64 windows-amd64
BOARDS = $(filter linux-%,$(PLATFORMS))
VERSION := $(shell git describe --always --tags --dirty 2>/dev/null || echo development)

# Lists what a binary is made of, without a time or number of its own, so that one binary has one list.
SBOM = GOOS= GOARCH= go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin -json -std -noserial -notimestamp

# The time in archives and pages is the commit's: one commit makes one set of bits.
export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: build test lint bench findings dist examples check clean digests site screenshots

# Static binaries for this machine: the whole program, and a real device's.
build:
	CGO_ENABLED=0 go build -trimpath -o . ./cmd/...

# Static binaries of all platforms in dist/, each with the list of what is in it
# (CycloneDX) and a Python wheel that holds it, with the licence, manual pages, completion scripts, and
# the checksums of all of that. fedpace-device is for real devices: arm64 for a Raspberry Pi with a 64-bit system, armv7
# for one with a 32-bit system. The archives have what installs it as a service.
dist: $(PLATFORMS:%=dist/fedpace-%) $(PLATFORMS:%=dist/fedpace-device-%) $(BOARDS:%=dist/fedpace-device-$(VERSION)-%.tar.gz)
	go run ./cmd/fedpace man dist/man
	cp LICENSE CHANGELOG.md dist/
	mkdir -p dist/completion
	for shell in bash zsh fish powershell; do go run ./cmd/fedpace completion $$shell > dist/completion/fedpace.$$shell || exit 1; done
	for binary in $$(find dist -maxdepth 1 -name 'fedpace-*' ! -name '*.tar.gz' ! -name '*.json' | sort); do \
		$(SBOM) -output $$binary.cdx.json $$binary || exit 1; \
	done
	GOOS= GOARCH= go run ./internal/wheel -version "$(VERSION)" -out dist \
		$$(find dist -maxdepth 1 -name 'fedpace-*' ! -name 'fedpace-device-*' ! -name '*.json' ! -name '*.whl' | sort)
	cd dist && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

# $(call binary,PROGRAM,PLATFORM)
define binary
	@mkdir -p dist
	CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$2)) GOARCH=$(patsubst armv7,arm,$(word 2,$(subst -, ,$2))) GOARM=7 \
		go build -trimpath -ldflags="-s -w" -o dist/$1-$2$(if $(filter windows-%,$2),.exe) ./cmd/$1
endef

dist/fedpace-device-%:
	$(call binary,fedpace-device,$*)

# The archive unpacks into a folder of its own, whoever makes it.
dist/fedpace-device-$(VERSION)-%.tar.gz: dist/fedpace-device-%
	rm -rf dist/board-$* && mkdir -p dist/board-$*/fedpace-device
	cp deploy/device/install.sh deploy/device/README.txt deploy/device/fedpace-actor@.service LICENSE dist/board-$*/fedpace-device
	cp $< dist/board-$*/fedpace-device/fedpace-device
	chmod -R u=rwX,go=rX dist/board-$*
	tar -C dist/board-$* --owner=0 --group=0 --numeric-owner --sort=name --mtime=@$(SOURCE_DATE_EPOCH) -cf - fedpace-device | gzip -9n > $@
	rm -r dist/board-$*

dist/fedpace-%:
	$(call binary,fedpace,$*)

# The digests of the images in deploy/, written behind their versions. Needs docker.
digests:
	deploy/digests.sh

# Every example that compares a policy with its paper: its table and its figure anew.
examples: build
	for script in examples/*/run.sh; do sh $$script || exit 1; done

# The pages as a website, in the folder _site (which go ignores). Needs uv (PyPI). A link that leads
# nowhere fails it.
site:
	rm -rf _pages _site && mkdir _pages
	git archive HEAD | tar -x -C _pages
	printf '<meta http-equiv="refresh" content="0; url=docs/README.html">\n' > _pages/index.html
	NO_COLOR=1 uvx zensical@0.0.72 build --clean --strict
	rm -r _pages

# The pictures on the pages (needs Chromium).
screenshots:
	go test -tags screenshots ./docs/screenshots -count=1 -timeout 30m -screenshots ../../docs

check:
	bash .ci/run

test:
	go test ./...

# What a reader and a linter object to: the project's own counts, and golangci-lint by .golangci.yml.
lint:
	go vet ./...
	go tool staticcheck ./...
	go test ./internal/archtest
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

# Benchmarks beside PyTorch, and the pages that show them.
bench:
	python3 internal/bench

# Surprises of other people's software, each played anew in a folder of its own. Needs uv (PyPI).
findings:
	for script in findings/*.sh; do echo "== $$script"; bash $$script || exit 1; done

clean:
	rm -rf dist _pages _site fedpace fedpace-device
