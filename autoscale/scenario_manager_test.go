package autoscale

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube"
)

func TestTheGRPCServerAnswersInAReplicaWithoutTheLeaderLease(t *testing.T) {
	control := kube.ForTest(t, kube.Options{})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(control.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "3"}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Spec.Selector.MatchLabels = map[string]string{"pool": "pool"}
	d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}

	server := managed(t, control, scheme)
	calls := proto.NewCloudProviderClient(dial(t, server.Addr(), nil))
	t.Run("NodeGroups returns the groups before the autoscaler's first Refresh call (CA-C02, CA-C20)", func(t *testing.T) {
		got, err := calls.NodeGroups(t.Context(), &proto.NodeGroupsRequest{})
		if err != nil || len(got.GetNodeGroups()) != 1 || got.GetNodeGroups()[0].GetId() != "MachineDeployment/kube-system/pool" {
			t.Errorf("the groups are %v, error %v", got, err)
		}
	})
	t.Run("NodeGroupIncreaseSize returns only after the larger size is stored in the API server (CA-C58)", func(t *testing.T) {
		if _, err := calls.NodeGroupIncreaseSize(t.Context(), &proto.NodeGroupIncreaseSizeRequest{Id: "MachineDeployment/kube-system/pool", Delta: 2}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || *d.Spec.Replicas != 2 {
			t.Errorf("replicas are %d, error %v", *d.Spec.Replicas, err)
		}
		got, err := calls.NodeGroupNodes(t.Context(), &proto.NodeGroupNodesRequest{Id: "MachineDeployment/kube-system/pool"})
		if err != nil || len(got.GetInstances()) != 2 {
			t.Errorf("the instances are %v, error %v", got, err)
		}
	})
}

// managed runs groups and a server in a manager that never becomes leader.
func managed(t *testing.T, control *kube.Cluster, scheme *runtime.Scheme) *Server {
	t.Helper()
	mgr, err := ctrl.NewManager(control.Config, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "somebody-elses", LeaderElectionNamespace: "no-such-namespace",
	})
	if err != nil {
		t.Fatal(err)
	}
	groups := nodegroup.New(nodegroup.Options{Control: mgr, Target: mgr, Discovery: model.Discovery{Cloud: provider.Provider{}}})
	server, err := New(Options{Groups: groups, Ready: groups.Synced(), Insecure: true, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(mgr.Add(groups), mgr.Add(server)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !listens(t, server, 20*time.Second) {
		t.Fatal("the server does not listen")
	}
	return server
}
