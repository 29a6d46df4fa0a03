package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// instance is the view of the cloud for one Machine. It is used by one goroutine, for one reconcile.
type instance struct {
	cloud      *Cloud
	connection *connection
	// key is the namespace and name of the Machine.
	key types.NamespacedName
	// machine holds the fields of the Machine that the inventory needs.
	machine state.Machine
	// badProviderID is set when spec.providerID is not the provider ID of a server.
	badProviderID *fault.Error
	config        *v1alpha1.ProviderConfig
	// spec is the Machine's provider spec. invalid is the error in it. While invalid is set, drover creates nothing but deletes as
	// usual, and spec may be nil.
	spec    *spec.Spec
	invalid error
	// plan is spec with all names resolved; nil until it is needed for a create.
	plan *catalog.Plan
	// warnings are the result of cloud.Instance.Warnings.
	warnings []string
	// recorded is the record in the Machine's status. trusted is true while the admission policies protect this record.
	recorded provider.Record
	trusted  bool
	// access holds the credentials of the Machine's spec; it is the zero value while the instance uses the credentials of another
	// Machine.
	access spec.Access
	// group is the node group or set whose share of the request rate the Machine uses.
	group string
	// unreadable is set when a document of the provider spec cannot be parsed, so that the credentials may be those of another
	// project. Then only a server with the Machine's own owner tag counts as its server, and only the project that the status
	// records can prove that the server is gone.
	unreadable *fault.Error
}

