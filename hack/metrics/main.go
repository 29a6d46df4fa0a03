// Command metrics writes docs/metrics.md: every Prometheus metric of drover with its type, labels and help text, as the source
// declares them.
//
//	go run ./hack/metrics
package main

import (
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
)

// page is the file that is written, relative to the root of the repository.
const page = "docs/metrics.md"

// folders are the folders of the program. The rest of the repository declares no metric of drover.
var folders = []string{"autoscale", "cmd/drover", "machines", "nodegroup", "version"}

const head = `# Metrics

drover serves these metrics under ` + "`/metrics`" + ` at ` + "`--metrics-address`" + `, together with those of controller-runtime
(` + "`controller_runtime_*`, `workqueue_*`, `rest_client_*`" + `), of Go and of the process. Metrics of controllers change only in the replica that holds the lease.
This page is generated from the source by ` + "`make generate`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`

func main() {
	metrics, err := scan(folders...)
	if err == nil {
		err = os.WriteFile(page, []byte(render(metrics)), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// render returns the page, sorted by name.
func render(metrics []metric) string {
	slices.SortFunc(metrics, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	var out strings.Builder
	out.WriteString(head)
	for _, m := range metrics {
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return out.String()
}
