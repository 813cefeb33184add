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
internal/utc: time
internal/portable:
internal/portable/exact:
internal/expression: internal/portable/exact
internal/names:
internal/tasks:
registry:
policy: registry
internal/bitset:
internal/human: time
internal/robust:
internal/statistics: internal/robust gonum.org/v1/gonum/...
internal/vector:
internal/connlimit: net
internal/atomicfile: os
internal/filelock: os golang.org/x/sys/unix
internal/uncached: os golang.org/x/sys/unix
internal/regular: os
internal/memlimit: os
internal/table: internal/regular internal/atomicfile
simclock: time
python:
coordinator/fairshare:
coordinator/theory: internal/portable/exact
learn/metric: internal/portable
coordinator/schedule: internal/expression internal/portable/exact registry policy
coordinator/closing: internal/expression registry policy coordinator/schedule simclock
coordinator/selection: internal/bitset internal/keyed internal/portable/exact registry policy coordinator/closing simclock
coordinator/round: coordinator/selection internal/bitset registry coordinator/closing coordinator/fairshare learn/metric coordinator/schedule simclock

# What both ends of a run stand on: models, data, algorithms; and how long a task takes a client.
learn/internal/kernel: golang.org/x/sys/cpu golang.org/x/sys/unix
learn/internal/kernel/gen: github.com/mmcloughlin/avo/...
learn/network: internal/keyed registry learn/internal/kernel learn/metric
learn: internal/keyed internal/names internal/portable internal/vector registry learn/internal/kernel learn/network learn/metric os
actors/attack: internal/keyed internal/portable registry
actors/attack/attacktest: actors/attack internal/portable registry
actors/fleet: internal/regular internal/utc internal/keyed internal/portable internal/robust registry actors/attack
data/federated: internal/keyed internal/names internal/portable registry learn os golang.org/x/sync/...
internal/testkit/installed: os/...
data/datatest: internal/testkit/installed data/federated learn os/... github.com/parquet-go/parquet-go/...
data/parquetfile: data/federated
	github.com/andybalholm/brotli github.com/klauspost/compress/... github.com/parquet-go/parquet-go/... github.com/pierrec/lz4/v4
data/synthetic: internal/keyed data/federated learn
data/table: internal/names registry data/federated data/parquetfile learn time
	github.com/go-json-experiment/json/... github.com/parquet-go/parquet-go/...
data: internal/atomicfile internal/memlimit internal/vector registry data/federated data/parquetfile data/table learn net/http os
	github.com/edsrzf/mmap-go github.com/go-json-experiment/json/... github.com/parquet-go/parquet-go/...
data/fetch: internal/filelock net net/http os time
algorithm: internal/keyed internal/portable registry policy
algorithm/combine: registry policy algorithm
algorithm/privacy: internal/portable registry internal/vector algorithm
algorithm/privacy/pld: gonum.org/v1/gonum/...
algorithm/secagg: internal/portable algorithm github.com/cloudflare/circl/...

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
bus/bustest/simbus: bus internal/mailbox internal/names time google.golang.org/protobuf/...
bus/bustest/conformance: bus bus/gateway time github.com/google/go-cmp/... google.golang.org/protobuf/...
bus/quota:
bus/admission: bus/auth bus/quota internal/connlimit net time golang.org/x/sys/unix golang.org/x/time/rate
bus/embedded: bus bus/admission bus/auth bus/natsconn bus/quota internal/filelock net os time github.com/nats-io/...
bus/bustest: bus/auth bus/embedded bus/natsbus bus/natsconn internal/cputime os time github.com/nats-io/...
internal/wheel: os time
internal/child: internal/atomicfile python os/... syscall time github.com/edsrzf/mmap-go github.com/mattn/go-shellwords golang.org/x/sys/unix
actors/external: internal/child internal/names internal/vector data/federated learn learn/metric os time
actors/flower: internal/child os/... time github.com/mattn/go-shellwords
actors: internal/keyed registry internal/vector actors/attack data/federated actors/external learn learn/metric bus algorithm algorithm/privacy
actors/host: internal/vector learn/metric actors actors/fleet bus golang.org/x/sync/... time
actors/real: actors data actors/external data/federated data/synthetic data/table learn bus bus/gateway algorithm algorithm/privacy algorithm/secagg internal/vector time
actors/calibrate: algorithm/secagg internal/human internal/keyed internal/names internal/robust internal/tasks actors data/federated actors/external learn actors/real bus bus/gateway algorithm os
	os time google.golang.org/protobuf/proto
