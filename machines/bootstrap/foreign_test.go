package bootstrap

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestUserDataEqualsTheFieldOverwriteCloudConfigWhenThatHasNoVariablesToReplace(t *testing.T) {
	for _, content := range hostile[1:] {
		if got, err := (text{content: content}).filled("nodes-abc-12345", Token{}); err != nil || string(got) != content {
			t.Errorf("%q became %q, error %v", content, got, err)
		}
	}
}

func TestUserDataIsReadFromTheSecretOfOperatingSystemManager(t *testing.T) {
	secret := func(revision, content string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "nodes-ns-bootstrap-config", Namespace: "cloud-init-settings", Annotations: map[string]string{"k8c.io/machine-deployment-revision": revision}},
			Data:       map[string][]byte{"cloud-config": []byte(content)},
		}
	}
	annotated := func(d *v1alpha1.MachineDeployment) {
		d.Annotations = map[string]string{"k8c.io/operating-system-profile": "osp-ubuntu"}
	}
	for _, tt := range []struct {
		name   string
		mark   func(*v1alpha1.MachineDeployment)
		secret *corev1.Secret
		lost   string // the kind of the owner that does not exist; empty when all owners exist
		want   string // the user data; or "waits: " and a part of the error, when drover cannot create user data yet
	}{
		{"the Secret for the revision of the Machine's set is used, and the Machine's name replaces <MACHINE_NAME> in it (MC-45, MC-46)", annotated, secret("3", "#cloud-config\nhostname: <MACHINE_NAME> %3CMACHINE_NAME%3E"), "", "#cloud-config\nhostname: nodes-1-abcde nodes-1-abcde"},
		{"the Secret is used when the deployment has operating-system-manager's finalizer but not its annotation", func(d *v1alpha1.MachineDeployment) {
			d.Finalizers = []string{"kubermatic.io/cleanup-operating-system-configs"}
		}, secret("3", "x"), "", "x"},
		{"a Machine waits while there is no Secret (MC-45)", annotated, nil, "", "waits: Secret cloud-init-settings/nodes-ns-bootstrap-config does not exist"},
		{"a Machine waits while the Secret is for an older revision than that of the Machine's set (MC-45)", annotated, secret("2", "x"), "", `waits: is for revision "2", and MachineSet nodes-1 has revision "3"`},
		{"a Machine waits while the Secret names no revision (MC-45)", annotated, secret("", "x"), "", `waits: is for revision ""`},
		{"a Machine waits while the Secret has no user data", annotated, secret("3", ""), "", "waits: has no cloud-config yet"},
		{"a Machine waits while the MachineSet that its owner reference names does not exist", annotated, secret("3", "x"), "MachineSet", "waits: MachineSet nodes-1, the owner of nodes-1-abcde, does not exist"},
		{"a Machine waits while the MachineDeployment that its set's owner reference names does not exist", annotated, secret("3", "x"), "MachineDeployment", "waits: MachineDeployment nodes, the owner of nodes-1, does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, set, m := family()
			tt.mark(d)
			objects := []client.Object{m}
			if tt.lost != "MachineSet" {
				objects = append(objects, set)
			}
			if tt.lost != "MachineDeployment" {
				objects = append(objects, d)
			}
			if tt.secret != nil {
				objects = append(objects, tt.secret)
			}
			s, c := newSource(t, nil, objects...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: ptr.To("mine")})
			if part, waits := strings.CutPrefix(tt.want, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) {
					t.Errorf("got %q, error %v", got, err)
				}
			} else if err != nil || string(got) != tt.want {
				t.Errorf("got %q, error %v", got, err)
			}
			if n := tokensIn(t, c); n != 0 {
				t.Errorf("%d tokens were made", n)
			}
		})
	}
}

