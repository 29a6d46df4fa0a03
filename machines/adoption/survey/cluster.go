package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/handover"
)

// The subjects of findings.
const (
	aboutLease   = "lease"
	aboutWebhook = "webhook"
	aboutKinds   = "CRDs"
	aboutGuards  = "policies"
	aboutRights  = "rights"
)

// cluster adds to the report what an operator should know about the cluster itself.
func (o *Options) cluster(ctx context.Context, report *adoption.Report) {
	for subject, find := range map[string]func(context.Context) ([]adoption.Finding, error){
		aboutLease: o.lease, aboutWebhook: o.webhooks, aboutKinds: o.kinds, aboutGuards: o.guards, aboutRights: o.rights,
	} {
		found, err := find(ctx)
		if err != nil {
			report.Incomplete = append(report.Incomplete, fmt.Sprintf("%s: %v", subject, err))
		}
		report.Findings = append(report.Findings, found...)
	}
	slices.SortStableFunc(report.Findings, func(a, b adoption.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	slices.Sort(report.Incomplete)
}

// lease reports which program holds machine-controller's lease.
func (o *Options) lease(ctx context.Context) ([]adoption.Finding, error) {
	if o.Lease.Name == "" {
		return nil, nil
	}
	var lease coordinationv1.Lease
	if err := o.Client.Get(ctx, o.Lease, &lease); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	age, life := time.Duration(0), time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15))*time.Second
	if lease.Spec.RenewTime != nil {
		age = o.Clock.Now().Sub(lease.Spec.RenewTime.Time).Truncate(time.Second)
	}
	switch {
	case holder == "", age > 2*life:
		return nil, nil
	case holder == o.Holder:
		return []adoption.Finding{{Subject: aboutLease, Message: fmt.Sprintf("drover runs already: it renewed lease %s %s ago", o.Lease, age)}}, nil
	}
	if namespace, is := handover.NamespaceOf(holder); is {
		return []adoption.Finding{{
			Subject: aboutLease, Message: fmt.Sprintf("another drover runs, in namespace %s: it renewed lease %s %s ago. This drover stays idle until the other one is removed", namespace, o.Lease, age),
		}}, nil
	}
	return []adoption.Finding{{
		Subject: aboutLease, Message: fmt.Sprintf("machine-controller runs: %s renewed lease %s %s ago. drover stays idle until machine-controller is stopped", holder, o.Lease, age),
		Remedy: fmt.Sprintf("kubectl -n %s scale deployment machine-controller --replicas=0", o.Lease.Namespace),
	}}, nil
}

// webhooks reports the admission webhooks that intercept writes of drover's kinds.
func (o *Options) webhooks(ctx context.Context) ([]adoption.Finding, error) {
	all, err := handover.Read(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	var found []adoption.Finding
	for _, hook := range all {
		why, err := handover.Dead(ctx, o.Client, hook)
		if err != nil {
			return found, err
		}
		f := adoption.Finding{Subject: aboutWebhook, Message: fmt.Sprintf("%s intercepts writes of %s", hook, hook.Resources), Remedy: hook.Remedy()}
		switch {
		case why != "" && hook.Refuses:
			f.Message = fmt.Sprintf("%s refuses every write of %s, since %s", hook, hook.Resources, why)
		case why != "":
			f.Message += ", and does not answer: " + why
		case hook.URL != "":
			f.Message += "; drover has not tried whether " + hook.URL + " answers"
		}
		found = append(found, f)
	}
	return found, nil
}

// kinds reports which CRDs differ from those of this version.
func (o *Options) kinds(ctx context.Context) ([]adoption.Finding, error) {
	differing, err := o.differing(ctx, o.Kinds, schemaOf)
	if err != nil || len(differing) == 0 {
		return nil, err
	}
	return []adoption.Finding{{
		Subject: aboutKinds, Message: strings.Join(differing, "; "), Remedy: "kubectl apply --server-side --force-conflicts -k deploy/crds",
	}}, nil
}

// schemaOf returns the part of a CRD that describes its versions and schemas. All its numbers have the same Go type, so that a CRD
// from a file can be compared with one from the API server.
func schemaOf(crd *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := crd.Object["spec"].(map[string]any)
	var versions any
	if raw, err := json.Marshal(spec["versions"]); err == nil {
		_ = json.Unmarshal(raw, &versions) // this cannot fail: json.Marshal has just encoded raw
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": versions}}}
}

// guards reports which admission policies differ from those of this version.
func (o *Options) guards(ctx context.Context) ([]adoption.Finding, error) {
	differing, err := o.differing(ctx, o.Policies, func(u *unstructured.Unstructured) *unstructured.Unstructured { return u })
	if err != nil || len(differing) == 0 {
		return nil, err
	}
	return []adoption.Finding{{
		Subject: aboutGuards, Message: fmt.Sprintf("%d of %d policies and bindings are missing or altered, so drover trusts no value that the authors of objects could have written", len(differing), len(o.Policies)),
		Remedy: "kubectl apply --server-side -k deploy",
	}}, nil
}

// differing returns the names of the shipped objects that the cluster lacks, or whose stored version differs. The function part
// returns the part of an object that is compared.
func (o *Options) differing(ctx context.Context, shipped []*unstructured.Unstructured, part func(*unstructured.Unstructured) *unstructured.Unstructured) ([]string, error) {
	var out []string
	for _, want := range shipped {
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(want.GroupVersionKind())
		err := o.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, want.GetName()+" does not exist")
		case err != nil:
			return nil, fmt.Errorf("reading %s %s: %w", want.GetKind(), want.GetName(), err)
		case guard.Altered(part(want), part(have)) != "":
			out = append(out, want.GetName()+" differs from the one of this version")
		}
	}
	return out, nil
}