actors/doctor: actors/calibrate learn actors/real bus bus/auth bus/gateway bus/natsconn internal/human os time golang.org/x/sys/unix
coordinator/realdevices: internal/human internal/portable internal/robust internal/vector bus bus/gateway bus/quota algorithm algorithm/secagg coordinator/round simclock time
coordinator/aggregate: registry learn bus algorithm algorithm/combine coordinator/realdevices learn/metric algorithm/privacy algorithm/secagg coordinator/round
coordinator: registry learn bus algorithm algorithm/secagg coordinator/aggregate coordinator/realdevices learn/metric coordinator/round simclock time

# What a run shows.
metrics/carbon: time
metrics/figure: internal/atomicfile internal/portable internal/statistics
metrics/web: internal/connlimit internal/names log net net/http syscall time
metrics: learn/metric coordinator/round internal/keyed registry time
metrics/eventlog/record: google.golang.org/protobuf/...
metrics/eventlog: internal/regular learn/metric coordinator/round internal/framing metrics metrics/eventlog/record google.golang.org/protobuf/... os time
metrics/perfetto/trace: google.golang.org/protobuf/...
metrics/perfetto: coordinator/round metrics metrics/eventlog metrics/perfetto/trace google.golang.org/protobuf/...
metrics/outputs/event: google.golang.org/protobuf/...
metrics/outputs: internal/regular metrics/outputs/event learn/metric coordinator/round metrics google.golang.org/protobuf/... time
metrics/tables: internal/regular coordinator/round metrics github.com/parquet-go/parquet-go/...
metrics/openmetrics: learn/metric coordinator/round registry internal/regular metrics github.com/prometheus/... google.golang.org/protobuf/... net/http time
metrics/page: net/http
metrics/live: internal/statistics learn/metric coordinator/round metrics metrics/page metrics/web net/http time
metrics/prometheus: learn/metric coordinator/round metrics metrics/web github.com/prometheus/... net/http time

# Experiments.
experiment/convex: internal/portable data/federated learn coordinator/theory
config/tree: github.com/goccy/go-yaml/...
config/expect: internal/expression internal/names
config: config/expect internal/regular bus/quota config/tree internal/tasks internal/names registry data/federated actors/fleet learn algorithm algorithm/combine coordinator/closing learn/metric algorithm/privacy algorithm/secagg coordinator/selection metrics
	coordinator/schedule metrics/carbon github.com/goccy/go-yaml/... os time
config/reference: config registry
experiment/fit/calibration: internal/keyed algorithm actors/calibrate learn bus bus/gateway config time golang.org/x/sync/... google.golang.org/protobuf/proto
experiment/folder: config/expect registry internal/names internal/regular learn learn/metric coordinator/closing coordinator/round coordinator/schedule config internal/atomicfile internal/filelock internal/human internal/vector metrics os time github.com/go-json-experiment/json/...
experiment/identity: internal/regular internal/child registry data/federated actors/external config experiment/folder os
experiment/policies: internal/child internal/regular policy config experiment/folder metrics os time
experiment/checkpoint: coordinator coordinator/round config experiment/folder experiment/identity internal/vector metrics os time
experiment/devicelog: internal/regular bus coordinator/realdevices coordinator/round experiment/folder internal/framing metrics metrics/eventlog metrics/eventlog/record
experiment/runtest: bus bus/gateway bus/natsconn coordinator/round config experiment/folder github.com/parquet-go/parquet-go os
experiment/problem: internal/human registry actors actors/attack data data/federated data/synthetic actors/fleet actors/external learn
	bus coordinator/aggregate algorithm coordinator/selection coordinator/closing coordinator/fairshare learn/metric algorithm/privacy algorithm/privacy/pld algorithm/secagg coordinator/round coordinator/schedule coordinator/theory config experiment/convex experiment/folder experiment/identity experiment/policies internal/regular metrics metrics/carbon time
	google.golang.org/protobuf/proto
experiment/forecast: actors algorithm/... actors/fleet learn learn/metric coordinator/... config experiment/devicelog experiment/folder experiment/problem internal/cputime internal/table
	internal/human internal/keyed internal/robust internal/statistics registry metrics metrics/eventlog metrics/figure simclock time golang.org/x/sync/errgroup
experiment/grid: actors/fleet actors/flower coordinator/round internal/framing internal/uncached simclock os github.com/cespare/xxhash/...
experiment/run: internal/regular actors/... algorithm algorithm/privacy bus/... data/federated learn/metric coordinator/... experiment/checkpoint config experiment/devicelog experiment/folder experiment/forecast experiment/grid experiment/identity experiment/policies experiment/problem internal/atomicfile internal/cputime internal/human internal/names
	metrics/... os time golang.org/x/sync/...
