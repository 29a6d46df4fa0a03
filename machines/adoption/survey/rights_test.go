package survey

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// none is a RoundTripper that answers every request with 404.
type none struct{}

func (none) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// reader allows everything but the reads of Secrets in cloud-init-settings.
func reader() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = review.Spec.ResourceAttributes.Namespace != "cloud-init-settings"
			return nil
		},
	}).Build()
}

func TestTheAdoptionReportNamesTheRightsThatMachinesNeed(t *testing.T) {
	reads := &Reads{}
	transport := reads.Watch(none{})
	read := func(method, path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
	}
	read(http.MethodGet, "/api/v1/namespaces/cloud-init-settings/secrets/for-nobody")
	reads.begin("a new Machine of kube-system/workers")
	for _, path := range []string{
		"/api/v1/namespaces/cloud-init-settings/secrets/workers-kube-system-bootstrap-config", "/api/v1/namespaces/cloud-init-settings/secrets/other",
		"/api/v1/namespaces/kube-system/configmaps/c", "/api/v1/namespaces/cloud-init-settings/pods/p", "/api/v1/namespaces/cloud-init-settings/secrets",
	} {
		read(http.MethodGet, path)
	}
	read(http.MethodPatch, "/api/v1/namespaces/cloud-init-settings/secrets/written")
	reads.begin("")
	t.Run("only reads of single Secrets and ConfigMaps for a Machine are noted (F-101)", func(t *testing.T) {
		var names []string
		for _, n := range reads.needs() {
			names = append(names, n.name)
		}
		if want := []string{"other", "workers-kube-system-bootstrap-config", "c"}; !slices.Equal(names, want) {
			t.Errorf("noted %q, want %q", names, want)
		}
	})
	t.Run("one finding names a namespace whose Secrets drover may not read, who needs them, and the command (F-101)", func(t *testing.T) {
		o := &Options{Client: reader(), Target: reader(), Account: "system:serviceaccount:drover:drover", Reads: reads}
		found, err := o.rights(t.Context())
		if err != nil || len(found) != 1 || !strings.Contains(found[0].Message, "which a new Machine of kube-system/workers needs") ||
			found[0].Remedy != "kubectl create rolebinding drover:references --clusterrole=drover:references --serviceaccount=drover:drover -n cloud-init-settings" {
			t.Errorf("rights() = %+v, %v", found, err)
		}
	})
}
