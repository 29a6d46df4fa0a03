//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

// bypass is a patch with the annotation that allows changes of a Machine's spec.
const bypass = `"metadata":{"annotations":{"` + v1alpha1.AnnotationBypassImmutable + `":"true"}}`

// forge returns a function that makes an attempt by creating a Machine with a changed spec or metadata.
func forge(change func(*world, *v1alpha1.Machine)) func(*world, attempt) error {
	return func(w *world, a attempt) error {
		return w.machine(a.key(), func(m *v1alpha1.Machine) { change(w, m) })
	}
}

// alter returns a function that makes an attempt by patching the Machine that was created for the attempt.
func alter(body func(*world) string) func(*world, attempt) error {
	return func(w *world, a attempt) error { return w.patch(w.target(a), body(w)) }
}

// names returns a function that changes a Machine: it sets the Machine's provider ID to the provider ID of a server.
func names(server func(*world) string) func(*world, *v1alpha1.Machine) {
	return func(w *world, m *v1alpha1.Machine) { m.Spec.ProviderID = ptr.To("openstack:///" + server(w)) }
}

func theControlPlane(w *world) string { return w.others.controlPlane }
func theVictim(w *world) string       { return serverOf(w.victim) }

// serverOf returns the ID of a Machine's server.
func serverOf(m v1alpha1.Machine) string {
	id := ptr.Deref(m.Spec.ProviderID, "")
	return id[len("openstack:///"):]
}

// providerStatus returns a raw providerStatus for a Machine's status.
func providerStatus(format string, args ...any) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, format, args...)}
}

