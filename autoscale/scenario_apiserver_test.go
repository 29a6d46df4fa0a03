package autoscale_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube"
)

func objectMeta(name types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
}

// Replicas start at the same time, under the RBAC roles that drover has in the control cluster when the Nodes are in
// another cluster.
func TestCertificatesOfReplicasThatStartAtTheSameTime(t *testing.T) {
	cluster := kube.ForTest(t, kube.Options{})
	admin, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), admin, "control"); err != nil {
		t.Fatal(err)
	}
	config, err := cluster.ConfigForUser("system:serviceaccount:drover:drover", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	drover, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler-drover"}
	for round := range 10 {
		t.Run(fmt.Sprintf("all replicas serve the same stored certificate after simultaneous start %d", round+1), func(t *testing.T) {
			for _, name := range []types.NamespacedName{own, theirs} {
				if err := client.IgnoreNotFound(admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: objectMeta(name)})); err != nil {
					t.Fatal(err)
				}
			}
			startTogether(t, drover, admin, theirs)
		})
	}
}

// startTogether starts five replicas concurrently. It fails the test unless all of them serve the stored certificate,
// and the autoscaler's Secret has the stored authority. The replicas end with the test t: one that still runs after the Secrets
// were deleted writes the deleted authority once more.
func startTogether(t *testing.T, drover, admin client.Client, theirs types.NamespacedName) {
	t.Helper()
	var replicas []*autoscale.Keeper
	for range 5 {
		k := autoscale.NewKeeper(autoscale.KeeperOptions{Client: drover, Own: own, Autoscaler: theirs, Names: []string{"drover.drover.svc"}, Clock: clock.RealClock{}})
		replicas = append(replicas, k)
		run(t, k.Start)
	}
	for _, k := range replicas {
		until(t, "the replica has a certificate", func() bool {
			_, err := k.Server()
			return err == nil
		})
	}
	stored := &corev1.Secret{}
	if err := admin.Get(t.Context(), own, stored); err != nil {
		t.Fatal(err)
	}
	for _, k := range replicas {
		served, err := k.Server()
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(stored.Data["tls.crt"])
		if !bytes.Equal(served.Leaf.Raw, block.Bytes) {
			t.Error("a replica serves another certificate than the stored one")
		}
	}
	mounted := &corev1.Secret{}
	until(t, "the autoscaler has the same authority", func() bool {
		return admin.Get(t.Context(), theirs, mounted) == nil && bytes.Equal(mounted.Data["ca.crt"], stored.Data["ca.crt"])
	})
}