func TestUserDataIsReadFromTheSecretOfAMachineClass(t *testing.T) {
	object := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace}
	}
	class := func(namespace string, refs ...string) *v1alpha1.MachineClass {
		c := &v1alpha1.MachineClass{ObjectMeta: object("small", namespace), SecretRef: &corev1.SecretReference{Name: refs[0]}}
		if len(refs) > 1 {
			c.CredentialsSecretRef = &corev1.SecretReference{Name: refs[1]}
		}
		return c
	}
	secret := func(name, namespace string, data map[string]string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: object(name, namespace), Data: map[string][]byte{}}
		for key, value := range data {
			s.Data[key] = []byte(value)
		}
		return s
	}
	for _, tt := range []struct {
		name    string
		in      string // the class's namespace
		objects []client.Object
		own     string // overwriteCloudConfig
		want    string // the user data; or "fails: " and a part of the error when drover creates no user data
		tokens  int
	}{
		{"<<MACHINE_NAME>> and <<BOOTSTRAP_TOKEN>> in the Secret's userData are replaced by the Machine's values (MC-46)", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "n=<<MACHINE_NAME>> t=<<BOOTSTRAP_TOKEN>>", "cloudConfig": "no"})}, "", "n=nodes-1-abcde t=TOKEN", 1},
		{"percent-encoded <<MACHINE_NAME>> and <<BOOTSTRAP_TOKEN>> are replaced too, as in an Ignition document (MC-46)", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"cloudConfig": "n=%3C%3CMACHINE_NAME%3E%3E t=%3C%3CBOOTSTRAP_TOKEN%3E%3E"})}, "", "n=nodes-1-abcde t=TOKEN", 1},
		{"drover creates no bootstrap token for user data that does not contain <<BOOTSTRAP_TOKEN>>", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "plain"})}, "", "plain", 0},
		{"the Secret of credentialsSecretRef takes precedence over that of secretRef", "ns", []client.Object{class("ns", "a", "b"), secret("a", "ns", map[string]string{"userData": "low"}), secret("b", "ns", map[string]string{"userData": "high"})}, "", "high", 0},
		{"the Machine's overwriteCloudConfig takes precedence over the class's user data", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": "class"})}, "mine", "mine", 0},
		{"a Machine gets drover's own user data when the class's Secret has only credentials", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"username": "x"})}, "", "#cloud-config\n", 1},
		{"a class that does not exist is an error", "ns", nil, "", "fails: MachineClass ns/small does not exist", 0},
		{"a Secret that does not exist is an error", "ns", []client.Object{class("ns", "a")}, "", "fails: Secret ns/a does not exist", 0},
		{"a class in another namespace is refused when the operator has not allowed that namespace (MC-12)", "other", []client.Object{class("other", "a")}, "", "fails: refers to an object in namespace other", 0},
		{"a class in another namespace is read when the operator has allowed that namespace (MC-12)", "allowed", []client.Object{class("allowed", "a"), secret("a", "allowed", map[string]string{"userData": "x"})}, "", "x", 0},
		{"user data that is too long for Nova is refused", "ns", []client.Object{class("ns", "a"), secret("a", "ns", map[string]string{"userData": string(noise(49150))})}, "", "fails: the user data in the Secret of the MachineClass has 65584 bytes in base64 form", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "small", Namespace: tt.in}}}
			s, c := newSource(t, func(o *Options) { o.AllowedNamespaces = []string{"allowed"} }, append(tt.objects, m)...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: &tt.own})
			text := anyToken.ReplaceAllString(readable(got)[0], "TOKEN")
			if part, fails := strings.CutPrefix(tt.want, "fails: "); fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, error %v", got, err)
				}
			} else if err != nil || !strings.HasPrefix(text, tt.want) || tt.want != "#cloud-config\n" && text != tt.want {
				t.Errorf("got %q, error %v", text, err)
			}
			if n := tokensIn(t, c); n != tt.tokens {
				t.Errorf("%d tokens, want %d", n, tt.tokens)
			}
		})
	}
}

func TestVariablesInAnOverwriteCloudConfigAreReplaced(t *testing.T) {
	own := text{content: "#!/bin/sh\na <<MACHINE_NAME>> <MACHINE_NAME> <<BOOTSTRAP_TOKEN>> %3CMACHINE_NAME%3E"}
	t.Run("MACHINE_NAME, also percent-encoded, and BOOTSTRAP_TOKEN are replaced by the Machine's values (MC-46)", func(t *testing.T) {
		got, err := own.filled("nodes-abc-12345", Token{ID: "abcdef", Secret: "0123456789abcdef"})
		want := "#!/bin/sh\na nodes-abc-12345 nodes-abc-12345 abcdef.0123456789abcdef nodes-abc-12345"
		if err != nil || string(got) != want {
			t.Errorf("got %q, error %v", got, err)
		}
	})
}
