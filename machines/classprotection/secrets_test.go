package classprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheSecretsToWhichAMachineClassRefersAreFound(t *testing.T) {
	for _, c := range []struct {
		name        string
		data, creds *corev1.SecretReference
		document    string
		want        []string
	}{
		{name: "returns no Secret for a class without references"},
		{name: "returns a Secret only once when secretRef and credentialsSecretRef both name it", data: &corev1.SecretReference{Name: "a"}, creds: &corev1.SecretReference{Namespace: "ns", Name: "a"}, want: []string{"ns/a"}},
		{name: "returns the Secrets that the provider spec refers to, whatever the case of its keys", creds: &corev1.SecretReference{Namespace: "other", Name: "c"},
			document: `{"cloudProviderSpec":{"password":{"SecretKeyRef":{"Namespace":"ns","name":"p","key":"k"}},"networks":[{"secretKeyRef":{"namespace":"ns","name":"n","key":"k"}}],"flavor":"m1"}}`,
			want:     []string{"other/c", "ns/n", "ns/p"}},
		{name: "leaves out a Secret of another namespace that the provider spec refers to", document: `{"password":{"secretKeyRef":{"namespace":"kube-system","name":"p","key":"k"}}}`},
		{name: "leaves out a secretKeyRef that is not a complete reference", document: `{"secretKeyRef":"p","a":{"secretKeyRef":{"namespace":"ns"}}}`},
		{name: "returns no Secret for a provider spec that is not JSON", document: `{"secretKeyRef":`},
	} {
		t.Run(c.name, func(t *testing.T) {
			class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "class"}, SecretRef: c.data, CredentialsSecretRef: c.creds}
			if c.document != "" {
				class.ProviderSpec = &runtime.RawExtension{Raw: []byte(c.document)}
			}
			var got []string
			for _, key := range secretsOf(class) {
				got = append(got, key.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("secretsOf() = %v, want %v", got, c.want)
			}
		})
	}
}
