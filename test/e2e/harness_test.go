package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	patience  = 2 * time.Minute
	pollEvery = 100 * time.Millisecond
)

// badGroup is a node group that cannot work, and the conditions that must report it.
type badGroup struct {
	name string
	// old and new make the manifest bad: the first occurrence of old in the scenario's manifest is replaced with new.
	old, new string
	replicas string
	// The deployment's condition of the type condition must be False with this reason, and its message must name the error.
	condition, reason string
	says              []string
	// onMachine reports whether the group's Machine must report the error, like the deployment, in its status and in a
	// warning Event.
	onMachine bool
	// listed reports whether drover must list the node group for the autoscaler although the group cannot work.
	listed bool
}

// manifest returns the scenario's manifest with the name, size and error of the bad group.
func (b badGroup) manifest(t *testing.T, d *scenario.Demo) string {
	t.Helper()
	raw, err := scenario.Manifest(d.Group)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("name: nodes\n", "name: "+b.name+"\n", "group: nodes", "group: "+b.name, "replicas: 2", "replicas: "+b.replicas).Replace(string(raw))
	if b.old != "" && !strings.Contains(text, b.old) {
		t.Fatalf("the manifest has no %q:\n%s", b.old, text)
	}
	if b.old == "" {
		return text
	}
	return strings.Replace(text, b.old, b.new, 1)
}

func apply(t *testing.T, s *sandbox.Sandbox, name, manifest string) {
	t.Helper()
	// kubectl splits a path at commas. The path of t.TempDir() contains the test's name, which may have commas.
	dir, err := os.MkdirTemp("", "drover-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cluster.Kubectl(t.Context(), "apply", "-f", path); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until look reports nothing missing.
func eventually(t *testing.T, look func(ctx context.Context) (missing string, err error)) {
	t.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx)
		if ctx.Err() == nil {
			missing = now
		}
		return now == "", err
	})
	if err != nil {
		t.Fatalf("%v; still missing: %s", err, missing)
	}
}
