package openstack

import (
	"context"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// instance is one Machine's cloud side.
type instance struct {
	cloud      *Cloud
	connection *connection
	subject    subject
	// key is the Machine's.
	key types.NamespacedName
	// machine is what the inventory needs to know of the Machine.
	machine inventory.Machine
	// unnamed is set when spec.providerID holds something that is not the provider ID of a server.
	unnamed *fault.Error
	config  *v1alpha1.ProviderConfig
	// spec is nil when invalid says what is wrong with it: then nothing can be made any more, but all can be deleted.
	spec    *Spec
	invalid error
	// warnings: see cloud.Instance.
	warnings []string
	// recorded is what the Machine's status remembers. trusted: the admission policies guard it against everybody else.
	recorded inventory.Record
	trusted  bool
	// origin says where the secret of its credentials was taken from.
	origin string
	// wanted is what its spec asks of the configured cloud's user.
	wanted wantedIdentity
	// group is whose share of the requests the Machine takes.
	group string
	// unreadable is set when a document of the provider spec is no object, so that the credentials may be those of another
	// project. Then only a server with the Machine's own mark counts, and nothing is concluded from an absence, unless it is the
	// project that the status records.
	unreadable *fault.Error
}

// Instance reads the Machine's provider spec. A Machine that has a server, or is being deleted, is read leniently: an error in
// its spec does not keep its resources from being deleted. For a Machine that is being deleted see also findPlace.
func (c *Cloud) Instance(ctx context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	i := &instance{
		cloud: c, key: types.NamespacedName{Namespace: m.Namespace, Name: m.Name},
		subject: subject{cluster: c.options.ClusterID, uid: m.UID, server: m.ServerName()},
		config:  &v1alpha1.ProviderConfig{},
	}
	i.recall(m)
	err := i.read(ctx, m)
	if i.machine.Leaving {
		err = i.findPlace(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	i.moves()
	c.register(i)
	return i, nil
}

// read reads the provider spec and the credentials, and finds the connection for them.
func (i *instance) read(ctx context.Context, m *v1alpha1.Machine) error {
	c, name := i.cloud, fmt.Sprintf("Machine %s/%s", m.Namespace, m.Name)
	s := c.sources(m.Namespace, i.machine.ServerID != "" || i.machine.Leaving)
	s.named = i.machine.ServerID != ""
	if err := s.read(ctx, name, &m.Spec, m.Labels); err != nil {
		return err
	}
	i.config, i.unreadable = s.config, s.unreadable
	ls := layers{list: s.layers, get: s.dereference, lenient: s.lenient, note: s.note}
	if i.spec, i.invalid = readSpec(ctx, ls); i.invalid != nil && !s.lenient {
		return i.invalid
	}
	if err := i.connect(ctx, m, ls); err != nil {
		return err
	}
	i.origin, i.warnings = s.of(name, i.origin), append(i.warnings, s.warnings()...)
	if i.spec != nil && i.spec.ServerGroup == "" && c.options.SharedServerGroup {
		i.spec.ServerGroup = sharedGroup
	}
	if i.unreadable != nil && i.machine.Leaving && i.machine.ServerID == "" {
		// The credentials may be those of another project, which is looked at like all known ones.
		c.register(i)
		return i.unreadable
	}
	return nil
}

// connect signs in with the credentials of the layers. A Machine whose provider spec cannot be read takes the connection
// to the project that its server is known in.
func (i *instance) connect(ctx context.Context, m *v1alpha1.Machine, ls layers) error {
	if i.unreadable != nil {
		if i.connection = i.cloud.knowing(i.subject.uid, i.machine.ServerID); i.connection != nil {
			return nil
		}
	}
	with, err := readCredentials(ctx, ls, i.cloud.credentialRules())
	if err != nil && i.unreadable != nil {
		return i.unreadable
	}
	if err != nil {
		return err
	}
	i.origin, i.wanted = with.origin, with.wanted
	i.connection, err = i.cloud.connect(ctx, with, m)
	return err
}

// recall takes from the Machine what it remembers of its resources.
func (i *instance) recall(m *v1alpha1.Machine) {
	i.group = groupOfMachine(m)
	i.trusted = i.cloud.options.Guarded != nil && i.cloud.options.Guarded()
	i.recorded = inventory.RecordOf(m)
	i.machine = inventory.Machine{
		UID: m.UID, ServerName: m.ServerName(), ServerID: inventory.ServerIDOf(m), FloatingIPID: m.Annotations[v1alpha1.FinalizerFloatingIP],
		Recorded: i.recorded.Site(), Leaving: !m.DeletionTimestamp.IsZero(), Joined: m.Status.NodeRef != nil,
	}
	if named := ptr.Deref(m.Spec.ProviderID, ""); named != "" && i.machine.ServerID == "" {
		_, err := providerid.Parse(named)
		i.unnamed = fault.New(fault.Invalid, fault.CodeInvalidSpec, "reading spec.providerID: %v", err)
	}
	switch allowed := m.Annotations[v1alpha1.AnnotationAdopt]; {
	case allowed == "":
	case !i.trusted:
		i.warnings = append(i.warnings, "annotation "+v1alpha1.AnnotationAdopt+": has no effect while the admission policies that guard it are not in force")
	case providerid.Server(allowed) == "":
		i.warnings = append(i.warnings, fmt.Sprintf("annotation %s: %.64q is not the ID of a server", v1alpha1.AnnotationAdopt, allowed))
	default:
		i.machine.Adopts = providerid.Server(allowed)
	}
}

// groupOfMachine tells whose share of the cloud's attention the Machine's calls take: its deployment's (the set's name
// without the hash of the template), else its set's; Machines without an owner share theirs in their namespace.
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

// do makes a call for this Machine. When it has to wait for its turn the error's code is fault.CodeWaitingForTurn, and the
// Machine is woken once it may be made.
func (i *instance) do(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error {
	if err := i.allowed(); err != nil {
		return err
	}
	c.Machine = i.ref()
	return i.explain(i.connection.session.Do(client.WithGroup(ctx, i.group), c, fn))
}

// explain returns an error about the Machine's cloud as it is shown: a refused sign-in names where the secret came from, and
// values of the spec that came from a Secret or ConfigMap are replaced by their references.
func (i *instance) explain(err error) error {
	if err != nil && i.spec != nil && i.spec.origin != nil {
		err = i.spec.origin.conceal(err)
	}
	return unauthorized(i.origin, err)
}

// allowed returns an error when the spec asks for another project than that of the configured cloud's user.
func (i *instance) allowed() error {
	scope, _ := i.connection.session.Known()
	if scope == nil {
		return nil
	}
	return i.wanted.check(scope)
}

// ref names the Machine for the limiter.
func (i *instance) ref() client.MachineRef {
	return client.MachineRef{UID: i.subject.uid, Key: i.key}
}

// Warnings name the keys of the provider spec that are accepted without effect.
func (i *instance) Warnings() []string { return i.warnings }

// Config is the envelope after all layers.
func (i *instance) Config() *v1alpha1.ProviderConfig { return i.config }

// project gives the Machine's project once its lists have been seen. Before, it is nil; the error says why it will not
// come by itself.
func (i *instance) project() (*inventory.Project, error) {
	p := i.connection.attached()
	if p == nil {
		_, refused := i.connection.session.Known()
		return nil, unauthorized(i.origin, refused)
	}
	if err := i.allowed(); err != nil {
		return nil, err
	}
	if listed, failure := p.Listed(); !listed {
		return nil, failure
	}
	if i.unreadable != nil && p.Site() != i.machine.Recorded && !p.HasServer(i.machine.UID, i.machine.ServerID) {
		return nil, i.unreadable
	}
	return p, nil
}

// ready is project for those who must have it.
func (i *instance) ready() (*inventory.Project, error) {
	p, err := i.project()
	if p == nil && err == nil {
		e := fault.New(fault.Transient, fault.CodeUnsettled, "the servers of the project have not been listed yet")
		e.RetryAfter = inventory.FastPeriod
		return nil, e
	}
	return p, err
}

// beginMaking returns the project and the resolved spec, for those who make something. Until end is called, what the Machine
// has is not released.
func (i *instance) beginMaking(ctx context.Context) (p *inventory.Project, resolved *plan, end func(), err error) {
	if i.invalid != nil {
		return nil, nil, nil, i.invalid
	}
	if p, err = i.ready(); err != nil {
		return nil, nil, nil, err
	}
	if resolved, err = i.connection.catalog.resolve(ctx, i.spec); err != nil {
		return nil, nil, nil, i.explain(err)
	}
	end, err = p.BeginMaking(i.machine.UID)
	return p, resolved, end, err
}

// providerID is the identity that the Node will bear.
func (i *instance) providerID(serverID string) string {
	region := ""
	if id, _ := i.connection.session.Known(); id != nil && i.cloud.options.ProviderIDRegion {
		region = id.Region
	}
	return providerid.ID{Region: region, Server: serverID}.String()
}
