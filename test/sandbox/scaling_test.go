package sandbox

import (
	"bytes"
	"strings"
	"testing"
)

// The folder of binaries is empty. So each start ends with an error, before it builds or starts a program.
func TestTheFirstLineOfASandboxNamesTheAutoscaler(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	for _, row := range []struct {
		name    string
		options Options
		want    string
	}{
		{"a stand-in is called a stand-in, and the line says how to run the real one (F-123)", Options{}, "autoscaler: a stand-in for cluster-autoscaler (CLUSTER_AUTOSCALER=FILE runs a real one)\n"},
		{"a real autoscaler is named by its path", Options{Autoscaler: "/usr/bin/cluster-autoscaler"}, "autoscaler: /usr/bin/cluster-autoscaler\n"},
		{"a sandbox without an autoscaler says so", Options{NoAutoscaler: true}, "autoscaler: none\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			row.options.Log = &log
			if _, err := Start(t.Context(), row.options); err == nil || !strings.Contains(err.Error(), "lacks etcd") {
				t.Fatalf("got %v", err)
			}
			if got := log.String(); !strings.HasPrefix(got, row.want) {
				t.Errorf("got %q, want %q first", got, row.want)
			}
		})
	}
}
