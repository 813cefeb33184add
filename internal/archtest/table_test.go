package archtest

// allowed says what every package may import, from the bottom up: a line holds a
// package and its imports, an indented line holds more of them. "folder/..."
// stands for a folder and all below it that has no line of its own. An import
// that is not listed fails, and so does an entry that nothing uses. A package of
// ours may be imported only by a line below its own.
//
// The standard library is free to use but for its ways out of the process: the
// machine's clock, files, network and signals (outside). A package without them
// is a pure function of what it is given.
const allowed = `
# Pure: numbers and formulas.
internal/keyed:
internal/cputime: time golang.org/x/sys/unix
internal/portable:
internal/names:
internal/tasks:
internal/registry:
internal/bitset:
internal/human: time
internal/robust:
internal/statistics: gonum.org/v1/gonum/...
internal/vector:
internal/connlimit: net
internal/atomicfile: os
internal/filelock: os golang.org/x/sys/unix
internal/regular: os
internal/table: internal/regular internal/atomicfile
simclock: time
python:
coordinator/fairshare:
coordinator/theory:
actors/measure:
coordinator/schedule: internal/registry github.com/expr-lang/expr/...
coordinator/closing: internal/registry simclock
coordinator/selection: internal/bitset internal/keyed internal/registry coordinator/closing coordinator/schedule simclock
coordinator/round: coordinator/selection internal/bitset internal/registry coordinator/closing coordinator/fairshare actors/measure coordinator/schedule simclock

# What clients learn from and how long it takes them.
actors/learn/internal/kernel: golang.org/x/sys/cpu
actors/learn/internal/kernel/gen: github.com/mmcloughlin/avo/...
actors/learn/network: internal/keyed internal/registry actors/learn/internal/kernel actors/measure
actors/learn: internal/keyed internal/names internal/portable internal/registry actors/learn/internal/kernel actors/learn/network actors/measure os
actors/attack: internal/keyed internal/portable internal/registry
actors/clientmodel: internal/regular internal/keyed internal/portable internal/registry actors/attack
actors/data/federated: internal/keyed internal/names internal/registry actors/learn os golang.org/x/sync/...
internal/testkit/datatest: actors/data/federated actors/learn os github.com/parquet-go/parquet-go/...
actors/data/parquetfile: actors/data/federated
	github.com/andybalholm/brotli github.com/klauspost/compress/... github.com/parquet-go/parquet-go/... github.com/pierrec/lz4/v4
actors/data/synthetic: internal/keyed actors/data/federated actors/learn
actors/data/table: internal/names internal/registry actors/data/federated actors/data/parquetfile actors/learn
	github.com/parquet-go/parquet-go/...
actors/data: internal/atomicfile internal/vector actors/data/federated actors/data/parquetfile actors/data/table actors/learn net/http os
	github.com/edsrzf/mmap-go github.com/go-json-experiment/json/... github.com/parquet-go/parquet-go/...
actors/data/fetch: internal/filelock net net/http os time
actors/algorithm: internal/keyed internal/portable internal/registry
actors/algorithm/combine: internal/registry actors/algorithm
actors/algorithm/privacy: internal/portable internal/registry internal/vector actors/algorithm

# Messages, and the two ends that talk by them.
bus: internal/human internal/names internal/vector time github.com/cespare/xxhash/... github.com/planetscale/vtprotobuf/... google.golang.org/protobuf/...
bus/internal/subject: bus internal/names
internal/mailbox:
internal/framing:
bus/memory: bus internal/mailbox internal/names time google.golang.org/protobuf/...
bus/internal/placement: bus time
bus/auth: internal/atomicfile bus bus/internal/subject internal/names os time
	github.com/nats-io/jwt/... github.com/nats-io/nats.go/... github.com/nats-io/nkeys/...
bus/certificate: internal/atomicfile net os time
bus/natsconn: bus bus/auth bus/internal/subject internal/names internal/vector net os time github.com/nats-io/nats.go/...
bus/natsbus: bus bus/natsconn internal/mailbox bus/internal/placement bus/internal/subject internal/names internal/vector os time
	github.com/nats-io/nats.go/... golang.org/x/sync/... google.golang.org/protobuf/...
bus/gateway: bus internal/mailbox bus/internal/subject internal/names internal/vector time golang.org/x/time/rate
	google.golang.org/protobuf/...
internal/testkit/simbus: bus internal/mailbox internal/names time google.golang.org/protobuf/...
internal/testkit/conformance: bus bus/gateway time github.com/google/go-cmp/... google.golang.org/protobuf/...
bus/quota:
bus/admission: bus/auth bus/quota internal/connlimit net time golang.org/x/sys/unix golang.org/x/time/rate
bus/embedded: bus bus/admission bus/auth bus/natsconn bus/quota internal/filelock net os time github.com/nats-io/...
internal/testkit/bustest: bus/auth bus/embedded bus/natsbus bus/natsconn internal/cputime os time github.com/nats-io/...
actors/external: internal/atomicfile internal/names internal/vector python actors/data/federated actors/learn actors/measure os/... syscall time github.com/edsrzf/mmap-go github.com/mattn/go-shellwords golang.org/x/sys/unix
actors: internal/keyed internal/registry internal/vector actors/attack actors/data/federated actors/external actors/learn actors/measure bus actors/algorithm actors/algorithm/privacy
actors/host: actors actors/clientmodel bus golang.org/x/sync/... time
actors/real: actors actors/data actors/external actors/data/federated actors/data/synthetic actors/data/table actors/learn bus bus/gateway actors/algorithm actors/algorithm/privacy time
actors/calibrate: internal/human internal/keyed internal/names internal/robust internal/tasks actors actors/data/federated actors/external actors/learn actors/real bus bus/gateway actors/algorithm os
	os time google.golang.org/protobuf/proto
actors/doctor: actors/calibrate actors/learn actors/real bus bus/auth bus/gateway bus/natsconn internal/human os time golang.org/x/sys/unix
coordinator/realdevices: internal/human internal/portable internal/robust bus bus/gateway bus/quota actors/algorithm coordinator/round simclock time
coordinator: internal/registry actors/learn bus actors/algorithm actors/algorithm/combine coordinator/realdevices actors/measure actors/algorithm/privacy coordinator/round simclock time

# What a run shows.
metrics/figure: internal/atomicfile internal/statistics gonum.org/v1/plot/...
metrics/web: internal/connlimit internal/names log net net/http syscall time
metrics: actors/measure bus/gateway coordinator/realdevices coordinator/round internal/keyed internal/registry time
metrics/eventlog/record: google.golang.org/protobuf/...
metrics/eventlog: internal/regular actors/measure coordinator/round internal/framing metrics metrics/eventlog/record google.golang.org/protobuf/... os time
metrics/perfetto/trace: google.golang.org/protobuf/...
metrics/perfetto: coordinator/round metrics metrics/eventlog metrics/perfetto/trace google.golang.org/protobuf/...
metrics/outputs/event: google.golang.org/protobuf/...
metrics/outputs: metrics/outputs/event actors/measure coordinator/round metrics google.golang.org/protobuf/... time
metrics/tables: internal/regular coordinator/round metrics github.com/parquet-go/parquet-go/...
metrics/openmetrics: actors/measure coordinator/round internal/registry metrics github.com/prometheus/... google.golang.org/protobuf/... net/http time
metrics/page: net/http
metrics/live: internal/statistics actors/measure bus/gateway coordinator/round metrics metrics/page metrics/web net/http time
metrics/prometheus: actors/measure coordinator coordinator/round metrics metrics/web github.com/prometheus/... net/http time

# Experiments.
experiment/convex: actors/data/federated actors/learn coordinator/theory gonum.org/v1/gonum/...
experiment/config/tree: github.com/goccy/go-yaml/...
experiment/expect: internal/names github.com/expr-lang/expr/...
experiment/config: experiment/expect internal/regular bus/quota experiment/config/tree internal/tasks internal/names internal/registry actors/data/federated actors/clientmodel actors/learn actors/algorithm actors/algorithm/combine coordinator/closing actors/measure actors/algorithm/privacy coordinator/selection metrics
	coordinator/schedule github.com/goccy/go-yaml/... os time
experiment/config/reference: experiment/config internal/registry
experiment/fleet/calibration: internal/keyed actors/algorithm actors/calibrate actors/learn bus bus/gateway experiment/config time golang.org/x/sync/... google.golang.org/protobuf/proto
experiment/folder: experiment/expect internal/names internal/regular actors/learn actors/measure coordinator/closing coordinator/round coordinator/schedule experiment/config internal/atomicfile internal/filelock internal/human internal/vector metrics os time github.com/go-json-experiment/json/...
experiment/checkpoint: actors/external coordinator coordinator/round experiment/config experiment/folder internal/vector metrics os time
experiment/devicelog/record: google.golang.org/protobuf/...
experiment/devicelog: internal/regular bus coordinator/realdevices coordinator/round experiment/devicelog/record experiment/folder internal/framing metrics google.golang.org/protobuf/...
internal/testkit/runtest: bus bus/gateway bus/natsconn coordinator/round experiment/config experiment/folder github.com/parquet-go/parquet-go
experiment/problem: internal/regular internal/human internal/registry actors actors/attack actors/data actors/data/federated actors/data/synthetic actors/clientmodel actors/external actors/learn
	bus coordinator actors/algorithm coordinator/selection coordinator/closing coordinator/fairshare actors/measure actors/algorithm/privacy coordinator/round coordinator/schedule coordinator/theory experiment/config experiment/convex experiment/folder metrics os time
	google.golang.org/protobuf/proto
experiment/forecast: actors actors/algorithm/... actors/clientmodel actors/learn actors/measure coordinator/... experiment/config experiment/devicelog experiment/folder experiment/problem internal/cputime internal/table
	internal/human internal/keyed internal/robust internal/statistics internal/registry metrics metrics/eventlog metrics/figure simclock time golang.org/x/sync/errgroup
experiment/run: internal/regular actors/... bus/... coordinator/... experiment/checkpoint experiment/config experiment/devicelog experiment/folder experiment/forecast experiment/problem internal/atomicfile internal/cputime internal/human internal/names
	metrics/... os time golang.org/x/sync/...
experiment/fleet: actors/clientmodel coordinator/closing coordinator/round experiment/config experiment/folder internal/human internal/keyed internal/robust internal/statistics
	metrics metrics/eventlog metrics/outputs gonum.org/v1/gonum/...
experiment/report: actors/measure experiment/config experiment/folder experiment/forecast internal/statistics
	metrics metrics/eventlog metrics/figure metrics/openmetrics metrics/perfetto time
experiment/ui: internal/regular actors/measure coordinator/round experiment/config experiment/folder experiment/forecast experiment/report
	metrics metrics/eventlog metrics/live metrics/outputs metrics/page metrics/web net/http os time golang.org/x/sync/errgroup
experiment/study: coordinator/round experiment/expect experiment/config/tree bus bus/natsconn coordinator actors/measure coordinator/schedule experiment/checkpoint experiment/config experiment/folder experiment/problem experiment/run internal/atomicfile internal/keyed
	internal/human internal/names internal/statistics internal/table metrics metrics/figure os time golang.org/x/sync/...
experiment/study/...: internal/regular actors/algorithm actors/measure internal/tasks actors/clientmodel actors/data/federated actors/learn coordinator/... experiment/config experiment/convex experiment/folder experiment/forecast
	experiment/problem experiment/run experiment/study internal/atomicfile internal/table internal/human internal/statistics metrics metrics/figure metrics/outputs os
	github.com/goccy/go-yaml/...
experiment/study/plan: actors/clientmodel coordinator/closing actors/measure coordinator/round coordinator/schedule experiment/config experiment/folder experiment/forecast
	experiment/study internal/human internal/statistics internal/table metrics metrics/figure metrics/page golang.org/x/sync/errgroup

# Programs.
cmd/internal/cli: actors/calibrate actors/doctor actors/learn actors/real bus bus/natsconn internal/tasks internal/names os/... syscall time
	github.com/coreos/go-systemd/... github.com/spf13/... golang.org/x/term
cmd/fedpace-device: cmd/internal/cli github.com/spf13/cobra
cmd/internal/dataset: actors/data actors/data/federated actors/data/fetch actors/data/synthetic actors/data/table actors/learn cmd/internal/cli experiment/config internal/human internal/names metrics/figure os time github.com/spf13/cobra
cmd/internal/folders: cmd/internal/cli actors/measure experiment/config experiment/folder experiment/study experiment/ui internal/human internal/table metrics metrics/web os github.com/spf13/cobra
cmd: actors/... bus/... cmd/internal/cli cmd/internal/dataset cmd/internal/folders coordinator/... deploy/grafana/dashboards experiment/... internal/atomicfile internal/cputime internal/human internal/names internal/table
	metrics metrics/figure os/... syscall time github.com/spf13/...
cmd/fedpace: cmd
internal/testkit/throttle: net time
internal/sbom: internal/atomicfile os github.com/CycloneDX/cyclonedx-go
docs/site: os github.com/yuin/goldmark/...

# Examples.
examples/plugins: actors/attack actors/data/federated actors/clientmodel actors/learn actors/learn/network actors/algorithm actors/algorithm/combine coordinator/selection coordinator/closing coordinator/round coordinator/schedule internal/registry metrics
examples/plugins/fedpace-plugins: cmd examples/plugins
examples/regression: os

# Tests alone.
internal/testkit/slow: os time
internal/testkit/externaltest: actors/data/federated actors/data/synthetic actors/external actors/learn actors/algorithm os/... time github.com/edsrzf/mmap-go
internal/testkit/realdata: os
internal/testkit/installed: os/...
internal/testkit/testport: net syscall
internal/testkit/browsertest: os/... time internal/testkit/slow github.com/chromedp/...
internal/testkit/hostile: net time github.com/nats-io/jwt/...
internal/testkit/testseed: os internal/testkit/slow pgregory.net/rapid
`

// outside are the standard library's ways out of the process.
var outside = []string{"log/...", "net", "net/http/...", "os/...", "syscall", "time"}
