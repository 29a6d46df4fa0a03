package bootstrap

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

func TestUserDataContainsTheAddressAndCAOfTheAPIServer(t *testing.T) {
	info := clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443', certificate-authority-data: cHVibGljIENB}}]")
	for _, tt := range []struct {
		name   string
		info   *corev1.ConfigMap
		change func(*Options)
		server string // the API server's URL in the user data; or "waits: " and a part of the error, when drover cannot create user data yet
		ca     string
	}{
		{"the address and the CA come from the ConfigMap cluster-info", info, nil, "https://public:6443", "public CA"},
		{"the URL of --bootstrap-api-server takes precedence over the address in cluster-info", info, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "public CA"},
		{"without cluster-info, the URL of --bootstrap-api-server and the CA of drover's own connection are used", nil, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "own CA"},
		{"the CA of drover's own connection is used when cluster-info has no CA", clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443'}}]"), func(o *Options) { o.APIServer = "https://named" }, "https://named", "own CA"},
		{"a Machine waits when drover runs in a pod, and neither cluster-info nor a flag names the API server's address", nil, func(o *Options) { o.InPod = true }, "waits: ConfigMap kube-public/cluster-info names no address of the API server that a server could reach; create the ConfigMap, or start drover with --bootstrap-api-server", ""},
		{"a Machine waits while no CA of the API server is known", nil, func(o *Options) { o.Target.GetConfig().CAData = nil }, "waits: no CA is known for the API server", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			objects := []client.Object{m}
			if tt.info != nil {
				objects = append(objects, tt.info)
			}
			s, _ := newSource(t, tt.change, objects...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "flatcar"})
			if part, waits := strings.CutPrefix(tt.server, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(got)
			if err != nil || !strings.Contains(boot.Files[kubelet.BootstrapFile], "server: "+tt.server) || boot.Files[kubelet.CAFile] != tt.ca {
				t.Errorf("CA %q, %s, error %v", boot.Files[kubelet.CAFile], boot.Files[kubelet.BootstrapFile], err)
			}
		})
	}
}
