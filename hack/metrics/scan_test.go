package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const declarations = `package x

import "github.com/prometheus/client_golang/prometheus"

var (
	size = prometheus.NewDesc("drover_size", "Machines "+"wanted.", []string{"group"}, nil)
	age  = describe("drover_age_seconds", "Age.")
	all  = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "drover_all_total", Help: "All."}, []string{"call", "code"})
	time = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "drover_time_seconds", Help: "Time."})
)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"project"}, nil)
}
`

func TestTheScanOfGoFilesFindsMetricsAndRefusesInvalidDeclarations(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		want   []metric
		err    string
	}{
		"finds metrics that are declared in each of the supported ways": {declarations, []metric{
			{"drover_size", "gauge", "Machines wanted.", []string{"group"}},
			{"drover_age_seconds", "gauge", "Age.", []string{"project"}},
			{"drover_all_total", "counter", "All.", []string{"call", "code"}},
			{"drover_time_seconds", "histogram", "Time.", nil},
		}, ""},
		"refuses a metric without a help text": {"package x\nvar a = f(\"drover_a\", \"\")\n", nil, "without a help text"},
		"refuses a metric that is declared twice": {
			"package x\nvar a, b = f(\"drover_a\", \"A.\"), f(\"drover_a\", \"A.\")\n", nil, "a second time",
		},
		"refuses a metric that is declared in an unsupported way": {"package x\nconst name = \"drover_a\"\n", nil, "1 names of metrics, of which 0"},
	} {
		t.Run("the scan "+name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(tt.source), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := scan(dir)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("scan() = %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(metric{})); diff != "" {
				t.Errorf("scan() (-want +got):\n%s", diff)
			}
		})
	}
}