experiment/fit: actors/fleet coordinator/closing coordinator/round config experiment/folder internal/human internal/keyed internal/robust internal/statistics
	metrics metrics/eventlog metrics/outputs gonum.org/v1/gonum/...
experiment/report: learn/metric config experiment/folder experiment/forecast experiment/identity internal/statistics
	metrics metrics/eventlog metrics/figure metrics/openmetrics metrics/perfetto time
experiment/ui: internal/regular learn/metric coordinator/round config experiment/folder experiment/forecast experiment/report
	metrics metrics/eventlog metrics/live metrics/outputs metrics/page metrics/tables metrics/web net/http os time golang.org/x/sync/errgroup
study: config/expect config/tree internal/portable internal/portable/exact bus bus/natsconn coordinator coordinator/round learn/metric coordinator/schedule experiment/checkpoint config experiment/folder experiment/problem experiment/run internal/atomicfile internal/keyed
	internal/human internal/names internal/statistics internal/table metrics metrics/figure os time golang.org/x/sync/...
study/choice: internal/statistics
study/...: internal/portable/exact internal/regular learn/metric internal/tasks actors/fleet data/federated learn coordinator/... config experiment/convex experiment/folder experiment/forecast
	experiment/problem experiment/run study study/choice internal/atomicfile internal/table internal/human internal/statistics metrics metrics/figure metrics/outputs os
	github.com/goccy/go-yaml/...
study/plan: actors/fleet algorithm/combine coordinator/closing learn/metric coordinator/round coordinator/schedule config experiment/folder experiment/forecast experiment/problem
	study study/choice internal/human internal/statistics internal/table metrics metrics/figure metrics/page golang.org/x/sync/errgroup
study/validation: config experiment/folder experiment/run internal/robust internal/statistics internal/table learn/metric metrics/figure study study/plan

# Programs.
cmd/internal/cli: internal/memlimit actors/calibrate actors/doctor learn actors/real algorithm/secagg bus bus/natsconn internal/tasks internal/names os/... syscall time
	github.com/coreos/go-systemd/... github.com/spf13/... golang.org/x/term
cmd/fedpace-device: cmd/internal/cli github.com/spf13/cobra
cmd/internal/dataset: data data/federated data/fetch data/synthetic data/table learn learn/metric cmd/internal/cli config internal/human internal/names metrics/figure os time github.com/spf13/cobra
cmd/internal/folders: cmd/internal/cli learn/metric config experiment/folder study experiment/ui internal/human internal/names internal/table metrics metrics/web os github.com/spf13/cobra
cmd: actors/... bus/... config config/expect config/reference data/... learn/... study/... cmd/internal/cli cmd/internal/dataset cmd/internal/folders coordinator/... deploy/grafana/dashboards experiment/... internal/atomicfile internal/cputime internal/human internal/names internal/table
	metrics metrics/figure os/... syscall time github.com/spf13/...
cmd/fedpace: cmd
internal/testkit/throttle: net time

# Examples.
examples/plugins: actors/attack data/federated actors/fleet learn learn/network algorithm algorithm/combine coordinator/selection coordinator/closing coordinator/round coordinator/schedule registry metrics
examples/plugins/fedpace-plugins: cmd examples/plugins
examples/regression: os
examples/theory: algorithm config coordinator/closing coordinator/round coordinator/selection coordinator/theory data/federated experiment/convex experiment/problem experiment/run
	internal/atomicfile internal/regular internal/statistics internal/table learn metrics metrics/figure study study/advise os os/signal

# Tests alone.
internal/testkit/slow: os time
actors/external/externaltest: data/federated data/synthetic actors/external learn algorithm os/... time github.com/edsrzf/mmap-go
internal/testkit/realdata: os
internal/testkit/testport: net syscall
internal/testkit/testserver: internal/testkit/slow os github.com/nats-io/nats-server/v2/...
internal/testkit/browsertest: os/... time internal/testkit/slow github.com/chromedp/...
internal/testkit/hostile: net time github.com/nats-io/jwt/...
internal/testkit/prose: os internal/statistics
internal/testkit/testseed: os internal/testkit/slow pgregory.net/rapid
`

// outside are the standard library's ways out of the process.
var outside = []string{"log/...", "net", "net/http/...", "os/...", "syscall", "time"}
