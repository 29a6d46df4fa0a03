package machine

import (
	"context"
	"errors"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/fault"
)

// makeUserData makes the join token and the user data. A Machine that cannot have any (a kubelet outside the version
// skew, an unknown operating system) gets no server and says why; so does one that must wait for somebody else.
func (r *Reconciler) makeUserData(ctx context.Context, p *pass) (bool, error) {
	err := r.Bootstrap.Check(ctx, p.m)
	if err == nil {
		p.userData, err = r.Bootstrap.UserData(ctx, p.m, p.instance.Config())
	}
	var problem *bootstrap.Problem
	if errors.As(err, &problem) {
		r.fails(ctx, p, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s", problem.Message))
		return false, nil
	}
	var waiting *bootstrap.Waiting
	if errors.As(err, &waiting) {
		class, code := fault.Transient, fault.CodeBootstrapPending
		if waiting.Forbidden {
			class, code = fault.Auth, fault.CodeReferenceForbidden
		}
		r.fails(ctx, p, fault.New(class, code, "%s", waiting.Message))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.facts.userData = true
	return true, nil
}
