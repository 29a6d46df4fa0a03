package install

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube"
)

// cluster is a control plane with drover's CRDs, its namespace and its account. All other objects are only applied to it as a dry run.
var cluster *kube.Cluster

// drover is the path of the binary, which is built once.
var drover string

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	dir, release, err := kube.OwnFolder("", "drover-install-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	defer func() { _ = os.RemoveAll(dir) }()
	if drover, err = build(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if cluster, err = kube.Start(ctx, kube.Options{Log: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Stop()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare creates what must exist before manifests can be tested.
func prepare(ctx context.Context) error {
	c, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		return err
	}
	if err := deploy.Apply(ctx, c, "crds"); err != nil {
		return err
	}
	for _, file := range []string{"standins.yaml", "namespaces.yaml"} {
		if _, err := cluster.Kubectl(ctx, "apply", "--server-side", "-f", "testdata/"+file); err != nil {
			return err
		}
	}
	_, err = cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	return err
}