// machineAttempts returns the attacks that exploit what drover assumes about a Machine.
func machineAttempts() []attempt {
	return []attempt{
		{by: theAuthor, to: "have the control plane's server deleted: a new Machine names it in spec.providerID", finding: "F-1", stop: policies,
			try: forge(names(theControlPlane))},
		{by: theAuthor, to: "have the server of another group's Machine deleted: a new Machine names it in spec.providerID", finding: "F-1", stop: policies,
			try: forge(names(theVictim))},
		{by: theAuthor, to: "have the server of a cloned cluster deleted: a new Machine names it in spec.providerID", finding: "F-1", stop: policies,
			try: forge(names(func(w *world) string { return w.others.cloned }))},
		{by: theAuthor, to: "take over a server whose Machine is gone, by the annotation for adoption", finding: "F-1", stop: policies,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				names(func(w *world) string { return w.others.orphaned })(w, m)
				m.Spec.Metadata.Name = otherPrefix + "orphaned"
				m.Annotations = map[string]string{v1alpha1.AnnotationAdopt: w.others.orphaned}
			})},
		{by: theAuthor, to: "have another group's server deleted: a living Machine of his names it", finding: "F-1", stop: policies, target: true,
			try: alter(func(w *world) string {
				return `{` + bypass + `,"spec":{"providerID":"openstack:///` + theVictim(w) + `"}}`
			})},
		{by: theAuthor, to: "have the control plane's server deleted: a living Machine of his forgets its status and names it", finding: "F-1", stop: policies, target: true,
			try: alter(func(w *world) string {
				return `{` + bypass + `,"status":null,"spec":{"providerID":"openstack:///` + w.others.controlPlane + `"}}`
			})},
		{by: theAuthor, to: "have a foreign volume deleted: a new Machine lists it in its status", finding: "F-3", stop: policies,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Status.ProviderStatus = providerStatus(`{"volumeIDs":[%q]}`, w.others.volume)
			})},
		{by: theAuthor, to: "have a foreign volume deleted: a living Machine of his lists it in its status", finding: "F-3", stop: policies, target: true,
			try: alter(func(w *world) string {
				return `{"status":{"providerStatus":{"volumeIDs":["` + w.others.volume + `"]}}}`
			})},
		{by: theAuthor, to: "have a foreign port deleted: the ID of a volume is a path to it", finding: "F-3", stop: policies,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Status.ProviderStatus = providerStatus(`{"volumeIDs":["../../../network/v2.0/ports/%s"]}`, w.others.port)
			})},
		{by: theAuthor, to: "have a foreign floating IP deleted: a new Machine names it in the annotation of machine-controller", finding: "F-3", stop: policies,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Annotations = map[string]string{v1alpha1.FinalizerFloatingIP: w.others.floatingIP}
				m.Finalizers = []string{v1alpha1.FinalizerFloatingIP}
			})},
		{by: theAuthor, to: "have a foreign floating IP deleted: a living Machine of his names it in annotation and status", finding: "F-3", stop: policies, target: true,
			try: alter(func(w *world) string {
				return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"status":{"providerStatus":{"floatingIPID":%[2]q}}}`, v1alpha1.FinalizerFloatingIP, w.others.floatingIP)
			})},
		{by: theAuthor, to: "have the control plane's Node drained and deleted: a living Machine of his names it in status.nodeRef", finding: "F-4", stop: policies, target: true,
			try: alter(func(*world) string { return `{"status":{"nodeRef":{"kind":"Node","name":"` + controlPlane + `"}}}` })},
		{by: theAuthor, to: "get a serving certificate for the API server's address: he writes it to status.addresses and pauses the Machine", finding: "F-2", stop: policies, target: true,
			try: func(w *world, a attempt) error {
				if err := w.patch(w.target(a), `{"metadata":{"annotations":{"`+v1alpha1.AnnotationPaused+`":""}},"status":{"addresses":[{"type":"InternalIP","address":"10.96.0.1"}]}}`); err != nil {
					return err
				}
				return w.ask(w.as("system:node:"+w.target(a).Name, "system:nodes"), a, serving(w.target(a).Name, "10.96.0.1", "kubernetes.default.svc"))
			}},
		{by: theAuthor, to: "have drover forget what a Machine of his has: he removes its finalizers", finding: "F-5", stop: policies, target: true,
			try: alter(func(*world) string { return `{"metadata":{"finalizers":null}}` })},
		{by: theAuthor, to: "have drover look for his Machine's server in another project, where there is none", finding: "F-15", stop: policies, target: true,
			try: alter(func(*world) string {
				return `{"status":{"providerStatus":{"projectID":"` + nobody + `","region":"elsewhere"}}}`
			})},
	}
}

// groupAttempts returns the attacks that exploit what drover assumes about sets and deployments.
func groupAttempts() []attempt {
	removal := func(w *world, list string) string {
		return fmt.Sprintf(`{"spec":{%q:[{"name":%q,"uid":%q}]}}`, list, w.victim.Name, w.victim.UID)
	}
	group := func(body func(*world) string, subresource ...string) func(*world, attempt) error {
		return func(w *world, _ attempt) error { return w.patch(w.group(), body(w), subresource...) }
	}
	return []attempt{
		{by: theAuthor, to: "have another group's Machine removed: spec.removals of his deployment names it", finding: "F-5", stop: policies,
			try: group(func(w *world) string { return removal(w, "removals") })},
		{by: theAuthor, to: "have another group's Machine removed: spec.rolloutRemovals of his set names it", finding: "F-5", stop: policies,
			try: func(w *world, _ attempt) error { return w.patch(w.ownSet(), removal(w, "rolloutRemovals")) }},
		{by: theAuthor, to: "mislead the autoscaler about Machines that are missing: a series of placeholders", finding: "F-5", stop: policies,
			try: group(func(*world) string { return `{"spec":{"placeholderSeries":7}}` })},
		{by: theAuthor, to: "turn the autoscaler away with back-offs in the status of his deployment", finding: "F-5", stop: policies,
			try: group(func(*world) string {
				return `{"status":{"backoffs":[{"class":"Quota","flavor":"m1.small","zone":"dbl1","code":"QuotaExceeded","until":"2099-01-01T00:00:00Z"}]}}`
			}, "status")},
		{by: theAuthor, to: "have the size forgotten with status.lastReplicas", finding: "F-5", stop: policies,
			try: group(func(*world) string { return `{"status":{"lastReplicas":0}}` }, "status")},
		{by: theAuthor, to: "have drover make Machines that name the control plane's server: it is in the template", finding: "F-1", stop: policies,
			try: template(func(w *world, t *v1alpha1.MachineTemplateSpec) {
				t.Spec.ProviderID = ptr.To("openstack:///" + w.others.controlPlane)
			})},
		{by: theAuthor, to: "have drover make Machines that delete a foreign floating IP and adopt a server: the annotations are in the template", finding: "F-3", stop: policies,
			try: template(func(w *world, t *v1alpha1.MachineTemplateSpec) {
				t.Metadata.Annotations = map[string]string{v1alpha1.FinalizerFloatingIP: w.others.floatingIP, v1alpha1.AnnotationAdopt: w.others.orphaned}
			})},
		{by: theAuthor, to: "fill the memory of drover with a size of 2 000 000 000", finding: "F-29", stop: validation,
			try: group(func(*world) string { return `{"spec":{"replicas":2000000000}}` })},
		{by: theAuthor, to: "have drover make Machines in kube-system: the template names that namespace", finding: "F-5", stop: product,
			try: template(func(_ *world, t *v1alpha1.MachineTemplateSpec) {
				t.Metadata.Namespace, t.Metadata.Name = metav1.NamespaceSystem, "intruder"
			})},
		{by: theAuthor, to: "take Machines of another namespace into a set whose selector matches them", finding: "F-5", stop: product,
			try: func(w *world, a attempt) error {
				set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: a.key()}}
				set.Spec.Selector.MatchLabels = w.victim.Labels
				set.Spec.Template.Metadata.Labels = w.victim.Labels
				set.Spec.Template.Spec = w.plain("x").Spec
				return w.author.Create(w.Context(), set)
			}},
		{by: theAuthor, to: "shrink another group: a Machine of his has its labels and names its set as the owner", finding: "F-5", stop: product,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Labels, m.OwnerReferences = w.victim.Labels, w.victim.OwnerReferences
			})},
	}
}

// template returns a function that makes an attempt by creating a deployment of one Machine with a changed template.
func template(change func(*world, *v1alpha1.MachineTemplateSpec)) func(*world, attempt) error {
	return func(w *world, a attempt) error {
		d := w.base.DeepCopy()
		d.Namespace, d.Name, d.Spec.Replicas = tenant, a.key(), ptr.To[int32](1)
		d.Spec.Selector.MatchLabels = map[string]string{"group": a.key()}
		d.Spec.Template.Metadata.Labels = map[string]string{"group": a.key()}
		change(w, &d.Spec.Template)
		return w.author.Create(w.Context(), d)
	}
}

// reachAttempts returns the attacks that try to reach objects to which the author has no right.
func reachAttempts() []attempt {
	return []attempt{
		{by: theAuthor, to: "delete a Machine of another namespace", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error { return w.author.Delete(w.Context(), w.victim.DeepCopy()) }},
		{by: theAuthor, to: "scale a group of another namespace", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error {
				d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: w.herd.group}}
				return w.author.Patch(w.Context(), d, merge(`{"spec":{"replicas":0}}`))
			}},
		{by: theAuthor, to: "bind the role that may write guarded values to himself", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.author.Create(w.Context(), &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "mine"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drover:machine-status"},
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "author"}},
				})
			}},
		{by: theAuthor, to: "delete an admission policy", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.author.Delete(w.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "drover-guard-machines"}})
			}},
		{by: theAuthor, to: "delete the binding of an admission policy", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.author.Delete(w.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "drover-guard-machines"}})
			}},
		{by: theAuthor, to: "act as drover's ServiceAccount", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error {
				config, err := w.s.Cluster.ConfigForUser("author")
				w.must(err)
				config.Impersonate.UserName = "system:serviceaccount:drover:drover"
				drover, err := client.New(config, client.Options{Scheme: sandbox.Scheme()})
				if err != nil {
					return err
				}
				return drover.Delete(w.Context(), w.victim.DeepCopy())
			}},
		{by: theAuthor, to: "read the Secrets of his own namespace", finding: "F-10", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.author.List(w.Context(), &corev1.SecretList{}, client.InNamespace(tenant))
			}},
	}
}

// specAttempts returns the attacks in which a spec names objects that its author may not use.
func specAttempts() []attempt {
	fromSecret := func(field string) map[string]any {
		return map[string]any{field: map[string]any{"secretKeyRef": map[string]any{"namespace": metav1.NamespaceSystem, "name": keys, "key": "password"}}}
	}
	spec := func(changes map[string]any) func(*world, attempt) error {
		return forge(func(_ *world, m *v1alpha1.Machine) { cloudSpec(&m.Spec, changes) })
	}
	class := func(change func(*v1alpha1.MachineClass)) func(*world, attempt) error {
		return func(w *world, a attempt) error {
			c := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: a.key()}, ProviderSpec: &runtime.RawExtension{Raw: w.base.Spec.Template.Spec.ProviderSpec.Value.Raw}}
			change(c)
			if err := w.author.Create(w.Context(), c); err != nil {
				return err
			}
			return w.machine(a.key(), func(m *v1alpha1.Machine) { useClass(m, tenant, a.key()) })
		}
	}
	return []attempt{
		{by: theAuthor, to: "see a value of a Secret of kube-system in the status: his spec takes the flavor from it", finding: "F-10", stop: product, shows: "refers to an object in namespace kube-system",
			try: spec(fromSecret("flavor"))},
		{by: theAuthor, to: "use a password in a Secret of kube-system", finding: "F-11", stop: product, shows: "refers to an object in namespace kube-system",
			try: spec(map[string]any{"username": "drover", "projectName": "metakube", "domainName": "Default", "password": fromSecret("password")["password"]})},
		{by: theAuthor, to: "use a MachineClass of kube-system", finding: "F-11", stop: product, shows: "refers to an object in namespace kube-system",
			try: forge(func(_ *world, m *v1alpha1.Machine) { useClass(m, metav1.NamespaceSystem, victimClass) })},
		{by: theAuthor, to: "have a Secret of kube-system delivered as user data: his MachineClass names it", finding: "F-11", stop: product,
			try: class(func(c *v1alpha1.MachineClass) {
				c.SecretRef = &corev1.SecretReference{Namespace: metav1.NamespaceSystem, Name: keys}
			})},
		{by: theAuthor, to: "use credentials in a Secret of kube-system: his MachineClass names it", finding: "F-11", stop: product,
			try: class(func(c *v1alpha1.MachineClass) {
				c.CredentialsSecretRef = &corev1.SecretReference{Namespace: metav1.NamespaceSystem, Name: keys}
			})},
		{by: theAuthor, to: "aim the configured cloud's user at another project", finding: "F-11", stop: product, shows: "ProjectNotAllowed",
			try: spec(map[string]any{"projectName": "another"})},
		{by: theAuthor, to: "have other calls made: names and IDs in his spec are paths", finding: "F-3", stop: product,
			try: spec(map[string]any{"image": "../../compute/v2.1/servers", "flavor": "../servers", "subnet": "../ports", "securityGroups": []string{"../ports?device_id="}})},
		{by: theAuthor, to: "stop the certificates of another Node: a paused Machine has its name", finding: "F-7", stop: product,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Spec.Metadata.Name = w.victim.ServerName()
				m.Annotations = map[string]string{v1alpha1.AnnotationPausedCAPI: ""}
			})},
		{by: theAuthor, to: "join as another group's Node: his server has its name", finding: "F-7", stop: product,
			try: forge(func(w *world, m *v1alpha1.Machine) { m.Spec.Metadata.Name = w.victim.ServerName() })},
		{by: theAuthor, to: "join as the control plane's Node: his server has its name", finding: "F-4", stop: product,
			try: forge(func(_ *world, m *v1alpha1.Machine) { m.Spec.Metadata.Name = controlPlane })},
		{by: theAuthor, to: "have another Machine's Node taken for his: his Node gets its mark from the template", finding: "F-4", stop: product,
			try: forge(func(w *world, m *v1alpha1.Machine) {
				m.Spec.Metadata.Labels = map[string]string{v1alpha1.LabelOwnedBy: string(w.victim.UID)}
				m.Spec.Metadata.Annotations = map[string]string{v1alpha1.AnnotationNodeMachine: w.victim.Namespace + "/" + w.victim.Name}
			})},
		{by: theAuthor, to: "end drover with a provider spec that is nested 5000 times", finding: "F-8", stop: product,
			try: forge(func(_ *world, m *v1alpha1.Machine) {
				var nested any = "x"
				for range 5000 {
					nested = map[string]any{"value": nested}
				}
				raw, err := json.Marshal(map[string]any{"cloudProvider": "openstack", "operatingSystem": "ubuntu", "cloudProviderSpec": map[string]any{"flavor": nested}})
				if err != nil {
					panic(err)
				}
				m.Spec.ProviderSpec.Value.Raw = raw
			})},
	}
}

// useClass makes a Machine take its provider spec from a class.
func useClass(m *v1alpha1.Machine, namespace, name string) {
	ref := v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Namespace: namespace, Name: name}}
	m.Spec.ProviderSpec = v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{MachineClass: &ref}}
}