// Instance reads the Machine's provider spec. For a Machine that has a server or is being deleted it reads leniently, so that an
// error in the spec does not block the deletion of the Machine's resources. findProject chooses the project of a Machine that is
// being deleted.
func (c *Cloud) Instance(ctx context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	i := &instance{
		cloud: c, key: types.NamespacedName{Namespace: m.Namespace, Name: m.Name},
		config: &v1alpha1.ProviderConfig{},
	}
	i.recall(m)
	err := i.read(ctx, m)
	if i.machine.Leaving {
		err = i.findProject(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	i.moveProject()
	c.register(i)
	return i, nil
}

// read parses the provider spec and the credentials, and selects the connection for them.
func (i *instance) read(ctx context.Context, m *v1alpha1.Machine) error {
	lenient := i.machine.ServerID != "" || i.machine.Leaving
	s, err := i.cloud.specs.Read(ctx, spec.Object{
		Name: fmt.Sprintf("Machine %s/%s", m.Namespace, m.Name), Namespace: m.Namespace, Spec: &m.Spec, Labels: m.Labels,
		Lenient: lenient, HasServer: i.machine.ServerID != "",
	})
	if err != nil {
		return err
	}
	i.config, i.unreadable = s.Config, s.Unreadable
	if i.spec, i.invalid = s.Spec(); i.invalid != nil && !lenient {
		return i.invalid
	}
	if err := i.connect(ctx, m, s); err != nil {
		return err
	}
	i.warnings = append(i.warnings, s.Warnings()...)
	if i.cloud.options.Observe != nil && i.spec != nil && i.spec.FloatingIPPool != "" && !lenient {
		// Only a dry run says so, because this is a difference from machine-controller and no mistake of the author.
		i.warnings = append(i.warnings, "floatingIpPool: each new Machine gets a new address, which is deleted with it; a free address of the project is never taken")
	}
	if i.unreadable != nil && i.machine.Leaving && i.machine.ServerID == "" {
		// The credentials may be those of another project. drover then follows that project like all known projects.
		i.cloud.register(i)
		return i.unreadable
	}
	return nil
}

// connect selects the connection for the credentials of the provider spec. A Machine whose provider spec cannot be read uses the
// connection to the project in which its server is known.
func (i *instance) connect(ctx context.Context, m *v1alpha1.Machine, s *spec.Sources) error {
	if i.unreadable != nil {
		if i.connection = i.cloud.connections.ofMachine(i.machine.UID, i.machine.ServerID); i.connection != nil {
			return nil
		}
	}
	with, err := s.Access()
	if err != nil && i.unreadable != nil {
		return i.unreadable
	}
	if err != nil {
		return err
	}
	i.access = *with
	i.connection, err = i.cloud.connect(ctx, with, m)
	return err
}

// recall reads the references to resources in the Machine's spec, status and annotations.
func (i *instance) recall(m *v1alpha1.Machine) {
	i.group = groupOfMachine(m)
	i.trusted = i.cloud.options.Guarded != nil && i.cloud.options.Guarded()
	i.recorded = provider.RecordOf(m)
	i.machine = state.Machine{
		UID: m.UID, ServerName: m.ServerName(), ServerID: serverIDOf(m), FloatingIPID: m.Annotations[v1alpha1.FinalizerFloatingIP],
		Recorded: state.Site{Project: i.recorded.ProjectID, Region: i.recorded.Region}, Leaving: !m.DeletionTimestamp.IsZero(), Joined: m.Status.NodeRef != nil,
		Replaced: metav1.GetControllerOfNoCopy(m) != nil && !v1alpha1.Paused(m.Annotations),
		Ready:    m.Condition(v1alpha1.ConditionReady).Status == corev1.ConditionTrue,
	}
	named := ptr.Deref(m.Spec.ProviderID, "")
	switch uid, made := v1alpha1.MachineControllerUID(named); {
	case named == "" || i.machine.ServerID != "", made && uid == m.UID:
	case made:
		i.warnings = append(i.warnings, fmt.Sprintf("spec.providerID: %.100q names another Machine and no server; drover replaces it by that of this Machine's server", named))
	default:
		_, err := provider.ParseID(named)
		i.badProviderID = fault.New(fault.Invalid, fault.CodeInvalidSpec, "reading spec.providerID: %v", err)
	}
	switch allowed := m.Annotations[v1alpha1.AnnotationAdopt]; {
	case allowed == "":
	case !i.trusted:
		i.warnings = append(i.warnings, "annotation "+v1alpha1.AnnotationAdopt+": has no effect, because the admission policies that guard it are not in force")
	case provider.ServerIDOf(allowed) == "":
		i.warnings = append(i.warnings, fmt.Sprintf("annotation %s: %.64q is not the ID of a server", v1alpha1.AnnotationAdopt, allowed))
	default:
		i.machine.Adopts = provider.ServerIDOf(allowed)
	}
}

// groupOfMachine returns the group whose share of the request rate the Machine uses: its deployment (the set's name without the
// hash of the template), else its set. All Machines without an owner in a namespace form one group.
func groupOfMachine(m *v1alpha1.Machine) string {
	name := ""
	if owner := metav1.GetControllerOf(m); owner != nil {
		name = owner.Name
		if hash := m.Labels[v1alpha1.LabelTemplateHash]; hash != "" {
			name = strings.TrimSuffix(name, "-"+hash)
		}
	}
	return m.Namespace + "/" + name
}

// do makes a call for this Machine. When the call must wait for its turn, do returns an error with the code
// fault.CodeWaitingForTurn, and the Machine is enqueued once the call may be made.
func (i *instance) do(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error {
	if err := i.allowed(); err != nil {
		return err
	}
	c.By = i.caller()
	return i.explain(i.connection.session.Do(client.WithHiding(ctx, i.explain), c, fn))
}

// explain returns err as it is shown to users: a refused sign-in names the source of its secret, and values of the spec that came
// from a Secret or ConfigMap are replaced by their references.
func (i *instance) explain(err error) error {
	if err != nil && i.spec != nil {
		err = i.spec.Conceal(err)
	}
	return i.access.WithOrigin(err)
}

// now returns the time on drover's clock.
func (i *instance) now() time.Time { return i.cloud.options.Clock.Now() }

// serverIDOf returns the ID of the server in spec.providerID; empty when there is none.
func serverIDOf(m *v1alpha1.Machine) string {
	return provider.ServerIDOf(ptr.Deref(m.Spec.ProviderID, ""))
}

// allowed returns an error when the spec asks for another project than that of the configured cloud's user.
func (i *instance) allowed() error {
	scope, _ := i.connection.session.Known()
	if scope == nil {
		return nil
	}
	return i.access.Wanted.Check(scope)
}

// tag returns the owner tag of a resource of the Machine. n is the number of a port.
func (i *instance) tag(kind cloud.ResourceKind, n int) state.Tag {
	return state.Tag{Kind: kind, Cluster: i.cloud.options.ClusterID, Machine: i.machine.UID, N: n}
}

// caller returns the Machine and its group for the limiter.
func (i *instance) caller() client.Caller {
	return client.Caller{Group: i.group, UID: i.machine.UID, Key: i.key}
}

// Warnings returns the fields of the provider spec that are accepted and have no effect. Security groups have none on a port in a network
// whose port security is off.
func (i *instance) Warnings() []string {
	p := i.connection.attached()
	if p == nil || i.spec == nil || i.spec.DisablePortSecurity {
		return i.warnings
	}
	all := slices.Clone(i.warnings)
	for _, port := range p.ResourcesOf(i.machine.UID).Ports {
		if port.Open() {
			all = append(all, fmt.Sprintf("securityGroups: have no effect in network %s, because port security is off there", port.NetworkID))
		}
	}
	slices.Sort(all)
	return all
}

// Config returns the provider config, merged from all sources.
func (i *instance) Config() *v1alpha1.ProviderConfig { return i.config }

// project returns the Machine's project once its servers have been listed. Before that it returns nil, and an error only when
// waiting does not help.
func (i *instance) project() (*inventory.Project, error) {
	p := i.connection.attached()
	if p == nil {
		_, refused := i.connection.session.Known()
		return nil, i.access.WithOrigin(refused)
	}
	if err := i.allowed(); err != nil {
		return nil, err
	}
	var listed, has bool
	var failure error
	p.With(func(s *state.Project) {
		listed, failure = s.Listed()
		has = s.Servers.Has(i.machine.UID, i.machine.ServerID)
	})
	if !listed {
		return nil, failure
	}
	if i.unreadable != nil && p.Site() != i.machine.Recorded && !has {
		return nil, i.unreadable
	}
	return p, nil
}

// ready returns the Machine's project, or an error while its servers have not been listed.
func (i *instance) ready() (*inventory.Project, error) {
	p, err := i.project()
	if p == nil && err == nil {
		return nil, state.Unsettled("the servers of the project have not been listed yet")
	}
	return p, err
}

// server returns the Machine's project and server, or NotFound when there is no server.
func (i *instance) server() (*inventory.Project, *cloud.Server, error) {
	p, err := i.ready()
	if err != nil {
		return nil, nil, err
	}
	server := i.facts(p).Server
	if server == nil {
		return nil, nil, fault.New(fault.NotFound, fault.CodeResourceNotFound, "server %s does not exist", i.machine.ServerName)
	}
	return p, server, nil
}

// Reserve asks for what the Machine's server needs, and creates nothing.
func (i *instance) Reserve(ctx context.Context) error {
	_, _, end, err := i.beginMaking(ctx)
	if err == nil {
		end()
	}
	return err
}

// beginMaking returns the project and the resolved plan before a create, and reserves quota for all that the Machine lacks. It returns
// Transient while an earlier create of the server is in doubt. Until the caller calls end, drover deletes no port or floating IP of the
// Machine.
func (i *instance) beginMaking(ctx context.Context) (p *inventory.Project, plan *catalog.Plan, end func(), err error) {
	if i.invalid != nil {
		return nil, nil, nil, i.invalid
	}
	if p, err = i.ready(); err != nil {
		return nil, nil, nil, err
	}
	if i.plan == nil {
		if i.plan, err = i.connection.catalog.Resolve(ctx, i.spec); err != nil {
			return nil, nil, nil, i.explain(err)
		}
	}
	uid := i.machine.UID
	p.With(func(s *state.Project) { err = s.BeginMaking(uid, i.missingQuota(s.ResourcesOf(uid), i.plan), i.now()) })
	end = func() { p.With(func(s *state.Project) { s.EndMaking(uid) }) }
	return p, i.plan, end, err
}

// providerID returns the provider ID of the server's Node.
func (i *instance) providerID(serverID string) string {
	region := ""
	if id, _ := i.connection.session.Known(); id != nil && i.cloud.options.ProviderIDRegion {
		region = id.Region
	}
	return provider.ID{Region: region, Server: serverID}.String()
}
